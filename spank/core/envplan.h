/* envplan.h - what one task gets: Slurm's variables and what the step has learned ->
 * a list of variables to set, keep or remove, or one sentence why the task must not
 * start.
 *
 * Nothing is guessed. Ranks and counts are Slurm's own, of the step, never computed
 * from each other and never the job's where the step's exist; two sources that
 * contradict each other refuse the start; a plan is complete or not there.
 */
#ifndef GS_ENVPLAN_H
#define GS_ENVPLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "preset.h"

#define GS_STEP_UNKNOWN 0xffffffff
#define GS_STEP_SPECIAL 0xfffffff0 /* from here on: batch, extern, interactive ... */
#define GS_ENV_NAME_SIZE 32
#define GS_ENV_ADDR_SIZE 1024
#define GS_ENV_STRING_MAX 131071 /* of Linux and Slurm, NAME= and NUL included */
#define GS_PLAN_TEXT_SIZE 1024

/* SPANK items as spank_get_item() gave them, -1 = not asked or failed. Used only where
 * a variable is missing, only when plausible, and (but for local_world) not in a
 * heterogeneous step, where they know one component only. */
struct gs_spankitems {
    int64_t rank;        /* S_TASK_GLOBAL_ID */
    int64_t local_rank;  /* S_TASK_ID */
    int64_t world;       /* S_JOB_TOTAL_TASK_COUNT */
    int64_t local_world; /* S_JOB_LOCAL_TASK_COUNT */
    int64_t node_rank;   /* S_JOB_NODEID */
    int64_t nodes;       /* S_JOB_NNODES */
};

/* What node gets when it looks up name; count 0: it does not resolve there. */
struct gs_resolved {
    const char *node;
    const char *name;
    const char *const *address;
    uint32_t count;
};

/* UUIDs of the GPUs one local task sees, in its order. */
struct gs_taskgpus {
    uint32_t local_rank;
    const char *const *uuid;
    uint32_t count;
};

/* What is known besides the environment. Start from gs_envfacts_init(). All pointers
 * are the caller's and are only read during gs_envplan_make(). */
struct gs_envfacts {
    bool gang_on;
    uint32_t step_id; /* GS_STEP_UNKNOWN = take SLURM_STEP_ID */
    const char *step; /* "7877.0"; NULL = made of SLURM_JOB_ID and the step id */
    struct gs_spankitems items;
    const char *master_addr; /* announced by rank 0's node; NULL or "" = not yet */
    uint32_t master_port;    /* likewise, 0 = not yet */
    const char *rank0_node;  /* name of the node that owns rank 0, NULL = not known */
    const char *const *rank_node; /* node of each rank, where the layout is known */
    uint32_t rank_nodes;
    const struct gs_resolved *resolved;
    uint32_t resolved_count;
    const char *const *resolvable; /* user's names that resolve on every node ... */
    int32_t resolvable_count;      /* ... any other does not; -1 = not tried */
    const char *report;            /* path for GANGSTART_REPORT, NULL = none */
    double t0;                     /* Unix time of the release, 0 = not known */
    uint64_t presets, without;     /* as in struct gs_spec */
    uint32_t port_lo, port_hi;     /* likewise, for ports after MASTER_PORT */
    bool gpus_required;            /* health=require: a shared GPU refuses the start */
    const char *const *visible;    /* UUIDs this task sees ... */
    int32_t visible_count;         /* ... -1 = not known */
    const struct gs_taskgpus *local_gpus; /* of all tasks of this node */
    uint32_t local_gpus_count;
};

enum gs_plan_outcome {
    GS_PLAN_INJECT, /* apply vars */
    GS_PLAN_NOOP, /* not ours; vars only removes what an outer gang step left behind */
    GS_PLAN_FAIL, /* refuse the start: reason, exit_code, text; vars is empty */
};

enum gs_plan_reason {
    GS_REASON_NONE,
    GS_REASON_BAD_ENVIRONMENT, /* a variable is missing or malformed */
    GS_REASON_WORLD_MISMATCH,  /* two sources contradict each other */
    GS_REASON_RANK0_UNKNOWN, /* list order is not rank order, and nothing else known */
    GS_REASON_BAD_MASTER_ADDR,
    GS_REASON_BAD_MASTER_PORT,
    GS_REASON_DUPLICATE_GPU,
    GS_REASON_COUNT,
};

/* Bits of warnings. */
enum gs_plan_warning {
    GS_WARN_UNEVEN_TASKS = 1,      /* nodes run different numbers of tasks */
    GS_WARN_WORLD_MISMATCH = 2,    /* a variable tells frameworks another world size */
    GS_WARN_GPU_BINDING = 4,       /* LOCAL_RANK is no index of a GPU the task sees */
    GS_WARN_DUPLICATE_GPU = 8,     /* two tasks of the node would use one GPU */
    GS_WARN_MASTER_LOOPBACK = 16,  /* rank 0's node resolves its name to itself */
    GS_WARN_ENV_REPLACED = 32,     /* the user had set a variable to something else */
    GS_WARN_MASTER_ELSEWHERE = 64, /* the user's MASTER_ADDR is not rank 0's node */
};

enum gs_var_action {
    GS_VAR_SET,
    GS_VAR_KEEP,  /* the user's own value stays; value repeats it */
    GS_VAR_UNSET, /* left behind by an outer gang step */
};

struct gs_planvar {
    enum gs_env_var var;
    char name[GS_ENV_NAME_SIZE];
    char *value; /* "" where it is removed */
    enum gs_var_action action;
};

struct gs_envplan {
    enum gs_plan_outcome outcome;
    enum gs_plan_reason reason;
    int exit_code;                /* of a refused start: 78, or 69 for a GPU */
    uint32_t warnings;            /* bits of enum gs_plan_warning */
    char text[GS_PLAN_TEXT_SIZE]; /* why it fails, or the warnings' sentences */
    struct gs_planvar var[48];    /* each name once */
    uint32_t vars;
};

/* Gang on, everything else not known, preset torch. */
void gs_envfacts_init(struct gs_envfacts *facts);

/* Plans for one task. env is its environment as it is now ("K=V", NULL-terminated).
 *
 * MASTER_ADDR and MASTER_PORT that the user set are kept after a check; an empty value
 * counts as unset, and so does one that an outer gang step chose (its GANGSTART_STEP is
 * another step's, its GANGSTART_MASTER says "ADDR PORT" as it chose them, "-" for a
 * part that was the user's). Without announcement MASTER_ADDR is the name of the node
 * that owns rank 0 and MASTER_PORT the step's first candidate (portpick.h). Other
 * variables of choice (gs_env_var_keeps()) that the user set are kept as they are;
 * GANGSTART_KEPT names them, so that under an outer gang step only those count as his.
 * No other variable is touched; CUDA_VISIBLE_DEVICES never.
 *
 * Returns 0 and *ret_plan (for gs_envplan_clear()), also for GS_PLAN_FAIL; -ENOMEM. */
int gs_envplan_make(const char *const *env,
                    const struct gs_envfacts *facts,
                    struct gs_envplan *ret_plan,
                    struct gs_error *error);

/* Frees the values and empties the list of variables. */
void gs_envplan_clear(struct gs_envplan *plan);

/* Do two tasks of one node use the same GPU? tasks by local rank; ranks: their global
 * ones, only read. True, and a sentence that names both in ret_text. */
bool gs_gpubind_shared(const struct gs_taskgpus *tasks,
                       uint32_t count,
                       uint32_t *ranks,
                       char *ret_text,
                       size_t size);

/* Names of variables in env that a gang start of another step than `step` (NULL: any)
 * left there: all of ours, MASTER_ADDR/MASTER_PORT only where they still are what that
 * gang start chose, and none that it kept for the user. Fills at most max names;
 * returns how many. */
uint32_t gs_envplan_stale(const char *const *env,
                          const char *step,
                          char names_out[][GS_ENV_NAME_SIZE],
                          uint32_t max);

/* "WORLD_MISMATCH" and so on; "" for GS_REASON_NONE and for what is not one bit. */
const char *gs_plan_reason_name(enum gs_plan_reason reason);
const char *gs_plan_warning_name(uint32_t bit);

#endif
