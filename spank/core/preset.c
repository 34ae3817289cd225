/* preset.c - the variables a task can be given; see preset.h for how to add some.
 *
 * What each framework reads was looked up in its sources. DeepSpeed, Accelerate and
 * Lightning start from PyTorch's variables; DeepSpeed also wants the three that its own
 * launcher sets.
 */
#include <stddef.h>

#include "preset.h"

#define DEEPSPEED GS_ENV_DEEPSPEED
#define HOROVOD GS_ENV_HOROVOD
#define JAX GS_ENV_JAX
#define TORCH (GS_ENV_TORCH | GS_ENV_DEEPSPEED | GS_ENV_ACCELERATE | GS_ENV_LIGHTNING)
#define KEEPS true /* a user's own value stays */
#define SETS false

static const struct {
    const char *name;
    uint32_t bit;
} PRESETS[] = {
    {"torch", GS_ENV_TORCH},
    {"horovod", GS_ENV_HOROVOD},
    {"tensorflow", GS_ENV_TENSORFLOW},
    {"jax", GS_ENV_JAX},
    {"deepspeed", GS_ENV_DEEPSPEED},
    {"accelerate", GS_ENV_ACCELERATE},
    {"lightning", GS_ENV_LIGHTNING},
};

static const struct {
    const char *name;
    enum gs_env_value value;
    uint32_t presets;
    bool keeps;
} VARIABLES[GS_VAR_COUNT] = {
    [GS_VAR_RANK] = {"RANK", GS_VALUE_RANK, TORCH, SETS},
    [GS_VAR_LOCAL_RANK] = {"LOCAL_RANK", GS_VALUE_LOCAL_RANK, TORCH, SETS},
    [GS_VAR_WORLD_SIZE] = {"WORLD_SIZE", GS_VALUE_WORLD_SIZE, TORCH, SETS},
    [GS_VAR_LOCAL_WORLD_SIZE] = {"LOCAL_WORLD_SIZE",
                                 GS_VALUE_LOCAL_WORLD_SIZE,
                                 TORCH,
                                 SETS},
    [GS_VAR_NODE_RANK] = {"NODE_RANK", GS_VALUE_NODE_RANK, TORCH, SETS},
    [GS_VAR_GROUP_RANK] = {"GROUP_RANK", GS_VALUE_NODE_RANK, TORCH, SETS},
    [GS_VAR_MASTER_ADDR] = {"MASTER_ADDR", GS_VALUE_MASTER_ADDR, TORCH, KEEPS},
    [GS_VAR_MASTER_PORT] = {"MASTER_PORT", GS_VALUE_MASTER_PORT, TORCH, KEEPS},
    [GS_VAR_LOCAL_SIZE] = {"LOCAL_SIZE", GS_VALUE_LOCAL_WORLD_SIZE, DEEPSPEED, SETS},
    [GS_VAR_CROSS_RANK] = {"CROSS_RANK", GS_VALUE_NODE_RANK, DEEPSPEED, SETS},
    [GS_VAR_CROSS_SIZE] = {"CROSS_SIZE", GS_VALUE_NODES, DEEPSPEED, SETS},
    [GS_VAR_HOROVOD_RANK] = {"HOROVOD_RANK", GS_VALUE_RANK, HOROVOD, SETS},
    [GS_VAR_HOROVOD_SIZE] = {"HOROVOD_SIZE", GS_VALUE_WORLD_SIZE, HOROVOD, SETS},
    [GS_VAR_HOROVOD_LOCAL_RANK] = {"HOROVOD_LOCAL_RANK",
                                   GS_VALUE_LOCAL_RANK,
                                   HOROVOD,
                                   SETS},
    [GS_VAR_HOROVOD_LOCAL_SIZE] = {"HOROVOD_LOCAL_SIZE",
                                   GS_VALUE_LOCAL_WORLD_SIZE,
                                   HOROVOD,
                                   SETS},
    [GS_VAR_HOROVOD_CROSS_RANK] = {"HOROVOD_CROSS_RANK",
                                   GS_VALUE_CROSS_RANK,
                                   HOROVOD,
                                   SETS},
    [GS_VAR_HOROVOD_CROSS_SIZE] = {"HOROVOD_CROSS_SIZE",
                                   GS_VALUE_CROSS_SIZE,
                                   HOROVOD,
                                   SETS},
    [GS_VAR_HOROVOD_HOSTNAME] = {"HOROVOD_HOSTNAME", GS_VALUE_HOSTNAME, HOROVOD, KEEPS},
    [GS_VAR_HOROVOD_CONTROLLER] = {"HOROVOD_CONTROLLER", GS_VALUE_GLOO, HOROVOD, KEEPS},
    [GS_VAR_HOROVOD_CPU_OPERATIONS] = {"HOROVOD_CPU_OPERATIONS",
                                       GS_VALUE_GLOO,
                                       HOROVOD,
                                       KEEPS},
    [GS_VAR_HOROVOD_ADDR] = {"HOROVOD_GLOO_RENDEZVOUS_ADDR",
                             GS_VALUE_MASTER_ADDR,
                             HOROVOD,
                             KEEPS},
    [GS_VAR_HOROVOD_PORT] = {"HOROVOD_GLOO_RENDEZVOUS_PORT",
                             GS_VALUE_MASTER_PORT,
                             HOROVOD,
                             KEEPS},
    [GS_VAR_JAX_COORDINATOR] = {"JAX_COORDINATOR_ADDRESS",
                                GS_VALUE_COORDINATOR,
                                JAX,
                                KEEPS},
    [GS_VAR_JAX_NUM_PROCESSES] = {"JAX_NUM_PROCESSES", GS_VALUE_WORLD_SIZE, JAX, SETS},
    [GS_VAR_JAX_PROCESS_ID] = {"JAX_PROCESS_ID", GS_VALUE_RANK, JAX, SETS},
    [GS_VAR_JAX_DEVICES] = {"JAX_LOCAL_DEVICE_IDS", GS_VALUE_DEVICES, JAX, KEEPS},
    [GS_VAR_TF_CONFIG] = {"TF_CONFIG", GS_VALUE_TF_CONFIG, GS_ENV_TENSORFLOW, KEEPS},
    [GS_VAR_REPORT] = {"GANGSTART_REPORT", GS_VALUE_REPORT, 0, SETS},
    [GS_VAR_STEP] = {"GANGSTART_STEP", GS_VALUE_STEP, 0, SETS},
    [GS_VAR_T0] = {"GANGSTART_T0", GS_VALUE_T0, 0, SETS},
    [GS_VAR_MASTER] = {"GANGSTART_MASTER", GS_VALUE_MASTER, 0, SETS},
    [GS_VAR_KEPT] = {"GANGSTART_KEPT", GS_VALUE_KEPT, 0, SETS},
};

static const char *const WHY[GS_VALUE_COUNT] = {
    [GS_VALUE_RANK] = "this task's number in the step (SLURM_PROCID)",
    [GS_VALUE_LOCAL_RANK] = "this task's number on its node (SLURM_LOCALID)",
    [GS_VALUE_WORLD_SIZE] = "tasks of the step (SLURM_STEP_NUM_TASKS)",
    [GS_VALUE_LOCAL_WORLD_SIZE] =
        "tasks on this node (SLURM_GTIDS, SLURM_STEP_TASKS_PER_NODE)",
    [GS_VALUE_NODE_RANK] = "this node's number in the step (SLURM_NODEID)",
    [GS_VALUE_NODES] = "nodes of the step (SLURM_STEP_NUM_NODES)",
    [GS_VALUE_CROSS_RANK] = "this node among those with a task of this local rank "
                            "(SLURM_STEP_TASKS_PER_NODE)",
    [GS_VALUE_CROSS_SIZE] =
        "nodes with a task of this local rank (SLURM_STEP_TASKS_PER_NODE)",
    [GS_VALUE_HOSTNAME] = "this node's name (SLURMD_NODENAME)",
    [GS_VALUE_GLOO] = "fixed: no MPI is needed",
    [GS_VALUE_DEVICES] = "the one GPU that this task sees (CUDA_VISIBLE_DEVICES)",
    [GS_VALUE_TF_CONFIG] = "every task's node and port (SLURM_STEP_NODELIST, "
                           "SLURM_DISTRIBUTION, the ports after MASTER_PORT)",
    [GS_VALUE_MASTER_ADDR] = "where rank 0 listens",
    [GS_VALUE_MASTER_PORT] = "the port rank 0 listens on",
    [GS_VALUE_COORDINATOR] = "where rank 0 listens",
    [GS_VALUE_REPORT] = "the start report of this step",
    [GS_VALUE_STEP] = "this step (SLURM_JOB_ID, SLURM_STEP_ID)",
    [GS_VALUE_T0] = "the moment of the start",
    [GS_VALUE_MASTER] = "what gang start chose itself, - for what is yours",
    [GS_VALUE_KEPT] = "your own values among the rest",
};

const char *gs_env_var_name(enum gs_env_var var)
{
    return VARIABLES[var].name;
}

enum gs_env_value gs_env_var_value(enum gs_env_var var)
{
    return VARIABLES[var].value;
}

uint32_t gs_env_var_presets(enum gs_env_var var)
{
    return VARIABLES[var].presets;
}

bool gs_env_var_keeps(enum gs_env_var var)
{
    return VARIABLES[var].keeps;
}

const char *gs_env_value_why(enum gs_env_value value)
{
    return WHY[value];
}

bool gs_env_preset_next(uint32_t n, const char **ret_name, uint32_t *ret_bit)
{
    if (n >= sizeof(PRESETS) / sizeof(PRESETS[0]))
        return false;
    *ret_name = PRESETS[n].name;
    *ret_bit = PRESETS[n].bit;
    return true;
}
