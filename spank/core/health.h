/* health.h - one look at a node's GPUs: probe, kernel log, judgement, and its record.
 *
 * Made to be stepped by a thread that has other things to do: nothing here waits for a
 * driver. The record is one JSON object (docs/health.schema.json); a later look at the
 * same node reads it back to compare.
 */
#ifndef GS_HEALTH_H
#define GS_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "gpurule.h"
#include "probe.h"

#define GS_HEALTH_VERSION 1
#define GS_HEALTH_DEVICES 64

/* Why the GPUs are looked at. */
enum gs_stage {
    GS_STAGE_NODE,   /* somebody wants to know */
    GS_STAGE_START,  /* a step is about to start */
    GS_STAGE_PROLOG, /* a job is about to start */
    GS_STAGE_EPILOG, /* a job has ended */
    GS_STAGES
};

/* Zero or NULL is the ordinary answer. Texts and policy outlive the look. */
struct gs_health_ask {
    struct gs_probe_ask probe; /* program NULL: there is none, and so no answer */
    const struct gs_policy *policy;
    enum gs_stage stage;
    bool idle;              /* no job uses the node's GPUs */
    bool in_container;      /* or in another cgroup than the node's own */
    int32_t expected;       /* GPUs that Slurm gives the node, 0 = not known */
    const char *kernel_log; /* a file; NULL: the policy's or /dev/kmsg; "" = none */
    const char *devices;    /* the job's GPUs as Slurm says: "0,2" or "GPU-..,GPU-.." */
    int64_t patience_us;    /* a bad GPU is looked at again for this long at most */
    int64_t total_us;       /* all looks together, 0 = a whole one after the patience */
};

/* A look under way or over; only to be read. */
struct gs_health {
    struct gs_health_ask ask;
    struct gs_probe_run probe;
    struct gs_gpus gpus; /* the last sample that was judged */
    struct gs_xidlog xids;
    bool has_xids;
    bool done;
    bool none;  /* there is no GPU here and none is expected: nothing was asked */
    bool asked; /* a sample was taken, be it incomplete */
    char note[GS_ERROR_SIZE];     /* why something is not known, "" = all is */
    char log_note[GS_ERROR_SIZE]; /* why the kernel log was not read */
    bool judged;
    struct gs_gpuverdict before; /* on the sample before this one, if looks > 1 */
    struct gs_gpuverdict found;
    enum gs_verdict verdict; /* of the job's GPUs and what all need; else the node's */
    uint32_t looks;
    uint32_t counts[GS_VERDICTS]; /* the job's GPUs by verdict */
    int64_t boot_us;              /* wall clock at boot, -1 = the log was not read */
    int64_t begun_us, done_us;    /* monotonic clock */
    int64_t again_us;             /* the next look, -1 = none is due */
};

/* Begins. Returns NULL when memory is short; whatever else goes wrong becomes a note
 * and the verdict "unknown". */
struct gs_health *gs_health_start(const struct gs_health_ask *ask, int64_t now_us);

/* A look that cannot even begin, and why: it is done, and unknown. As above. */
struct gs_health *gs_health_failed(enum gs_stage stage,
                                   const char *why,
                                   int64_t now_us);

/* Judges a sample that somebody else took; it is copied. As above, and done. */
struct gs_health *gs_health_judge(const struct gs_health_ask *ask,
                                  const struct gs_gpus *gpus,
                                  int64_t now_us);

/* Goes on; true: done. Call it when gs_health_fd() is readable and every 100 ms. Never
 * blocks for longer than gs_probe_step() does. */
bool gs_health_step(struct gs_health *health, int64_t now_us);

/* Judges the sample again, of a look that is done, now that the job's GPUs are known.
 */
void gs_health_devices(struct gs_health *health, const char *devices);

/* Steps until done, which the probe's deadline bounds. */
void gs_health_wait(struct gs_health *health);

/* Where the probe talks, -1 = nowhere at present. */
int gs_health_fd(const struct gs_health *health);

/* Kills a probe under way and frees; NULL is fine. */
void gs_health_destroy(struct gs_health *health);

/* "node", "start", "prolog", "epilog"; static, "" when out of range. */
const char *gs_stage_name(enum gs_stage stage);

/* The worst verdict about one GPU of the sample. */
enum gs_verdict gs_health_gpu(const struct gs_health *health, uint32_t gpu);

/* Why the verdict is not ok: the worst finding's reason or the note; "" if it is. */
const char *gs_health_reason(const struct gs_health *health);

/* One sentence without a dot: "8 GPUs ok", "7 GPUs ok, 1 fail: GPU 3 ...". malloc'd,
 * free with gs_text_free(); NULL = out of memory. */
char *gs_health_sentence(const struct gs_health *health);

/* Like gs_health_reason(), with all that a person needs to act: the GPU's UUID, value,
 * limit, where the rule comes from, and how many findings there are beside it. */
char *gs_health_why(const struct gs_health *health);

enum gs_record_detail {
    GS_RECORD_BRIEF,  /* who the GPUs are and what was found */
    GS_RECORD_SAMPLE, /* what was read, too */
    GS_RECORD_ALL     /* and the checks that could not be made */
};

/* The record, one JSON object without line end. As above. */
char *gs_health_record(const struct gs_health *health, enum gs_record_detail detail);

/* The sample of a record, which need not be ours. 0, or -EPROTO with a sentence. */
int gs_health_read(const char *record,
                   struct gs_gpus *ret_gpus,
                   struct gs_error *error);

#endif
