/* envplan.c - what one task gets; see envplan.h.
 *
 * Reads the step (stepinfo.c), decides where the ranks meet (masterpick.c), looks at
 * the GPUs (gpubind.c) and writes the list of variables. Pure: the caller applies the
 * plan.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "envplan_private.h"
#include "error_private.h"

struct draft {
    const char *const *env;
    const struct gs_envfacts *facts;
    struct gs_stepinfo info;
    struct gs_master master;
    bool has_master;
    struct gs_envplan *plan;
};

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

int gs_plan_fail(struct gs_envplan *plan,
                 enum gs_plan_reason reason,
                 const char *format,
                 ...)
{
    va_list args;

    plan->outcome = GS_PLAN_FAIL;
    plan->reason = reason;
    plan->exit_code = reason == GS_REASON_DUPLICATE_GPU ? GS_EXIT_NODE : GS_EXIT_CONFIG;
    plan->vars = 0;
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

bool gs_env_is_stale(const char *const *env, const char *step, enum gs_env_var var)
{
    const char *marker = gs_env_get(env, gs_env_var_name(GS_VAR_STEP));
    const char *record = gs_env_get(env, gs_env_var_name(GS_VAR_MASTER));
    const char *value = gs_env_get(env, gs_env_var_name(var));

    if (!marker || (step && strcmp(marker, step) == 0) || !value)
        return false;
    if (gs_env_var_value(var) == GS_VALUE_MASTER_ADDR)
        return record && recorded(record, 0, value);
    if (gs_env_var_value(var) == GS_VALUE_MASTER_PORT)
        return record && recorded(record, 1, value);
    return true;
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

static bool is_wanted(const struct draft *d, enum gs_env_var var)
{
    uint32_t presets = gs_env_var_presets(var);

    return presets == 0
           || ((presets & d->facts->presets) && !(d->facts->without & (1U << var)));
}

/* Does any wanted variable carry a part of the meeting place? */
static bool master_wanted(const struct draft *d)
{
    for (uint32_t var = 0; var < GS_VAR_COUNT; var++)
        if (is_wanted(d, var)
            && (gs_env_var_value(var) == GS_VALUE_MASTER_ADDR
                || gs_env_var_value(var) == GS_VALUE_MASTER_PORT))
            return true;
    return false;
}

/* Writes the value; false if there is nothing to set. */
static bool value_write(const struct draft *d,
                        enum gs_env_value what,
                        char *out,
                        size_t n)
{
    const struct gs_stepinfo *info = &d->info;
    const uint32_t numbers[] = {
        [GS_VALUE_RANK] = info->rank,
        [GS_VALUE_LOCAL_RANK] = info->local_rank,
        [GS_VALUE_WORLD_SIZE] = info->world,
        [GS_VALUE_LOCAL_WORLD_SIZE] = info->local_world,
        [GS_VALUE_NODE_RANK] = info->node_rank,
    };

    switch (what) {
    case GS_VALUE_RANK:
    case GS_VALUE_LOCAL_RANK:
    case GS_VALUE_WORLD_SIZE:
    case GS_VALUE_LOCAL_WORLD_SIZE:
    case GS_VALUE_NODE_RANK:
        snprintf(out, n, "%u", numbers[what]);
        return true;
    case GS_VALUE_MASTER_ADDR:
        snprintf(out, n, "%s", d->master.addr);
        return true;
    case GS_VALUE_MASTER_PORT:
        snprintf(out, n, "%s", d->master.port);
        return true;
    case GS_VALUE_REPORT:
        snprintf(out, n, "%s", d->facts->report ? d->facts->report : "");
        return d->facts->report && d->facts->report[0];
    case GS_VALUE_STEP:
        snprintf(out, n, "%s", info->step);
        return true;
    case GS_VALUE_T0:
        snprintf(out,
                 n,
                 "%llu.%06u",
                 (unsigned long long)d->facts->t0,
                 (unsigned)((d->facts->t0 - (double)(unsigned long long)d->facts->t0)
                            * 1e6));
        return d->facts->t0 > 0;
    case GS_VALUE_MASTER:
        snprintf(out,
                 n,
                 "%.255s %s",
                 d->master.user_addr ? "-" : d->master.addr,
                 d->master.user_port ? "-" : d->master.port);
        return d->has_master;
    }
    return false;
}

static void var_add(struct draft *d, enum gs_env_var var)
{
    struct gs_planvar *row = &d->plan->var[d->plan->vars];
    enum gs_env_value what = gs_env_var_value(var);

    snprintf(row->name, sizeof(row->name), "%s", gs_env_var_name(var));
    row->action = GS_VAR_SET;
    if ((what == GS_VALUE_MASTER_ADDR && d->master.user_addr)
        || (what == GS_VALUE_MASTER_PORT && d->master.user_port))
        row->action = GS_VAR_KEEP;
    if (is_wanted(d, var) && value_write(d, what, row->value, sizeof(row->value))) {
        d->plan->vars++;
    } else if (gs_env_is_stale(d->env, d->info.step, var)) {
        row->value[0] = '\0';
        row->action = GS_VAR_UNSET;
        d->plan->vars++;
    }
}

/* Tells the user which of his own values are replaced. */
static void replaced_warn(struct draft *d)
{
    for (uint32_t i = 0; i < d->plan->vars; i++) {
        const struct gs_planvar *row = &d->plan->var[i];
        const char *old = gs_env_get(d->env, row->name);
        bool world = strcmp(row->name, gs_env_var_name(GS_VAR_WORLD_SIZE)) == 0;
        bool ours = strncmp(row->name, "GANGSTART_", 10) == 0;

        if (row->action != GS_VAR_SET || !old || strcmp(old, row->value) == 0 || ours)
            continue;
        if (gs_env_get(d->env, gs_env_var_name(GS_VAR_STEP)))
            continue; /* an outer gang step's, not the user's */
        gs_plan_warn(d->plan,
                     world ? GS_WARN_WORLD_MISMATCH : GS_WARN_ENV_REPLACED,
                     "%s=%.40s was set before; the step's value is %s",
                     row->name,
                     old,
                     row->value);
    }
}

/* What else frameworks read and would take for the world size. */
static void world_warn(struct draft *d)
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

static void stale_remove(struct draft *d)
{
    const char *step =
        gs_step_name(d->env, d->facts, d->info.step) ? d->info.step : NULL;

    for (uint32_t var = 0; var < GS_VAR_COUNT; var++) {
        struct gs_planvar *row = &d->plan->var[d->plan->vars];

        if (!gs_env_is_stale(d->env, step, var))
            continue;
        snprintf(row->name, sizeof(row->name), "%s", gs_env_var_name(var));
        row->value[0] = '\0';
        row->action = GS_VAR_UNSET;
        d->plan->vars++;
    }
}

/* Is this a step whose tasks are left alone? */
static bool is_noop(const struct draft *d)
{
    const char *step = gs_env_get(d->env, "SLURM_STEP_ID");

    if (!d->facts->gang_on)
        return true;
    if (d->facts->step_id != GS_STEP_UNKNOWN)
        return d->facts->step_id >= GS_STEP_SPECIAL;
    return step && strlen(step) == 10 && strcmp(step, "4294967280") >= 0;
}

static int draft_make(struct draft *d)
{
    int rc = gs_stepinfo_read(d->env, d->facts, &d->info, d->plan);

    if (rc == 0 && master_wanted(d)) {
        rc = gs_master_pick(d->env, d->facts, &d->info, d->plan, &d->master);
        d->has_master = true;
    }
    if (rc == 0)
        rc = gs_gpubind_check(d->env, d->facts, &d->info, d->plan);
    if (rc)
        return rc;
    for (uint32_t var = 0; var < GS_VAR_COUNT; var++)
        var_add(d, var);
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
    struct draft d = {.env = env, .facts = facts, .plan = &plan};
    int rc = 0;

    if (is_noop(&d)) {
        plan.outcome = GS_PLAN_NOOP;
        stale_remove(&d);
    } else {
        rc = draft_make(&d);
        gs_stepinfo_clear(&d.info);
    }
    if (rc < 0)
        return gs_error_set(error, -rc, "out of memory while planning the environment");
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
