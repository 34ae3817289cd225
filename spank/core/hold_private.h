/* hold_private.h - MASTER_PORT: chosen, bound and held on rank 0's node until release.
 *
 * Bound, so that nobody else gets it before the start; and noted by a lock under the
 * spool for as long as the step lives, so that a step that starts between our release
 * and the program's own bind does not choose it too.
 */
#ifndef GS_HOLD_PRIVATE_H
#define GS_HOLD_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "portpick.h"
#include "proof_private.h"

struct gs_holdconf {
    struct gs_portrules rules;
    uint32_t job_id, step_id;
    uint16_t fixed;     /* 0 = choose */
    char lock_dir[256]; /* "" = no locks */
};

struct gs_hold {
    uint16_t port;
    int lock_fd;
    char lock_path[320];
    struct gs_holder holder;
};

/* Prepares an empty hold, so that close is fine at any time. */
void gs_hold_init(struct gs_hold *hold);

/* Takes the port. Returns 0, -EADDRINUSE or another -errno with a sentence that names
 * the port and, where it can be seen, the process that has it. */
int gs_hold_open(struct gs_hold *hold,
                 const struct gs_holdconf *conf,
                 struct gs_error *error);

/* Gives the socket up for the program; the lock stays. */
void gs_hold_release(struct gs_hold *hold);
/* Gives everything up and removes the lock. */
void gs_hold_close(struct gs_hold *hold);

/* Who listens on a TCP port of this host: "pid 4711 (python3)", or "" if that cannot
 * be seen. */
void gs_hold_owner(uint16_t port, char *ret_text, size_t size);

#endif
