/* taskmap.h - Slurm's run-length task counts: "2(x3),1" -> 2 2 2 1. */
#ifndef GS_TASKMAP_H
#define GS_TASKMAP_H

#include <stdint.h>

#include "error.h"

#define GS_TASKS_PER_NODE_MAX 65535 /* Slurm counts the tasks of a node in 16 bits */

/* Reads SLURM_STEP_TASKS_PER_NODE and its like: one count for each node of the list,
 * in list order. At most GS_HOSTS_MAX nodes and GS_TASKS_PER_NODE_MAX tasks on each;
 * a count or repetition of 0 is refused, since every node of a step runs a task.
 *
 * Returns 0, *ret_counts (for gs_counts_free()) and *ret_nodes; -EINVAL (error quotes
 * the text), -ENOMEM. */
int gs_taskmap_counts(const char *text,
                      uint32_t **ret_counts,
                      uint32_t *ret_nodes,
                      struct gs_error *error);

/* Frees the counts. NULL is fine. */
void gs_counts_free(uint32_t *counts);

#endif
