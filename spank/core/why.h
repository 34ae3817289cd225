/* why.h - why a node has not come: facts gathered from outside -> one clause.
 *
 * Pure. The facts cost no privilege: slurmctld's record of the node, whether its
 * slurmd takes a connection and reacts, and whether the step's processes run there.
 */
#ifndef GS_WHY_H
#define GS_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define GS_WHY_REASON_SIZE 128

/* How slurmd took a connection that was closed at once on our side. */
enum gs_why_slurmd {
    GS_SLURMD_UNKNOWN = 0,
    GS_SLURMD_UNREACHABLE = 1, /* no connection: connect_errno */
    GS_SLURMD_MUTE = 2,        /* the kernel accepted, slurmd has not reacted */
    GS_SLURMD_ALIVE = 3
};

struct gs_why {
    bool asked;                                 /* anything below is known at all */
    bool down, not_responding, drain, powering; /* slurmctld's record */
    char reason[GS_WHY_REASON_SIZE]; /* the admin's or Slurm's Reason, "" = none */
    enum gs_why_slurmd slurmd;
    int connect_errno;
    int64_t mute_us;               /* how long it has not reacted */
    bool step_known;               /* slurmd has answered whether the step is there */
    bool step_there;               /* its slurmstepd runs there */
    uint32_t process_count;        /* of the step on that node */
    char user_init[GS_NAMES_SIZE]; /* plugins that work before tasks are started */
    bool prolog;                   /* a Prolog runs at the first step's launch here */
};

/* Writes the clause, such as "slurmd answers; Prolog running for 61 s". waited_us:
 * since srun launched the step. Writes "" if nothing is known. */
void gs_why_text(const struct gs_why *why,
                 int64_t waited_us,
                 char *ret_text,
                 size_t size);

#endif
