/* slurmread.h - what the plugin reads of Slurm's structures, as values of its own. */
#ifndef GS_SLURMREAD_H
#define GS_SLURMREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "why.h"

/* slurmctld's record of a node. */
struct gs_slurm_node {
    uint32_t state;                  /* NODE_STATE_… */
    uint16_t port;                   /* slurmd's, 0 = not told */
    char reason[GS_WHY_REASON_SIZE]; /* "" = none */
    char address[256];               /* "" = not told */
};

/* A step's ranks; the pointers are Slurm's and live until gs_slurm_layout_free(). */
struct gs_slurm_layout {
    uint32_t node_count, task_count;
    uint16_t protocol; /* that the step's nodes speak */
    const char *node_list;
    const uint16_t *tasks;        /* per node */
    const uint32_t *const *ranks; /* per node; NULL = not told */
    void *owned;
};

/* Asks slurmctld; false where it does not know this one node. */
bool gs_slurm_node(const char *name, struct gs_slurm_node *ret_node);

/* Asks the node's slurmd how many processes it sees in the step; 0 also when the step
 * is not there. */
uint32_t gs_slurm_processes(const char *node,
                            uint32_t job_id,
                            uint32_t step_id,
                            uint16_t protocol);

/* Asks slurmctld; false where it tells no layout. */
bool gs_slurm_layout_get(uint32_t job_id,
                         uint32_t step_id,
                         struct gs_slurm_layout *ret_layout);
void gs_slurm_layout_free(struct gs_slurm_layout *layout);

#endif
