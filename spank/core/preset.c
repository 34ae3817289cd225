/* preset.c - the variables a task can be given; see preset.h for how to add some. */
#include <stddef.h>

#include "preset.h"

static const struct {
    const char *name;
    uint32_t bit;
} PRESETS[] = {
    {"torch", GS_ENV_TORCH},
};

static const struct {
    const char *name;
    enum gs_env_value value;
    uint32_t presets;
} VARIABLES[GS_VAR_COUNT] = {
    [GS_VAR_RANK] = {"RANK", GS_VALUE_RANK, GS_ENV_TORCH},
    [GS_VAR_LOCAL_RANK] = {"LOCAL_RANK", GS_VALUE_LOCAL_RANK, GS_ENV_TORCH},
    [GS_VAR_WORLD_SIZE] = {"WORLD_SIZE", GS_VALUE_WORLD_SIZE, GS_ENV_TORCH},
    [GS_VAR_LOCAL_WORLD_SIZE] = {"LOCAL_WORLD_SIZE",
                                 GS_VALUE_LOCAL_WORLD_SIZE,
                                 GS_ENV_TORCH},
    [GS_VAR_NODE_RANK] = {"NODE_RANK", GS_VALUE_NODE_RANK, GS_ENV_TORCH},
    [GS_VAR_GROUP_RANK] = {"GROUP_RANK", GS_VALUE_NODE_RANK, GS_ENV_TORCH},
    [GS_VAR_MASTER_ADDR] = {"MASTER_ADDR", GS_VALUE_MASTER_ADDR, GS_ENV_TORCH},
    [GS_VAR_MASTER_PORT] = {"MASTER_PORT", GS_VALUE_MASTER_PORT, GS_ENV_TORCH},
    [GS_VAR_REPORT] = {"GANGSTART_REPORT", GS_VALUE_REPORT, 0},
    [GS_VAR_STEP] = {"GANGSTART_STEP", GS_VALUE_STEP, 0},
    [GS_VAR_T0] = {"GANGSTART_T0", GS_VALUE_T0, 0},
    [GS_VAR_MASTER] = {"GANGSTART_MASTER", GS_VALUE_MASTER, 0},
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

bool gs_env_preset_next(uint32_t n, const char **ret_name, uint32_t *ret_bit)
{
    if (n >= sizeof(PRESETS) / sizeof(PRESETS[0]))
        return false;
    *ret_name = PRESETS[n].name;
    *ret_bit = PRESETS[n].bit;
    return true;
}
