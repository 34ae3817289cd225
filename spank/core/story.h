/* story.h - what a person is told, and what is kept: lines and report of one start.
 *
 * Pure: everything comes from the gang and the facts beside it.
 */
#ifndef GS_STORY_H
#define GS_STORY_H

#include <stdint.h>

#include "gang.h"
#include "spec.h"
#include "wire.h"

#define GS_REPORT_VERSION 1

struct gs_gpuverdict;

struct gs_story {
    const struct gs_gang *gang;
    const struct gs_master *master; /* NULL = rank 0's node made no offer */
    uint32_t candidate;
    const char *master_addr; /* what MASTER_ADDR says */
    const struct gs_spec *spec;
    int64_t begun_us;    /* srun began to wait, the gang's clock */
    int64_t wall_us;     /* wall clock of the decision, since the epoch */
    const char *version; /* of the plugin */
    const char *slurm_version;
    const char *cluster;
    const char *submit_host;
    const char *program;  /* the step's command, as srun knows it */
    const char *launcher; /* it starts a node's processes itself; NULL = it does not */
    uint32_t user_id;
    const struct gs_gpuverdict *odd; /* of gangodd.h; NULL = not compared */
};

/* The line for a good start, and a warning line for each thing to know. malloc'd,
 * ends with a newline; free with gs_text_free(). NULL = out of memory. */
char *gs_story_start(const struct gs_story *story);

/* The line that a terminal shows while nodes are missing: it overwrites itself and has
 * no newline. As above. */
char *gs_story_waiting(const struct gs_story *story, int64_t now_us);

/* The lines for a refused start, naming only those that are not ready. As above. */
char *gs_story_refusal(const struct gs_story *story);

/* The report, one JSON object as docs/report.schema.json has it. As above. head is the
 * part that is the same for every reader, from gs_story_head(); node: only this node's
 * own entry ("complete": false), GS_NO_RANK = all of them. */
char *gs_story_head(const struct gs_story *story);
char *gs_story_report(const struct gs_story *story, const char *head, uint32_t node);

/* "released", "refused", "cancelled", "waiting"; "timeout", "task_ended", ... */
const char *gs_outcome_name(enum gs_outcome outcome);
const char *gs_refusal_name(enum gs_refusal reason);

/* How far a node got, as one word group for people and the report. Static. */
const char *gs_node_phase(const struct gs_node *node);

#endif
