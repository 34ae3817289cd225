/* ctx_stepd.h - what slurmstepd knows about its gang step; a task has a copy of it. */
#ifndef GS_CTX_STEPD_H
#define GS_CTX_STEPD_H

#include "page_private.h"
#include "plugin.h"

struct gs_step {
    uint32_t job_id, step_id;
    uint32_t leader_id; /* job id that users see */
    char name[32];      /* "7877.0" */
    struct gs_spec spec;
    struct gs_page *page;
    int wake_fd;
    int stepd_pid;
    uint64_t network; /* identity of its network namespace, 0 = not known */
    char report[GS_SPEC_PATH_SIZE + 64];
};

/* The step, or NULL when this slurmstepd runs no gang step. */
struct gs_step *gs_stepd_step(void);

/* Identity of the network namespace this process is in, 0 = not known (no /proc). */
uint64_t gs_own_network(void);

/* In a task: marks its slot, already filled in, as arrived and wakes the aggregator. */
void gs_slot_arrive(const struct gs_step *step, struct gs_slot *slot);

#endif
