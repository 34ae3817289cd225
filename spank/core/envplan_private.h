/* envplan_private.h - what the parts of the environment plan share, for C only.
 *
 * The parts return 0, or PLAN_FAILED after gs_plan_fail() has recorded why, or a
 * negative errno.
 */
#ifndef GS_ENVPLAN_PRIVATE_H
#define GS_ENVPLAN_PRIVATE_H

#include "envplan.h"
#include "hostlist.h"
#include "strbuf_private.h"

#define GS_PLAN_FAILED 1
#define GS_EXIT_NODE 69
#define GS_EXIT_CONFIG 78

/* The step as the task's environment and the facts describe it, checked. */
struct gs_stepinfo {
    char step[GS_ENV_NAME_SIZE];
    uint32_t job_id, step_id;
    uint32_t rank, world, local_rank, local_world, node_rank, nodes;
    bool uneven;
    struct gs_names hosts;  /* in Slurm's order, each node once */
    const char *own_node;   /* NULL = not known */
    const char *rank0_node; /* NULL = cannot be known */
    uint32_t *local_ranks;  /* global rank of each local task, NULL = not known */
    uint32_t *counts;       /* tasks of each node of the list, NULL = not known */
    int64_t place;          /* this node's in the list, -1 = not known */
    bool list_ranked; /* rank order follows list order, as SLURM_DISTRIBUTION says */
};

/* MASTER_ADDR and MASTER_PORT and whose they are. */
struct gs_master {
    char addr[GS_ENV_ADDR_SIZE];
    char port[8];
    bool user_addr, user_port;
};

/* A plan in the making. */
struct gs_draft {
    const char *const *env;
    const struct gs_envfacts *facts;
    struct gs_stepinfo info;
    struct gs_master master;
    bool has_master;
    struct gs_envplan *plan;
};

/* The value of a variable, NULL when it is unset or empty. */
const char *gs_env_get(const char *const *env, const char *name);

/* Is this variable (present in env) left over from another gang step? */
bool gs_env_is_stale(const char *const *env, const char *step, enum gs_env_var var);

/* Is the value present in env the user's own choice, to be kept? MASTER_ADDR and
 * MASTER_PORT aside, which gs_master_pick() judges. */
bool gs_env_is_own(const char *const *env, enum gs_env_var var);

/* Writes what a variable carries; an empty text: there is nothing to set. */
int gs_envvalue_write(struct gs_draft *d,
                      enum gs_env_value what,
                      struct gs_strbuf *out);

/* Writes TF_CONFIG. */
int gs_tfconfig_write(struct gs_draft *d, struct gs_strbuf *out);

/* Writes the step's name into out; false when it is not known. */
bool gs_step_name(const char *const *env,
                  const struct gs_envfacts *facts,
                  char out[GS_ENV_NAME_SIZE]);

/* Records a refused start; returns GS_PLAN_FAILED. */
int gs_plan_fail(struct gs_envplan *plan,
                 enum gs_plan_reason reason,
                 const char *format,
                 ...) __attribute__((format(printf, 3, 4)));

/* Adds a warning and its sentence. */
void gs_plan_warn(struct gs_envplan *plan,
                  enum gs_plan_warning warning,
                  const char *format,
                  ...) __attribute__((format(printf, 3, 4)));

/* Reads and checks the step. gs_stepinfo_clear() is needed afterwards in any case; info
 * points into env and facts. */
int gs_stepinfo_read(const char *const *env,
                     const struct gs_envfacts *facts,
                     struct gs_stepinfo *info,
                     struct gs_envplan *plan);
void gs_stepinfo_clear(struct gs_stepinfo *info);

/* Decides where the ranks meet. */
int gs_master_pick(const char *const *env,
                   const struct gs_envfacts *facts,
                   const struct gs_stepinfo *info,
                   struct gs_envplan *plan,
                   struct gs_master *ret_master);

/* How many GPUs this task sees, -1 = not known. */
int gs_gpubind_count(const char *const *env,
                     const struct gs_envfacts *facts,
                     const struct gs_stepinfo *info);

/* Compares LOCAL_RANK with the GPUs the tasks of this node see. */
int gs_gpubind_check(const char *const *env,
                     const struct gs_envfacts *facts,
                     const struct gs_stepinfo *info,
                     struct gs_envplan *plan);

#endif
