/* jobcheck.h - a node's GPUs before and after a job: the look, what changed, the event.
 */
#ifndef GS_JOBCHECK_H
#define GS_JOBCHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "gpudiff.h"
#include "health.h"

#define GS_CHECK_VERSION 1

/* Where to look; texts may be NULL or "". */
struct gs_jobcheck_conf {
    const char *probe;
    const char *policy; /* gangstart.conf */
    bool policy_optional;
    const char *spool;
    const char *devices; /* SLURM_JOB_GPUS */
};

/* Fill in the first part, run, look, clear. */
struct gs_jobcheck {
    enum gs_stage stage;
    uint32_t job_id, user_id;
    const char *node;
    /* What came out. */
    struct gs_policy policy;
    struct gs_health *health;
    bool compared;
    struct gs_gpudiffs diffs;
    int64_t wall_us;
};

/* Looks at the GPUs, and at the end of a job compares them with its first sample. Waits
 * for the probe, within its deadlines. 0 or -ENOMEM; all else is in the result. */
int gs_jobcheck_run(struct gs_jobcheck *check, const struct gs_jobcheck_conf *conf);

/* The worse of the look and of what changed. */
enum gs_verdict gs_jobcheck_verdict(const struct gs_jobcheck *check);

/* Whether the node should take no further job: a failed check that is settled. */
bool gs_jobcheck_drains(const struct gs_jobcheck *check);

/* For people, one line; and the event, one JSON object without line end
 * (docs/check.schema.json). Both for gs_text_free(), NULL = out of memory. */
char *gs_jobcheck_sentence(const struct gs_jobcheck *check);
char *gs_jobcheck_event(const struct gs_jobcheck *check);

/* What differs between two records of one node; the kernel log is read now, NULL: from
 * the usual place. 0 and *ret_diffs for gs_gpudiffs_free(); -EPROTO with a sentence:
 * one of them is no record; -ENOMEM. */
int gs_records_compare(const char *before,
                       const char *after,
                       const char *kernel_log,
                       struct gs_gpudiffs *ret_diffs,
                       struct gs_error *error);

void gs_jobcheck_clear(struct gs_jobcheck *check);

#endif
