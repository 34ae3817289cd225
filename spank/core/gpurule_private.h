/* gpurule_private.h - how checks are made, for C only. */
#ifndef GS_GPURULE_PRIVATE_H
#define GS_GPURULE_PRIVATE_H

#include "gpurule.h"

#define GS_CHECK_NEEDS 3
#define GS_MIB (1024 * 1024ULL)

/* Codes that have their own checks. */
enum gs_nvml_code {
    GS_NVML_NO_PERMISSION = 4,
    GS_NVML_NOT_FOUND = 6,
    GS_NVML_DRIVER_NOT_LOADED = 9,
    GS_NVML_LIBRARY_NOT_FOUND = 12,
    GS_NVML_GPU_IS_LOST = 15,
    GS_NVML_RESET_REQUIRED = 16,
    GS_NVML_MISMATCH = 18,
    GS_NVML_GPU_NOT_FOUND = 28,
    GS_NVML_UNKNOWN = 999
};

/* When a check does not apply. */
enum gs_unless {
    GS_UNLESS_MIG = 1,        /* MIG is on */
    GS_UNLESS_NUMA = 2,       /* GPU memory is the host's */
    GS_UNLESS_GPU_BUSY = 4,   /* this GPU works */
    GS_UNLESS_GPU_IDLE = 8,   /* this GPU does not */
    GS_UNLESS_NODE_BUSY = 16, /* a job may use the GPUs */
    GS_UNLESS_GUEST = 32      /* not root outside of containers */
};

/* One check of one GPU. The rule may set value and limit_text, for the sentence. */
struct gs_look {
    const struct gs_gpus *gpus;
    const struct gs_gpu *gpu;
    const struct gs_gpucontext *context;
    const enum gs_gpu_reading *needs;
    uint64_t limit;
    char value[GS_FINDING_TEXT];
    char limit_text[GS_FINDING_TEXT];
};

struct gs_check_row {
    struct gs_check_info info;
    bool (*rule)(struct gs_look *look); /* NULL: made by gpunode.c, gpuodd.c */
    unsigned need_count;
    enum gs_gpu_reading needs[GS_CHECK_NEEDS]; /* must be valid, else it is skipped */
    unsigned unless;
    const char *says; /* sentence with {v} and {l} for value and limit */
};

const struct gs_check_row *gs_check_row(enum gs_check check);

/* A judgement in the making. */
struct gs_judge {
    const struct gs_gpus *gpus;
    const struct gs_gpucontext *context;
    const struct gs_gpuverdict *before;
    struct gs_gpuverdict out;
    bool failed; /* no memory */
};

/* What a check found; zero is fine for all but check, and most. */
struct gs_hit {
    enum gs_check check;
    enum gs_verdict most; /* it counts as this at most */
    bool skipped;
    bool not_of_step; /* it says nothing about the step's GPUs */
    uint16_t code;
    uint32_t xid;
    const struct gs_gpu *gpu; /* NULL = of the node */
    const char *node, *pci, *action;
    char value[GS_FINDING_TEXT];
    char limit[GS_FINDING_TEXT];
    char reason[GS_FINDING_REASON];
};

/* Adds a finding as the policy wants it. */
void gs_judge_add(struct gs_judge *judge, const struct gs_hit *hit);

/* The sample was taken as root outside of containers. */
bool gs_judge_host(const struct gs_gpucontext *context);

/* Writes says into the hit's reason, behind the name of its GPU. */
void gs_hit_say(struct gs_hit *hit, const char *says);

/* 0 if the reading has a value that can be; else why not: its code, GS_GPU_NOT_ASKED
 * for a value that cannot be. */
uint16_t gs_gpu_reading_code(const struct gs_gpu *gpu, enum gs_gpu_reading reading);
/* Its value, or fallback. */
uint64_t gs_gpu_value_or(const struct gs_gpu *gpu,
                         enum gs_gpu_reading reading,
                         uint64_t fallback);

/* A value with its unit as a person says it: bytes in MiB, mW in W. */
void gs_gpu_value_text(const struct gs_gpu *gpu,
                       enum gs_gpu_reading reading,
                       char out[GS_FINDING_TEXT]);

void gs_reading_text(enum gs_gpu_reading reading,
                     uint64_t value,
                     char out[GS_FINDING_TEXT]);

/* "reset the GPU": what a recovery action asks for. */
void gs_recovery_text(uint64_t action, char out[GS_FINDING_TEXT]);
/* Whether it is of the GPU's peers, not of itself. */
bool gs_recovery_peer(uint64_t action);

/* "NVML_ERROR_GPU_IS_LOST", or "code 1234". */
void gs_gpu_code_text(uint16_t code, char out[GS_FINDING_TEXT]);

/* Wall clock of a fault; false: it has no time that can be, ret_us untouched. */
bool gs_xid_wall(const struct gs_xid *xid, int64_t boot_us, int64_t *ret_us);

/* Parts of a judgement. */
void gs_judge_node(struct gs_judge *judge);
void gs_judge_xids(struct gs_judge *judge);
void gs_judge_gpu(struct gs_judge *judge, const struct gs_gpu *gpu);
void gs_judge_odd(struct gs_judge *judge,
                  const struct gs_gpunode *nodes,
                  uint32_t count);

/* Whether the GPU is one of the step's. */
bool gs_judge_of_step(const struct gs_gpucontext *context, const struct gs_gpu *gpu);

/* Rules; see gpucheckrule.c. */
bool gs_rule_set(struct gs_look *look);
bool gs_rule_clear(struct gs_look *look);
bool gs_rule_above(struct gs_look *look);
bool gs_rule_above_mib(struct gs_look *look);
bool gs_rule_held(struct gs_look *look);
bool gs_rule_differ(struct gs_look *look);
bool gs_rule_below_percent(struct gs_look *look);
bool gs_rule_below_best(struct gs_look *look);
bool gs_rule_above_reading(struct gs_look *look);
bool gs_rule_margin(struct gs_look *look);
bool gs_rule_recovery(struct gs_look *look);
bool gs_rule_recovery_peer(struct gs_look *look);
bool gs_rule_ecc_off(struct gs_look *look);
bool gs_rule_ecc_odd(struct gs_look *look);
bool gs_rule_retired(struct gs_look *look);
bool gs_rule_clock_hw(struct gs_look *look);
bool gs_rule_clock_sw(struct gs_look *look);
bool gs_rule_clock_locked(struct gs_look *look);
bool gs_rule_nvlink(struct gs_look *look);
bool gs_rule_fabric(struct gs_look *look);
bool gs_rule_fabric_bad(struct gs_look *look);
bool gs_rule_fabric_slow(struct gs_look *look);
bool gs_rule_process(struct gs_look *look);
bool gs_rule_ghost(struct gs_look *look);
bool gs_rule_prohibited(struct gs_look *look);
bool gs_rule_exclusive(struct gs_look *look);

#endif
