/* envstale.c - whose value is this? What an outer gang step left in an environment and
 * what the user set himself; see envplan.h.
 */
#include <stdio.h>
#include <string.h>

#include "envplan_private.h"

/* The n-th word of GANGSTART_MASTER, compared with a value. */
static bool recorded(const char *record, int n, const char *value)
{
    size_t len;

    for (; n > 0; n--) {
        record += strcspn(record, " ");
        record += strspn(record, " ");
    }
    len = strcspn(record, " ");
    return len == strlen(value) && memcmp(record, value, len) == 0;
}

/* Is the variable one that the gang start of this environment kept for the user? */
static bool is_kept(const char *const *env, enum gs_env_var var)
{
    const char *kept = gs_env_get(env, gs_env_var_name(GS_VAR_KEPT));
    const char *name = gs_env_var_name(var);

    while (kept && *kept) {
        size_t len = strcspn(kept, " ");

        if (len == strlen(name) && memcmp(kept, name, len) == 0)
            return true;
        kept += len;
        kept += strspn(kept, " ");
    }
    return false;
}

bool gs_env_is_own(const char *const *env, enum gs_env_var var)
{
    const char *marker = gs_env_get(env, gs_env_var_name(GS_VAR_STEP));

    return gs_env_var_keeps(var) && gs_env_get(env, gs_env_var_name(var))
           && (!marker || is_kept(env, var));
}

bool gs_env_is_stale(const char *const *env, const char *step, enum gs_env_var var)
{
    const char *marker = gs_env_get(env, gs_env_var_name(GS_VAR_STEP));
    const char *record = gs_env_get(env, gs_env_var_name(GS_VAR_MASTER));
    const char *value = gs_env_get(env, gs_env_var_name(var));

    if (!marker || (step && strcmp(marker, step) == 0) || !value)
        return false;
    if (var == GS_VAR_MASTER_ADDR)
        return record && recorded(record, 0, value);
    if (var == GS_VAR_MASTER_PORT)
        return record && recorded(record, 1, value);
    return !gs_env_is_own(env, var);
}

uint32_t gs_envplan_stale(const char *const *env,
                          const char *step,
                          char names_out[][GS_ENV_NAME_SIZE],
                          uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t var = 0; var < GS_VAR_COUNT && count < max; var++)
        if (gs_env_is_stale(env, step, var))
            snprintf(names_out[count++], GS_ENV_NAME_SIZE, "%s", gs_env_var_name(var));
    return count;
}
