/* stepread_private.h - reading a step's variables, shared by stepinfo.c and steplist.c.
 */
#ifndef GS_STEPREAD_PRIVATE_H
#define GS_STEPREAD_PRIVATE_H

#include "envplan_private.h"

#define GS_TASKS_MAX 0xffffff /* more is a garbled value, not a step */

struct gs_stepread {
    const char *const *env;
    const struct gs_envfacts *facts;
    struct gs_stepinfo *info;
    struct gs_envplan *plan;
    const char *list_name, *counts_name; /* the variables used */
    const char *list_text, *counts_text;
    uint32_t *counts; /* tasks on each node of the list, NULL = not known */
    uint32_t counts_nodes;
    bool counts_own; /* the counts are the step's, not the job's */
    bool het, arbitrary;
};

/* Reads a number from the variable, else from the item; *ret_known tells whether either
 * was there, *ret_value stays as it is if not. */
int gs_stepread_number(struct gs_stepread *r,
                       const char *name,
                       int64_t item,
                       uint32_t *ret_value,
                       bool *ret_known);

/* World size and tasks per node; then nodes and their names; then this node's ranks. */
int gs_stepread_counts(struct gs_stepread *r);
int gs_stepread_hosts(struct gs_stepread *r);
int gs_stepread_gtids(struct gs_stepread *r);

#endif
