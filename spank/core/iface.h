/* iface.h - which of a node's addresses may become MASTER_ADDR, and in which order.
 *
 * The order is only a proposal: an address is used when every node has proven that it
 * reaches rank 0's node there.
 */
#ifndef GS_IFACE_H
#define GS_IFACE_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "wire.h"

#define GS_IFACE_MAX 64

/* One address of one network interface. */
struct gs_iface {
    char name[GS_ADDR_SIZE];
    char address[GS_ADDR_SIZE]; /* numeric */
    bool up;
    bool loopback;
};

/* Reads this host's addresses, in the kernel's order. Returns how many (at most
 * GS_IFACE_MAX) or -errno. */
int gs_iface_list(struct gs_iface *ret_ifaces, struct gs_error *error);

/* Orders the usable ones of count addresses into ret_candidates (at most
 * GS_CANDIDATE_MAX), pure. wanted: "" or an interface's name or a CIDR, then nothing
 * else is considered. toward: the address this node uses towards srun ("" = unknown);
 * it comes first unless wanted says otherwise, since Slurm already works over it.
 * Left out unless wanted: loopback, link-local, and, unless Slurm works over it, what
 * is named like the bridges that container engines make with the same address on every
 * host; IPv6 link-local always, since it needs a scope. Returns the number, or
 * -EADDRNOTAVAIL with a sentence that lists what there is. */
int gs_iface_rank(const struct gs_iface *ifaces,
                  uint32_t count,
                  const char *wanted,
                  const char *toward,
                  struct gs_candidate *ret_candidates,
                  struct gs_error *error);

#endif
