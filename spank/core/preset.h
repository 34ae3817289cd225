/* preset.h - the variables a task can be given, and the presets that choose them.
 *
 * How to add a preset: 1. a bit in enum gs_env_preset; 2. a row in PRESETS of preset.c;
 * 3. for each of its variables an entry in enum gs_env_var and a row in VARIABLES
 * there, saying which value it carries. SPEC, environment plan and clean-up follow.
 */
#ifndef GS_PRESET_H
#define GS_PRESET_H

#include <stdbool.h>
#include <stdint.h>

/* Bits of a set of presets. GS_ENV_NONE: no framework's variables at all. */
enum gs_env_preset {
    GS_ENV_NONE = 0,
    GS_ENV_TORCH = 1,
};

/* What a variable carries. */
enum gs_env_value {
    GS_VALUE_RANK,
    GS_VALUE_LOCAL_RANK,
    GS_VALUE_WORLD_SIZE,
    GS_VALUE_LOCAL_WORLD_SIZE,
    GS_VALUE_NODE_RANK,
    GS_VALUE_MASTER_ADDR,
    GS_VALUE_MASTER_PORT,
    GS_VALUE_REPORT,
    GS_VALUE_STEP,
    GS_VALUE_T0,
    GS_VALUE_MASTER,
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
    GS_VAR_REPORT,
    GS_VAR_STEP,
    GS_VAR_T0,
    GS_VAR_MASTER,
    GS_VAR_COUNT,
};

/* The variable's name ("LOCAL_RANK"), what it carries, and the presets it belongs to;
 * variables of our own (GANGSTART_*) belong to every preset, GS_ENV_NONE included, and
 * have presets 0. var is one of the enum. */
const char *gs_env_var_name(enum gs_env_var var);
enum gs_env_value gs_env_var_value(enum gs_env_var var);
uint32_t gs_env_var_presets(enum gs_env_var var);

/* The n-th preset's name and bit; false when there are no more. */
bool gs_env_preset_next(uint32_t n, const char **ret_name, uint32_t *ret_bit);

#endif
