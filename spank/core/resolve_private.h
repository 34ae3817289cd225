/* resolve_private.h - name look-ups in a process of their own.
 *
 * A resolver may block for half a minute and takes locks that slurmstepd's other
 * threads may hold; so getent(1) asks it, and is killed at a deadline.
 */
#ifndef GS_RESOLVE_PRIVATE_H
#define GS_RESOLVE_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire.h"

#define GS_RESOLVE_US 5000000

struct gs_resolver {
    bool active;
    pid_t pid;
    int fd;
    int64_t begun_us;
    size_t got;
    char text[4096];
};

/* Whether text can be a host name or an address at all. */
bool gs_resolve_is_name(const char *text);
/* Whether text is a numeric address: there is nothing to look up. */
bool gs_resolve_is_numeric(const char *text);

/* Starts a look-up. Returns 0 or -errno. */
int gs_resolver_start(struct gs_resolver *resolver, const char *name, int64_t now_us);
/* Kills a look-up under way. */
void gs_resolver_stop(struct gs_resolver *resolver);

/* Goes on, never blocks: 1 = done, text holds one line per address (first word);
 * 0 = not yet; -ENOENT = does not resolve; -ETIMEDOUT = the resolver did not answer. */
int gs_resolver_step(struct gs_resolver *resolver, int64_t now_us);

/* Copies the n-th distinct address of a finished look-up; false when there is none. */
bool gs_resolver_address(const struct gs_resolver *resolver,
                         uint32_t n,
                         char ret_address[GS_ADDR_SIZE]);

#endif
