/* decider_private.h - the first node decides, because srun cannot be reached.
 *
 * A gs_root in a thread of the first node's slurmstepd. What it has to say goes to the
 * shared page: one of the node's tasks prints it, since slurmstepd has no way to the
 * user's terminal of its own. */
#ifndef GS_DECIDER_PRIVATE_H
#define GS_DECIDER_PRIVATE_H

#include "error.h"
#include "page_private.h"
#include "policy.h"
#include "spec.h"
#include "wire.h"

/* After a refusal, for nodes that have not come yet. */
#define GS_DECIDER_LATE_MS 3000

struct gs_deciderconf {
    uint8_t key[GS_KEY_SIZE];
    struct gs_hello hello; /* identity and size of the step */
    const char *step_nodes;
    const struct gs_spec *spec;
    struct gs_page *page;
    uint32_t user_id;
    const struct gs_policy *policy; /* of the site; NULL: GPUs are not compared */
    const char *why;                /* "srun cannot be reached", for the lines */
};

struct gs_decider;

/* Takes over listen_fd and starts; conf is copied, its pointers are not. NULL with a
 * sentence if it cannot. */
struct gs_decider *gs_decider_start(const struct gs_deciderconf *conf,
                                    int listen_fd,
                                    struct gs_error *error);
/* Ends it (undecided: refused) and frees; after a refusal this takes as long as nodes
 * are missing, GS_DECIDER_LATE_MS at most. NULL is fine. */
void gs_decider_stop(struct gs_decider *decider);

#endif
