/* stepinfo.c - a task's Slurm variables -> the step, checked; see envplan_private.h.
 *
 * Values of the step come first, SPANK items only fill gaps, the job's values only when
 * there is nothing else; what contradicts is refused with both values in the sentence.
 * In a heterogeneous step the node list is sorted across components while SLURM_NODEID
 * counts in component order, and with -m arbitrary rank 0 may be on any node: there
 * the list is never indexed by a number.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number_private.h"
#include "stepread_private.h"
#include "taskmap.h"

/* A number that has to be known. */
static int number_need(struct gs_stepread *r,
                       const char *name,
                       int64_t item,
                       uint32_t *ret_value)
{
    bool known = false;
    int rc = gs_stepread_number(r, name, item, ret_value, &known);

    if (rc == 0 && !known)
        return gs_plan_fail(r->plan,
                            GS_REASON_BAD_ENVIRONMENT,
                            "%s is not set: this is no task of a Slurm step; start it "
                            "with srun",
                            name);
    return rc;
}

bool gs_step_name(const char *const *env,
                  const struct gs_envfacts *facts,
                  char out[GS_ENV_NAME_SIZE])
{
    const char *job = gs_env_get(env, "SLURM_JOB_ID");
    const char *step = gs_env_get(env, "SLURM_STEP_ID");

    if (facts->step)
        snprintf(out, GS_ENV_NAME_SIZE, "%s", facts->step);
    else if (job && facts->step_id != GS_STEP_UNKNOWN)
        snprintf(out, GS_ENV_NAME_SIZE, "%.10s.%u", job, facts->step_id);
    else if (job && step)
        snprintf(out, GS_ENV_NAME_SIZE, "%.10s.%.10s", job, step);
    else
        return false;
    return true;
}

/* An id of 32 bits; 0 when the variable is not set. */
static int id_read(struct gs_stepread *r, const char *name, uint32_t *ret_id)
{
    const char *text = gs_env_get(r->env, name);
    uint64_t number = 0;

    if (text && !gs_number_read(text, strlen(text), UINT32_MAX, &number))
        return gs_plan_fail(r->plan,
                            GS_REASON_BAD_ENVIRONMENT,
                            "%s='%.80s' is not an id; start the program with srun",
                            name,
                            text);
    *ret_id = (uint32_t)number;
    return 0;
}

/* Which step: job id, step id, name. */
static int identity_read(struct gs_stepread *r)
{
    struct gs_stepinfo *info = r->info;
    int rc = id_read(r, "SLURM_JOB_ID", &info->job_id);

    if (rc == 0)
        rc = id_read(r, "SLURM_STEP_ID", &info->step_id);
    if (rc)
        return rc;
    if (r->facts->step_id != GS_STEP_UNKNOWN)
        info->step_id = r->facts->step_id;
    if (gs_step_name(r->env, r->facts, info->step))
        return 0;
    return gs_plan_fail(r->plan,
                        GS_REASON_BAD_ENVIRONMENT,
                        "%s is not set: this is no task of a Slurm step; start the "
                        "program with srun",
                        gs_env_get(r->env, "SLURM_JOB_ID") ? "SLURM_STEP_ID"
                                                           : "SLURM_JOB_ID");
}

/* Place of a node in the list, or -1. */
static int64_t host_find(const struct gs_stepinfo *info, const char *name)
{
    for (uint32_t i = 0; name && i < info->hosts.count; i++)
        if (strcmp(info->hosts.name[i], name) == 0)
            return i;
    return -1;
}

/* Tasks of this task's node by the layout, 0 = not (all) known. */
static uint32_t layout_count(const struct gs_envfacts *facts,
                             const struct gs_stepinfo *info)
{
    uint32_t count = 0;

    if (facts->rank_nodes != info->world)
        return 0;
    for (uint32_t i = 0; i < facts->rank_nodes; i++)
        count += strcmp(facts->rank_node[i], facts->rank_node[info->rank]) == 0;
    return count;
}

/* How many tasks run on this node. The list is indexed by SLURM_NODEID only where list
 * order is node order, else by the node's name. */
static int local_world_read(struct gs_stepread *r)
{
    struct gs_stepinfo *info = r->info;
    int64_t item = r->facts->items.local_world;
    int64_t place = host_find(info, info->own_node);
    uint32_t listed = 0;

    if (!r->het && place >= 0 && place != info->node_rank)
        return gs_plan_fail(r->plan,
                            GS_REASON_WORLD_MISMATCH,
                            "SLURM_NODEID=%u is %s in %s, but this node is %s "
                            "(SLURMD_NODENAME)",
                            info->node_rank,
                            info->hosts.name[info->node_rank],
                            r->list_name,
                            info->own_node);
    if (!r->het)
        place = info->node_rank;
    info->place = place;
    if (r->counts && place >= 0 && place < r->counts_nodes)
        listed = r->counts[place];
    if (!info->local_world)
        info->local_world = layout_count(r->facts, info);
    else if (listed && listed != info->local_world)
        return gs_plan_fail(
            r->plan,
            GS_REASON_WORLD_MISMATCH,
            "%s=%.80s gives this node %u tasks, but SLURM_GTIDS lists %u",
            r->counts_name,
            r->counts_text,
            listed,
            info->local_world);
    if (!info->local_world)
        info->local_world = listed;
    if (!info->local_world && item > 0 && item <= GS_TASKS_MAX)
        info->local_world = (uint32_t)item;
    if (!info->local_world && r->counts && !info->uneven)
        info->local_world = r->counts[0];
    if (!info->local_world && info->nodes == 1)
        info->local_world = info->world;
    if (info->local_world)
        return 0;
    return gs_plan_fail(r->plan,
                        GS_REASON_BAD_ENVIRONMENT,
                        "how many tasks run on this node is not known: "
                        "SLURM_STEP_TASKS_PER_NODE and SLURM_GTIDS do not tell");
}

/* A number that counts from 0 against what it counts, both in the sentence. */
static int limit_check(struct gs_stepread *r,
                       const char *name,
                       uint32_t value,
                       uint32_t limit,
                       const char *of)
{
    if (value < limit)
        return 0;
    return gs_plan_fail(r->plan,
                        GS_REASON_WORLD_MISMATCH,
                        "%s=%u is too large: there are %u %s (SLURM_STEP_NUM_TASKS=%u, "
                        "SLURM_STEP_NUM_NODES=%u, %s=%.60s)",
                        name,
                        value,
                        limit,
                        of,
                        r->info->world,
                        r->info->nodes,
                        r->counts_name,
                        r->counts_text ? r->counts_text : "");
}

/* Where rank 0 runs, as far as it can be known. */
static int rank0_find(struct gs_stepread *r)
{
    struct gs_stepinfo *info = r->info;
    bool here = info->rank == 0;

    for (uint32_t i = 0; info->local_ranks && i < info->local_world; i++)
        here = here || info->local_ranks[i] == 0;
    if (r->facts->rank0_node && r->facts->rank0_node[0])
        info->rank0_node = r->facts->rank0_node;
    else if (r->facts->rank_nodes)
        info->rank0_node = r->facts->rank_node[0];
    else if (here && info->own_node)
        info->rank0_node = info->own_node;
    else if (info->nodes == 1 && info->hosts.count)
        info->rank0_node = info->hosts.name[0];
    else if (!r->het && !r->arbitrary && here && info->node_rank != 0)
        return gs_plan_fail(r->plan,
                            GS_REASON_WORLD_MISMATCH,
                            "SLURM_PROCID=0 runs on SLURM_NODEID=%u, which no task "
                            "distribution but arbitrary does",
                            info->node_rank);
    else if (!r->het && !r->arbitrary && info->hosts.count)
        info->rank0_node = info->hosts.name[0];
    return 0;
}

/* Is list order something else than rank order? */
static void kind_read(struct gs_stepread *r)
{
    const char *components = gs_env_get(r->env, "SLURM_HET_SIZE");
    const char *distribution = gs_env_get(r->env, "SLURM_DISTRIBUTION");
    uint64_t count = 0;

    r->het = components
             && (!gs_number_read(components, strlen(components), GS_TASKS_MAX, &count)
                 || count > 1);
    for (const char *const *c = r->env; !r->het && *c; c++) {
        const char *group = strstr(*c, "_HET_GROUP_");

        r->het = strncmp(*c, "SLURM_", 6) == 0 && group && group < strchr(*c, '=');
    }
    if (distribution)
        r->arbitrary = strncmp(distribution, "arbitrary", strlen("arbitrary")) == 0;
    else
        r->arbitrary = gs_env_get(r->env, "SLURM_HOSTFILE") != NULL;
}

static int ranks_read(struct gs_stepread *r)
{
    const struct gs_spankitems *items = &r->facts->items;
    int rc = number_need(r, "SLURM_PROCID", items->rank, &r->info->rank);

    if (rc == 0)
        rc = number_need(r, "SLURM_LOCALID", items->local_rank, &r->info->local_rank);
    if (rc == 0)
        rc = number_need(r, "SLURM_NODEID", items->node_rank, &r->info->node_rank);
    return rc;
}

/* The checks that need all numbers, in an order in which each may rely on the last. */
static int numbers_check(struct gs_stepread *r)
{
    struct gs_stepinfo *info = r->info;
    int rc = limit_check(r, "SLURM_PROCID", info->rank, info->world, "task(s)");

    if (rc == 0)
        rc = limit_check(r, "SLURM_NODEID", info->node_rank, info->nodes, "node(s)");
    if (rc == 0)
        rc = gs_stepread_gtids(r);
    if (rc == 0)
        rc = local_world_read(r);
    if (rc == 0)
        rc = limit_check(r,
                         "SLURM_LOCALID",
                         info->local_rank,
                         info->local_world,
                         "task(s) on this node");
    if (rc == 0 && info->local_ranks
        && info->local_ranks[info->local_rank] != info->rank)
        rc = gs_plan_fail(r->plan,
                          GS_REASON_WORLD_MISMATCH,
                          "SLURM_PROCID=%u, but task SLURM_LOCALID=%u of this node is "
                          "rank %u in SLURM_GTIDS",
                          info->rank,
                          info->local_rank,
                          info->local_ranks[info->local_rank]);
    return rc;
}

int gs_stepinfo_read(const char *const *env,
                     const struct gs_envfacts *facts,
                     struct gs_stepinfo *info,
                     struct gs_envplan *plan)
{
    struct gs_stepread r = {.env = env, .facts = facts, .info = info, .plan = plan};
    int (*const steps[])(struct gs_stepread *) = {identity_read,
                                                  ranks_read,
                                                  gs_stepread_counts,
                                                  gs_stepread_hosts,
                                                  numbers_check,
                                                  rank0_find};
    int rc = 0;

    *info = (struct gs_stepinfo){.own_node = gs_env_get(env, "SLURMD_NODENAME"),
                                 .place = -1};
    kind_read(&r);
    for (size_t i = 0; rc == 0 && i < sizeof(steps) / sizeof(steps[0]); i++)
        rc = steps[i](&r);
    info->list_ranked = !r.het && !r.arbitrary;
    info->counts = r.counts;
    return rc;
}

void gs_stepinfo_clear(struct gs_stepinfo *info)
{
    gs_names_free(&info->hosts);
    free(info->local_ranks);
    info->local_ranks = NULL;
    gs_counts_free(info->counts);
    info->counts = NULL;
}
