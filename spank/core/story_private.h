/* story_private.h - pieces of text that lines and report share. */
#ifndef GS_STORY_PRIVATE_H
#define GS_STORY_PRIVATE_H

#include <stdbool.h>

#include "story.h"
#include "strbuf_private.h"

/* A node that did not get as far as the step needed, for the reason at hand. */
bool gs_story_blames(const struct gs_story *story, uint32_t node);

/* A task that stood at the barrier when it was decided, or until Slurm gave up. */
bool gs_story_was_ready(const struct gs_gang *gang, uint32_t rank);

/* How many of a node's tasks. */
uint32_t gs_story_count_ready(const struct gs_gang *gang, const struct gs_node *node);

/* What exactly is wrong there; "" = the phase says it all. */
void gs_story_detail(const struct gs_story *story,
                     uint32_t node,
                     struct gs_strbuf *ret_text);

/* Why a node's GPUs do not do. */
void gs_story_unfit(const struct gs_node *node, struct gs_strbuf *ret_text);

/* The GPUs of the whole step in a few words, " · 512 GPUs ok"; nothing if there are
 * none. Then the lines of warning about them. */
void gs_story_gpus(const struct gs_story *story, struct gs_strbuf *out);
void gs_story_gpu_warnings(const struct gs_story *story, struct gs_strbuf *out);

/* The report's part about the GPUs of the step, and of one node. */
void gs_story_put_health(struct gs_strbuf *out, const struct gs_story *story);
void gs_story_put_node_health(struct gs_strbuf *out, const struct gs_node *node);

/* How a task ended: "exit code 3", "signal 9 (Killed)". */
void gs_story_ending(const struct gs_task *task, struct gs_strbuf *ret_text);

/* GPUs seen by a task are fewer than its local rank needs. */
bool gs_story_misbound(const struct gs_gang *gang, uint32_t node, uint32_t local);

/* How many tasks are in a network namespace that is not their node's; the first one's
 * rank, GS_NO_RANK = none. */
uint32_t gs_story_apart(const struct gs_gang *gang, uint32_t *ret_rank);

/* Seconds of a span; 0 for a negative one. */
double gs_story_seconds(int64_t us);

/* Names of some nodes as one list, malloc'd; NULL = out of memory. */
char *gs_story_fold(const struct gs_gang *gang, const uint32_t *nodes, uint32_t count);

#endif
