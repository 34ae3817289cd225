/* gpubind.c - does LOCAL_RANK fit the GPUs a task sees? see envplan.h.
 *
 * Programs call set_device(LOCAL_RANK); a task that sees fewer GPUs than that uses its
 * first. Warnings only, since a program may know better; with health=require two tasks
 * on one GPU refuse the start. CUDA_VISIBLE_DEVICES itself is never changed.
 */
#include <stdio.h>
#include <string.h>

#include "envplan_private.h"
#include "visible.h"

/* Has Slurm given this step GPUs? */
static const char *gpus_granted(const char *const *env)
{
    static const char *const names[] = {"SLURM_GPUS_ON_NODE",
                                        "SLURM_STEP_GPUS",
                                        "SLURM_GPUS_PER_TASK",
                                        "SLURM_GPUS_PER_NODE"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = gs_env_get(env, names[i]);

        if (value && (strcmp(value, "0") != 0 || strcmp(names[i], names[1]) == 0))
            return names[i];
    }
    return NULL;
}

int gs_gpubind_count(const char *const *env,
                     const struct gs_envfacts *facts,
                     const struct gs_stepinfo *info)
{
    if (facts->visible_count >= 0)
        return facts->visible_count;
    for (uint32_t i = 0; i < facts->local_gpus_count; i++)
        if (facts->local_gpus[i].local_rank == info->local_rank)
            return (int)facts->local_gpus[i].count;
    for (; *env; env++) /* an empty value counts here: it hides all GPUs */
        if (strncmp(*env, "CUDA_VISIBLE_DEVICES=", 21) == 0)
            return gs_visible_count(*env + 21);
    return -1;
}

/* The GPU a task will use, NULL if it sees none. */
static const char *effective(const struct gs_taskgpus *task)
{
    if (task->count == 0)
        return NULL;
    return task->uuid[task->local_rank < task->count ? task->local_rank : 0];
}

/* "rank 9 (LOCAL_RANK 1)", or without the rank where it is not known. */
static void task_name(const struct gs_stepinfo *info,
                      uint32_t local_rank,
                      char *out,
                      size_t size)
{
    if (info->local_ranks && local_rank < info->local_world)
        snprintf(out,
                 size,
                 "rank %u (LOCAL_RANK %u)",
                 info->local_ranks[local_rank],
                 local_rank);
    else if (info->nodes == 1)
        snprintf(out, size, "rank %u (LOCAL_RANK %u)", local_rank, local_rank);
    else if (local_rank == info->local_rank)
        snprintf(out, size, "rank %u (LOCAL_RANK %u)", info->rank, local_rank);
    else
        snprintf(out, size, "LOCAL_RANK %u", local_rank);
}

/* Two tasks of the node with the same effective GPU. */
static bool duplicate_find(const struct gs_envfacts *facts,
                           const struct gs_taskgpus **ret_one,
                           const struct gs_taskgpus **ret_other)
{
    for (uint32_t i = 0; i < facts->local_gpus_count; i++) {
        const char *one = effective(&facts->local_gpus[i]);

        for (uint32_t k = i + 1; one && k < facts->local_gpus_count; k++) {
            const char *other = effective(&facts->local_gpus[k]);

            if (!other || strcmp(one, other) != 0)
                continue;
            *ret_one = &facts->local_gpus[i];
            *ret_other = &facts->local_gpus[k];
            return true;
        }
    }
    return false;
}

static bool duplicate_text(const struct gs_envfacts *facts,
                           const struct gs_stepinfo *info,
                           char *ret_text,
                           size_t size)
{
    const struct gs_taskgpus *one = NULL, *other = NULL;
    char first[64], second[64];

    if (!duplicate_find(facts, &one, &other))
        return false;
    task_name(info, one->local_rank, first, sizeof(first));
    task_name(info, other->local_rank, second, sizeof(second));
    snprintf(ret_text,
             size,
             "%s and %s would both use GPU %s; give each task its own GPU, and do not "
             "export CUDA_VISIBLE_DEVICES",
             first,
             second,
             effective(one));
    return true;
}

bool gs_gpubind_shared(const struct gs_taskgpus *tasks,
                       uint32_t count,
                       uint32_t *ranks,
                       char *ret_text,
                       size_t size)
{
    const struct gs_envfacts facts = {.local_gpus = tasks, .local_gpus_count = count};
    const struct gs_stepinfo info = {.local_ranks = ranks, .local_world = count};

    return duplicate_text(&facts, &info, ret_text, size);
}

static int duplicate_check(const struct gs_envfacts *facts,
                           const struct gs_stepinfo *info,
                           struct gs_envplan *plan)
{
    char text[GS_ERROR_SIZE];

    if (!duplicate_text(facts, info, text, sizeof(text)))
        return 0;
    gs_plan_warn(plan, GS_WARN_DUPLICATE_GPU, "%s", text);
    if (!facts->gpus_required)
        return 0;
    return gs_plan_fail(plan, GS_REASON_DUPLICATE_GPU, "%s", text);
}

int gs_gpubind_check(const char *const *env,
                     const struct gs_envfacts *facts,
                     const struct gs_stepinfo *info,
                     struct gs_envplan *plan)
{
    int count = gs_gpubind_count(env, facts, info);
    const char *granted = gpus_granted(env);

    if (count > 0 && info->local_rank >= (uint32_t)count)
        gs_plan_warn(
            plan,
            GS_WARN_GPU_BINDING,
            "rank %u sees %d GPU(s) but has LOCAL_RANK %u; ask for --gpus-per-node "
            "instead of --gpus-per-task, or use device 0 in the program",
            info->rank,
            count,
            info->local_rank);
    if (count == 0 && granted)
        gs_plan_warn(
            plan,
            GS_WARN_GPU_BINDING,
            "rank %u sees no GPU though Slurm granted some (%s=%.60s); look at "
            "CUDA_VISIBLE_DEVICES",
            info->rank,
            granted,
            gs_env_get(env, granted));
    return duplicate_check(facts, info, plan);
}
