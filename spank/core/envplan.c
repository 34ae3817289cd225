/* envplan.c - what one task gets; see envplan.h.
 *
 * Reads the step (stepinfo.c), decides where the ranks meet (masterpick.c), looks at
 * the GPUs (gpubind.c) and writes the list of variables, each with its value
 * (envvalue.c) and whose it is (envstale.c). Pure: the caller applies the plan.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "envplan_private.h"
#include "error_private.h"

_Static_assert(GS_VAR_COUNT <= sizeof(((struct gs_envplan *)0)->var)
                                   / sizeof(((struct gs_envplan *)0)->var[0]),
               "a plan holds every variable");

void gs_envfacts_init(struct gs_envfacts *facts)
{
    *facts = (struct gs_envfacts){
        .gang_on = true,
        .step_id = GS_STEP_UNKNOWN,
        .items = {-1, -1, -1, -1, -1, -1},
        .resolvable_count = -1,
        .presets = GS_ENV_TORCH,
        .visible_count = -1,
    };
}

const char *gs_env_get(const char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return (*env)[len + 1] ? *env + len + 1 : NULL;
    return NULL;
}

void gs_envplan_clear(struct gs_envplan *plan)
{
    for (uint32_t i = 0; i < plan->vars; i++)
        free(plan->var[i].value);
    plan->vars = 0;
}

int gs_plan_fail(struct gs_envplan *plan,
                 enum gs_plan_reason reason,
                 const char *format,
                 ...)
{
    va_list args;

    plan->outcome = GS_PLAN_FAIL;
    plan->reason = reason;
    plan->exit_code = reason == GS_REASON_DUPLICATE_GPU ? GS_EXIT_NODE : GS_EXIT_CONFIG;
    gs_envplan_clear(plan);
    va_start(args, format);
    vsnprintf(plan->text, sizeof(plan->text), format, args);
    va_end(args);
    return GS_PLAN_FAILED;
}

void gs_plan_warn(struct gs_envplan *plan,
                  enum gs_plan_warning warning,
                  const char *format,
                  ...)
{
    size_t used = strlen(plan->text);
    va_list args;

    plan->warnings |= warning;
    if (used && used + 2 < sizeof(plan->text)) {
        snprintf(plan->text + used, sizeof(plan->text) - used, "; ");
        used += 2;
    }
    va_start(args, format);
    vsnprintf(plan->text + used, sizeof(plan->text) - used, format, args);
    va_end(args);
}

/* Names come from a user's environment; a terminal or a log must not obey them. */
static void text_clean(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

static bool is_wanted(const struct gs_draft *d, enum gs_env_var var)
{
    uint32_t presets = gs_env_var_presets(var);

    return presets == 0
           || ((presets & d->facts->presets)
               && !(d->facts->without & (UINT64_C(1) << var)));
}

/* Does any wanted variable carry a part of the meeting place, or follow from it? */
static bool master_wanted(const struct gs_draft *d)
{
    static const bool needs[GS_VALUE_COUNT] = {
        [GS_VALUE_MASTER_ADDR] = true,
        [GS_VALUE_MASTER_PORT] = true,
        [GS_VALUE_COORDINATOR] = true,
        [GS_VALUE_TF_CONFIG] = true,
    };

    for (uint32_t var = 0; var < GS_VAR_COUNT; var++)
        if (is_wanted(d, var) && needs[gs_env_var_value(var)])
            return true;
    return false;
}

/* Adds a row; value is copied. */
static int row_add(struct gs_envplan *plan,
                   enum gs_env_var var,
                   enum gs_var_action action,
                   const char *value)
{
    struct gs_planvar *row = &plan->var[plan->vars];
    char *copy = strdup(value);

    if (!copy)
        return -ENOMEM;
    *row = (struct gs_planvar){.var = var, .action = action, .value = copy};
    snprintf(row->name, sizeof(row->name), "%s", gs_env_var_name(var));
    plan->vars++;
    return 0;
}

/* Is the value the task has already the user's, and does it stay? */
static bool is_own(const struct gs_draft *d, enum gs_env_var var)
{
    if (var == GS_VAR_MASTER_ADDR)
        return d->master.user_addr;
    if (var == GS_VAR_MASTER_PORT)
        return d->master.user_port;
    return gs_env_is_own(d->env, var);
}

static int var_add(struct gs_draft *d, enum gs_env_var var)
{
    const char *name = gs_env_var_name(var);
    struct gs_strbuf text = {0};
    char *value = NULL;
    int rc = 0;

    if (is_wanted(d, var) && is_own(d, var))
        return row_add(d->plan, var, GS_VAR_KEEP, gs_env_get(d->env, name));
    if (is_wanted(d, var))
        rc = gs_envvalue_write(d, gs_env_var_value(var), &text);
    value = gs_strbuf_take(&text);
    if (rc == 0 && !value)
        rc = -ENOMEM;
    if (rc == 0 && value[0])
        rc = row_add(d->plan, var, GS_VAR_SET, value);
    else if (rc == 0 && gs_env_is_stale(d->env, d->info.step, var))
        rc = row_add(d->plan, var, GS_VAR_UNSET, "");
    free(value);
    return rc;
}

/* Tells the user which of his own values are replaced. */
static void replaced_warn(struct gs_draft *d)
{
    for (uint32_t i = 0; i < d->plan->vars; i++) {
        const struct gs_planvar *row = &d->plan->var[i];
        const char *old = gs_env_get(d->env, row->name);
        bool world = gs_env_var_value(row->var) == GS_VALUE_WORLD_SIZE;
        bool ours = gs_env_var_presets(row->var) == 0;

        if (row->action != GS_VAR_SET || !old || strcmp(old, row->value) == 0 || ours)
            continue;
        if (gs_env_get(d->env, gs_env_var_name(GS_VAR_STEP)))
            continue; /* an outer gang step's, not the user's */
        gs_plan_warn(d->plan,
                     world ? GS_WARN_WORLD_MISMATCH : GS_WARN_ENV_REPLACED,
                     "%s=%.40s was set before; the step's value is %.80s",
                     row->name,
                     old,
                     row->value);
    }
}

/* What else frameworks read and would take for the world size. */
static void world_warn(struct gs_draft *d)
{
    const char *ntasks = gs_env_get(d->env, "SLURM_NTASKS");
    char world[16];

    if (d->info.uneven)
        gs_plan_warn(d->plan,
                     GS_WARN_UNEVEN_TASKS,
                     "the nodes run different numbers of tasks (%.80s)",
                     gs_env_get(d->env, "SLURM_STEP_TASKS_PER_NODE")
                         ? gs_env_get(d->env, "SLURM_STEP_TASKS_PER_NODE")
                         : gs_env_get(d->env, "SLURM_TASKS_PER_NODE"));
    snprintf(world, sizeof(world), "%u", d->info.world);
    if (ntasks && strcmp(ntasks, world) != 0)
        gs_plan_warn(d->plan,
                     GS_WARN_WORLD_MISMATCH,
                     "SLURM_NTASKS=%.40s is the job's, but the step has %s tasks; a "
                     "program that reads it waits for ranks that do not exist",
                     ntasks,
                     world);
}

static int stale_remove(struct gs_draft *d)
{
    const char *step =
        gs_step_name(d->env, d->facts, d->info.step) ? d->info.step : NULL;
    int rc = 0;

    for (uint32_t var = 0; var < GS_VAR_COUNT && rc == 0; var++)
        if (gs_env_is_stale(d->env, step, var))
            rc = row_add(d->plan, var, GS_VAR_UNSET, "");
    return rc;
}

/* Is this a step whose tasks are left alone? */
static bool is_noop(const struct gs_draft *d)
{
    const char *step = gs_env_get(d->env, "SLURM_STEP_ID");

    if (!d->facts->gang_on)
        return true;
    if (d->facts->step_id != GS_STEP_UNKNOWN)
        return d->facts->step_id >= GS_STEP_SPECIAL;
    return step && strlen(step) == 10 && strcmp(step, "4294967280") >= 0;
}

static int draft_make(struct gs_draft *d)
{
    int rc = gs_stepinfo_read(d->env, d->facts, &d->info, d->plan);

    if (rc == 0 && master_wanted(d)) {
        rc = gs_master_pick(d->env, d->facts, &d->info, d->plan, &d->master);
        d->has_master = true;
    }
    if (rc == 0)
        rc = gs_gpubind_check(d->env, d->facts, &d->info, d->plan);
    for (uint32_t var = 0; var < GS_VAR_COUNT && rc == 0; var++)
        rc = var_add(d, var);
    if (rc)
        return rc;
    world_warn(d);
    replaced_warn(d);
    return 0;
}

int gs_envplan_make(const char *const *env,
                    const struct gs_envfacts *facts,
                    struct gs_envplan *ret_plan,
                    struct gs_error *error)
{
    struct gs_envplan plan = {.outcome = GS_PLAN_INJECT};
    struct gs_draft d = {.env = env, .facts = facts, .plan = &plan};
    int rc = 0;

    if (is_noop(&d)) {
        plan.outcome = GS_PLAN_NOOP;
        rc = stale_remove(&d);
    } else {
        rc = draft_make(&d);
        gs_stepinfo_clear(&d.info);
    }
    if (rc < 0) {
        gs_envplan_clear(&plan);
        return gs_error_set(error, -rc, "out of memory while planning the environment");
    }
    text_clean(plan.text);
    *ret_plan = plan;
    return 0;
}

const char *gs_plan_reason_name(enum gs_plan_reason reason)
{
    static const char *const names[GS_REASON_COUNT] = {
        [GS_REASON_NONE] = "",
        [GS_REASON_BAD_ENVIRONMENT] = "BAD_ENVIRONMENT",
        [GS_REASON_WORLD_MISMATCH] = "WORLD_MISMATCH",
        [GS_REASON_RANK0_UNKNOWN] = "RANK0_UNKNOWN",
        [GS_REASON_BAD_MASTER_ADDR] = "BAD_MASTER_ADDR",
        [GS_REASON_BAD_MASTER_PORT] = "BAD_MASTER_PORT",
        [GS_REASON_DUPLICATE_GPU] = "DUPLICATE_GPU",
    };

    return reason < GS_REASON_COUNT ? names[reason] : "";
}

const char *gs_plan_warning_name(uint32_t bit)
{
    static const char *const names[] = {"UNEVEN_TASKS",
                                        "WORLD_MISMATCH",
                                        "GPU_BINDING",
                                        "DUPLICATE_GPU",
                                        "MASTER_LOOPBACK",
                                        "ENV_REPLACED",
                                        "MASTER_ELSEWHERE"};

    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (bit == 1U << i)
            return names[i];
    return "";
}
