/* gpurule.h - judge a node's GPUs by one sample: findings, a verdict, whether to drain.
 *
 * Pure: the same sample, context and earlier verdict give the same answer. What cannot
 * be read is never judged as 0: it is skipped, and the list says so, or it is unknown.
 * The checks are in gpucheck.h, what a site wants of them in policy.h.
 */
#ifndef GS_GPURULE_H
#define GS_GPURULE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"
#include "gpucheck.h"
#include "policy.h"
#include "verdict.h"
#include "xid.h"

#define GS_FINDING_TEXT 96
#define GS_FINDING_REASON 320

/* What a sample cannot tell by itself. Pointers are the caller's and outlive the call.
 */
struct gs_gpucontext {
    const struct gs_policy *policy;
    int32_t expected;  /* GPUs that gres.conf gives this node, -1 = not known */
    bool root;         /* the sample was taken as root */
    bool in_container; /* or in another cgroup or namespace than the node's own */
    bool idle;         /* no job may be using the GPUs */
    bool epilog;       /* the job has ended: a reset costs nobody anything */
    bool lasting;      /* the state has lasted: no grace, no second look */
    /* GPUs of the step, by UUID; 0 = all of the node's. */
    const char *const *step_gpus;
    uint32_t step_gpu_count;
    /* Processes that are alive (seen in /proc) and of no running job. */
    const uint32_t *foreign;
    uint32_t foreign_count;
    /* NULL: the kernel log could not be read. boot_us: wall clock at boot, -1 = not
     * known. */
    const struct gs_xidlog *xids;
    int64_t boot_us;
};

/* What a finding is. */
enum gs_finding_kind {
    GS_FINDING_HIT,    /* the check found what it looks for */
    GS_FINDING_NOTE,   /* the same, but it only is recorded (severity info) */
    GS_FINDING_SKIPPED /* the check could not be made; reason says why */
};

struct gs_finding {
    enum gs_check check;
    enum gs_finding_kind kind;
    enum gs_verdict verdict;
    bool settled;               /* seen as often and as long as the policy wants */
    uint32_t looks;             /* how often in a row, this one included */
    int64_t since_us;           /* wall clock of the first of these */
    int32_t gpu;                /* its place in gs_gpus.gpus, -1 = of the node */
    uint16_t nvml_code;         /* that led to it, 0 = a value did */
    uint32_t xid;               /* that led to it, 0 = none did */
    char node[GS_FINDING_TEXT]; /* of gs_gpurule_odd(), else "" */
    char uuid[GS_GPU_TEXT];
    char pci[GS_GPU_TEXT];
    char value[GS_FINDING_TEXT];
    char limit[GS_FINDING_TEXT];
    char reason[GS_FINDING_REASON]; /* one sentence that names the GPU */
    const char *action;             /* what to do; static */
};

struct gs_gpuverdict {
    enum gs_verdict node;
    enum gs_verdict step;  /* of the step's GPUs and of what all GPUs need */
    bool drain;            /* the node should take no further job */
    int32_t worst;         /* the finding to name first, -1 = none */
    int64_t look_again_us; /* take another sample then, -1 = this is final */
    uint32_t count, size;
    struct gs_finding *findings;
};

/* Nothing known: not root, no expectation, no kernel log. */
void gs_gpucontext_init(struct gs_gpucontext *context, const struct gs_policy *policy);

/* Judges a sample. before: the verdict on the sample before this one, NULL = this is
 * the first look. A finding that still has to last (grace) or to be seen more than
 * twice counts as warn at most; one to be seen twice counts in full, since it may be
 * the last look. 0 and *ret_verdict for gs_gpuverdict_free(), or -ENOMEM and untouched.
 */
int gs_gpurule_judge(const struct gs_gpus *gpus,
                     const struct gs_gpucontext *context,
                     const struct gs_gpuverdict *before,
                     struct gs_gpuverdict *ret_verdict);

/* A node of a job, or one that stands for several that are alike. */
struct gs_gpunode {
    const char *name;
    const struct gs_gpus *gpus;
    uint32_t count; /* how many it stands for, 0 = 1 */
};

/* Compares the GPUs of a job with each other: model, driver, VBIOS, memory, power
 * limit, PCIe width, NVLinks, NVLink fabric. Names those that differ from the majority,
 * or the groups if there is none. Return and ownership as gs_gpurule_judge(). */
int gs_gpurule_odd(const struct gs_gpunode *nodes,
                   uint32_t count,
                   const struct gs_policy *policy,
                   struct gs_gpuverdict *ret_verdict);

/* A number that is the same for nodes between which gs_gpurule_odd() finds nothing. */
uint64_t gs_gpurule_alike(const struct gs_gpus *gpus);

/* Frees the findings; NULL and a zeroed verdict are fine. */
void gs_gpuverdict_free(struct gs_gpuverdict *verdict);

/* Whether a reading can have this value at all; drivers return rubbish at times. */
bool gs_gpu_sane(enum gs_gpu_reading reading, uint64_t value);

/* What a return code means for a reading: ok (also: does not exist here, so there is
 * nothing to judge), unknown, warn or fail. host: asked as root outside of containers.
 */
enum gs_verdict gs_gpu_code_verdict(uint16_t code, bool host);

#endif
