/* asknodes.h - asks around about nodes that have not come, in the background.
 *
 * Every node is asked in a thread of its own that may hang as long as Slurm's own
 * time-outs last; whoever wants to know takes what there is. */
#ifndef GS_ASKNODES_H
#define GS_ASKNODES_H

#include <stdint.h>

#include "why.h"

#define GS_ASK_NODES                                                                   \
    32 /* nodes that are asked one by one; the rest stays unexplained */

/* Protocol version that the step's nodes speak, from its layout; 0 = not known, then
 * nobody is asked whether the step is there. */
void gs_ask_protocol(uint16_t version);

/* How long asking a slurmd may take that takes connections and does not answer. */
#define GS_ASK_TAKES_US 1500000

/* Starts to ask about a node unless that is under way or was begun after since_us, by
 * gs_clock_now_us(). */
void gs_ask_node(const char *name, uint32_t job_id, uint32_t step_id, int64_t since_us);

/* What is known about a node by now; mute_us is counted to then_us, by
 * gs_clock_now_us(). */
void gs_ask_result(const char *name, int64_t then_us, struct gs_why *ret_why);

/* Whether any node was seen to run tasks of the step. */
bool gs_ask_saw_tasks(void);

/* Waits up to ms for askers under way; returns how many still are. */
uint32_t gs_ask_finish(unsigned ms);

#endif
