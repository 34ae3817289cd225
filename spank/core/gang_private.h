/* gang_private.h - the one way to an outcome. */
#ifndef GS_GANG_PRIVATE_H
#define GS_GANG_PRIVATE_H

#include "gang.h"

/* Sets the outcome, unless there is one already. */
void gs_gang_decide(struct gs_gang *gang,
                    enum gs_outcome outcome,
                    enum gs_refusal reason,
                    uint8_t code,
                    int64_t now_us);

/* What a node says contradicts the step: that refuses the start, naming the node (an
 * index out of range: nobody). Ignored after the decision. */
void gs_gang_contradict(struct gs_gang *gang,
                        uint32_t node,
                        const char *text,
                        int64_t now_us);

/* NULL is fine. */
void gs_nodehealth_free(struct gs_nodehealth *health);

/* Whether enough is known of the GPUs to start; may refuse. Everything else is ready if
 * `ready`. */
bool gs_gang_health_tick(struct gs_gang *gang, bool ready, int64_t now_us);

#endif
