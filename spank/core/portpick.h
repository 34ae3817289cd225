/* portpick.h - which port MASTER_PORT may be, and in which order to try them. */
#ifndef GS_PORTPICK_H
#define GS_PORTPICK_H

#include <stdint.h>

#include "error.h"

#define GS_PORT_MIN 1024
#define GS_PORT_MAX 65535
#define GS_PORT_RANGES 32

struct gs_portrange {
    uint16_t lo, hi; /* both included */
};

struct gs_portrules {
    uint16_t eph_lo, eph_hi; /* ip_local_port_range of the node; 0 0 = not known */
    struct gs_portrange allowed[GS_PORT_RANGES]; /* none = all */
    uint32_t allowed_count;
    struct gs_portrange avoid[GS_PORT_RANGES]; /* Slurm's own ports and the like */
    uint32_t avoid_count;
};

/* No restriction but Slurm's default ports and Linux's default ephemeral range. */
void gs_portrules_init(struct gs_portrules *rules);

/* The attempt-th (from 0) port to try for a step: the caller binds each in turn until
 * one is free. The order is a permutation that depends on job and step alone, so every
 * node computes the same and steps that share a node start far apart; each port comes
 * once. Ports in the ephemeral range, which the kernel hands to any connection, come
 * only after all others; among the others those below 10000, where services live, come
 * last unless the site chose the ports itself.
 *
 * Returns 0 and *ret_port; -ENOSPC when attempt is beyond the last port, with a
 * sentence naming the ranges that were tried; -EINVAL when a range is malformed. */
int gs_port_candidate(const struct gs_portrules *rules,
                      uint32_t job_id,
                      uint32_t step_id,
                      uint32_t attempt,
                      uint16_t *ret_port,
                      struct gs_error *error);

/* Reads a MASTER_PORT that a user set: decimal digits, no sign, blank or leading zero,
 * GS_PORT_MIN to GS_PORT_MAX (a task cannot bind lower ports). Returns 0, or -EINVAL
 * with a sentence naming the value. */
int gs_port_read(const char *text, uint16_t *ret_port, struct gs_error *error);

#endif
