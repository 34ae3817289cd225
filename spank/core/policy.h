/* policy.h - what a site wants of each check: /etc/gangstart/gangstart.conf.
 *
 *     # comment
 *     expected_gpus = 8
 *     remap_pending = fail
 *     temp_idle.limit = 65
 *
 *     [H100 PCIe]
 *     nvlink = off
 *
 * CHECK = off|info|warn|fail, CHECK.limit, CHECK.grace, CHECK.retries; below a section,
 * only for GPUs whose model starts with its name. The manual is gangstart.conf(5).
 *
 * How to add a key that is not of a check: a field in struct gs_policy and a row in
 * GLOBALS of policy.c.
 */
#ifndef GS_POLICY_H
#define GS_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "gpucheck.h"

/* Where it is unless somebody says otherwise; it need not be there. */
#define GS_POLICY_FILE "/etc/gangstart/gangstart.conf"

#define GS_POLICY_MODELS 16
#define GS_POLICY_MODEL_SIZE 64
#define GS_POLICY_FILE_MAX 65536
#define GS_POLICY_PATH_SIZE 256

/* Which fields of a rule a section has set. */
enum gs_policy_set {
    GS_POLICY_SEVERITY = 1,
    GS_POLICY_LIMIT = 2,
    GS_POLICY_GRACE = 4,
    GS_POLICY_RETRIES = 8
};

struct gs_policy_rule {
    enum gs_severity severity;
    uint64_t limit;
    uint32_t grace_s, retries;
    uint32_t set; /* of enum gs_policy_set */
};

struct gs_policy_model {
    char name[GS_POLICY_MODEL_SIZE];
    struct gs_policy_rule rules[GS_CHECK_MAX];
};

struct gs_policy {
    int32_t expected_gpus;                       /* of every node, -1 = as Slurm says */
    uint32_t xid_lookback_s;                     /* older Xids are history */
    uint32_t probe_s, probe_init_s, probe_gpu_s; /* deadlines, see probe.h */
    char kernel_log[GS_POLICY_PATH_SIZE];        /* "" = none */
    uint32_t globals_set; /* bit n: row n of the keys that are not of a check */
    uint32_t model_count;
    struct gs_policy_rule rules[GS_CHECK_MAX];
    struct gs_policy_model models[GS_POLICY_MODELS];
};

/* The defaults. */
void gs_policy_init(struct gs_policy *policy);

/* Adds the settings of a text; name is the file's, for the sentence. 0, or -EINVAL with
 * "NAME line N: ..." and policy in between; -E2BIG: too many sections. */
int gs_policy_parse(struct gs_policy *policy,
                    const char *text,
                    const char *name,
                    struct gs_error *error);

/* Reads a file and parses it. A file that is not there is -ENOENT, unless optional:
 * then the defaults stand. Otherwise as gs_policy_parse(), or the errno of reading. */
int gs_policy_load(struct gs_policy *policy,
                   const char *path,
                   bool optional,
                   struct gs_error *error);

/* What holds for a check on a GPU of this model ("" = of the node): the default, the
 * site's setting, then those of its model's sections, the longest name last. */
struct gs_policy_rule gs_policy_find(const struct gs_policy *policy,
                                     enum gs_check check,
                                     const char *model);

#endif
