/* preset.h - the variables a task can be given, and the presets that choose them.
 *
 * How to add a preset: 1. a bit in enum gs_env_preset; 2. a row in PRESETS of preset.c
 * and its name in GS_ENV_PRESET_NAMES of spec_private.h; 3. for each of its variables
 * an entry in enum gs_env_var and a row in VARIABLES there, saying which value it
 * carries; a new kind of value is written by envvalue.c. SPEC, environment plan,
 * clean-up and `gangstart env` follow.
 */
#ifndef GS_PRESET_H
#define GS_PRESET_H

#include <stdbool.h>
#include <stdint.h>

/* Bits of a set of presets. GS_ENV_NONE: no framework's variables at all. */
enum gs_env_preset {
    GS_ENV_NONE = 0,
    GS_ENV_TORCH = 1,
    GS_ENV_HOROVOD = 2,
    GS_ENV_TENSORFLOW = 4,
    GS_ENV_JAX = 8,
    GS_ENV_DEEPSPEED = 16,
    GS_ENV_ACCELERATE = 32,
    GS_ENV_LIGHTNING = 64,
};

/* What a variable carries. */
enum gs_env_value {
    GS_VALUE_RANK,
    GS_VALUE_LOCAL_RANK,
    GS_VALUE_WORLD_SIZE,
    GS_VALUE_LOCAL_WORLD_SIZE,
    GS_VALUE_NODE_RANK,
    GS_VALUE_NODES,
    GS_VALUE_CROSS_RANK, /* this node among those that have a task of this local rank */
    GS_VALUE_CROSS_SIZE, /* ... and how many those are */
    GS_VALUE_HOSTNAME,
    GS_VALUE_GLOO,    /* the word gloo */
    GS_VALUE_DEVICES, /* "0" where the task sees one GPU, else left to the program */
    GS_VALUE_TF_CONFIG,
    GS_VALUE_MASTER_ADDR,
    GS_VALUE_MASTER_PORT,
    GS_VALUE_COORDINATOR, /* both as ADDR:PORT */
    GS_VALUE_REPORT,
    GS_VALUE_STEP,
    GS_VALUE_T0,
    GS_VALUE_MASTER,
    GS_VALUE_KEPT, /* names of the user's own that stay, MASTER_* aside */
    GS_VALUE_COUNT,
};

/* Every variable a plan can set, in the order a plan lists them. */
enum gs_env_var {
    GS_VAR_RANK,
    GS_VAR_LOCAL_RANK,
    GS_VAR_WORLD_SIZE,
    GS_VAR_LOCAL_WORLD_SIZE,
    GS_VAR_NODE_RANK,
    GS_VAR_GROUP_RANK,
    GS_VAR_MASTER_ADDR,
    GS_VAR_MASTER_PORT,
    GS_VAR_LOCAL_SIZE,
    GS_VAR_CROSS_RANK,
    GS_VAR_CROSS_SIZE,
    GS_VAR_HOROVOD_RANK,
    GS_VAR_HOROVOD_SIZE,
    GS_VAR_HOROVOD_LOCAL_RANK,
    GS_VAR_HOROVOD_LOCAL_SIZE,
    GS_VAR_HOROVOD_CROSS_RANK,
    GS_VAR_HOROVOD_CROSS_SIZE,
    GS_VAR_HOROVOD_HOSTNAME,
    GS_VAR_HOROVOD_CONTROLLER,
    GS_VAR_HOROVOD_CPU_OPERATIONS,
    GS_VAR_HOROVOD_ADDR,
    GS_VAR_HOROVOD_PORT,
    GS_VAR_JAX_COORDINATOR,
    GS_VAR_JAX_NUM_PROCESSES,
    GS_VAR_JAX_PROCESS_ID,
    GS_VAR_JAX_DEVICES,
    GS_VAR_TF_CONFIG,
    GS_VAR_REPORT,
    GS_VAR_STEP,
    GS_VAR_T0,
    GS_VAR_MASTER,
    GS_VAR_KEPT,
    GS_VAR_COUNT,
};

/* The variable's name ("LOCAL_RANK"), what it carries, and the presets it belongs to;
 * variables of our own (GANGSTART_*) belong to every preset, GS_ENV_NONE included, and
 * have presets 0. Is it a matter of choice, so that a user's own value stays? var is
 * one of the enum. */
const char *gs_env_var_name(enum gs_env_var var);
enum gs_env_value gs_env_var_value(enum gs_env_var var);
uint32_t gs_env_var_presets(enum gs_env_var var);
bool gs_env_var_keeps(enum gs_env_var var);

/* What a value is and where it comes from, for people: "this task's number in the step
 * (SLURM_PROCID)". */
const char *gs_env_value_why(enum gs_env_value value);

/* The n-th preset's name and bit; false when there are no more. */
bool gs_env_preset_next(uint32_t n, const char **ret_name, uint32_t *ret_bit);

#endif
