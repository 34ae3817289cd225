/* steplist.c - a step's counts and lists; see stepread_private.h.
 *
 * The job's values stand in for missing ones of the step only where they fit the rest;
 * otherwise they are about something larger and are ignored.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "number_private.h"
#include "stepread_private.h"
#include "taskmap.h"

int gs_stepread_number(struct gs_stepread *r,
                       const char *name,
                       int64_t item,
                       uint32_t *ret_value,
                       bool *ret_known)
{
    const char *text = gs_env_get(r->env, name);
    uint64_t value = 0;

    *ret_known = true;
    if (text) {
        if (!gs_number_read(text, strlen(text), GS_TASKS_MAX, &value))
            return gs_plan_fail(r->plan,
                                GS_REASON_BAD_ENVIRONMENT,
                                "%s='%.80s' is not a number a step can have",
                                name,
                                text);
        *ret_value = (uint32_t)value;
    } else if (!r->het && item >= 0 && item <= GS_TASKS_MAX) {
        *ret_value = (uint32_t)item;
    } else {
        *ret_known = false;
    }
    return 0;
}

/* A count that SPANK gives as 0 is one it does not have. */
static int64_t count_item(int64_t item)
{
    return item > 0 ? item : -1;
}

/* The step's own tasks-per-node list, or else the job's. */
static int counts_parse(struct gs_stepread *r)
{
    struct gs_error error;
    int rc;

    r->counts_name = "SLURM_STEP_TASKS_PER_NODE";
    r->counts_text = gs_env_get(r->env, r->counts_name);
    r->counts_own = r->counts_text != NULL;
    if (!r->counts_own) {
        r->counts_name = "SLURM_TASKS_PER_NODE";
        r->counts_text = gs_env_get(r->env, r->counts_name);
    }
    if (!r->counts_text)
        return 0;
    rc = gs_taskmap_counts(r->counts_text, &r->counts, &r->counts_nodes, &error);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0 && r->counts_own)
        return gs_plan_fail(
            r->plan, GS_REASON_BAD_ENVIRONMENT, "%s: %s", r->counts_name, error.text);
    return 0;
}

static void counts_drop(struct gs_stepread *r)
{
    gs_counts_free(r->counts);
    r->counts = NULL;
    r->counts_nodes = 0;
    r->counts_text = NULL;
    r->info->uneven = false;
}

int gs_stepread_counts(struct gs_stepread *r)
{
    struct gs_stepinfo *info = r->info;
    const char *name = "SLURM_STEP_NUM_TASKS";
    uint64_t sum = 0;
    bool known = false;
    int rc = counts_parse(r);

    if (rc == 0)
        rc = gs_stepread_number(
            r, name, count_item(r->facts->items.world), &info->world, &known);
    for (uint32_t i = 0; i < r->counts_nodes; i++) {
        sum += r->counts[i];
        info->uneven = info->uneven || r->counts[i] != r->counts[0];
    }
    if (rc == 0 && !known && r->counts_own && sum <= GS_TASKS_MAX) {
        info->world = (uint32_t)sum;
        known = true;
    }
    if (rc == 0 && !known) {
        name = "SLURM_NTASKS";
        rc = gs_stepread_number(r, name, -1, &info->world, &known);
    }
    if (rc)
        return rc;
    if (!known || info->world == 0)
        return gs_plan_fail(r->plan,
                            GS_REASON_BAD_ENVIRONMENT,
                            "%s: how many tasks the step has is not known; start the "
                            "program with srun",
                            known ? "SLURM_STEP_NUM_TASKS=0"
                                  : "no SLURM_STEP_NUM_TASKS");
    if (!r->counts || sum == info->world)
        return 0;
    if (r->counts_own)
        return gs_plan_fail(r->plan,
                            GS_REASON_WORLD_MISMATCH,
                            "%s=%.80s adds up to %llu tasks, but %s is %u",
                            r->counts_name,
                            r->counts_text,
                            (unsigned long long)sum,
                            name,
                            info->world);
    counts_drop(r);
    return 0;
}

static int name_compare(const void *x, const void *y)
{
    char *const *const a = *(char *const *const *)x;
    char *const *const b = *(char *const *const *)y;
    int order = strcmp(*a, *b);

    return order ? order : (a > b) - (a < b);
}

/* Drops repeated names, keeping the first of each in place. */
static int hosts_unique(struct gs_names *hosts)
{
    uint32_t kept = 0;
    char ***sorted = calloc(hosts->count + 1, sizeof(*sorted));
    const char *last = NULL;

    if (!sorted)
        return -ENOMEM;
    for (uint32_t i = 0; i < hosts->count; i++)
        sorted[i] = &hosts->name[i];
    qsort(sorted, hosts->count, sizeof(*sorted), name_compare);
    for (uint32_t i = 0; i < hosts->count; i++) {
        char **slot = sorted[i];

        if (last && strcmp(last, *slot) == 0) {
            free(*slot);
            *slot = NULL;
        } else {
            last = *slot;
        }
    }
    for (uint32_t i = 0; i < hosts->count; i++)
        if (hosts->name[i])
            hosts->name[kept++] = hosts->name[i];
    hosts->count = kept;
    free(sorted);
    return 0;
}

/* The step's node list, or the job's (*ret_own false). */
static int hosts_parse(struct gs_stepread *r, bool *ret_own)
{
    struct gs_error error;
    int rc;

    r->list_name = "SLURM_STEP_NODELIST";
    r->list_text = gs_env_get(r->env, r->list_name);
    *ret_own = r->list_text != NULL;
    if (!*ret_own) {
        r->list_name = "SLURM_JOB_NODELIST";
        r->list_text = gs_env_get(r->env, r->list_name);
    }
    if (!r->list_text)
        return 0;
    rc = gs_hostlist_expand(r->list_text, &r->info->hosts, &error);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0)
        return gs_plan_fail(
            r->plan, GS_REASON_BAD_ENVIRONMENT, "%s: %s", r->list_name, error.text);
    return 0;
}

/* The number of nodes named by a list must be the step's. */
static int nodes_check(struct gs_stepread *r,
                       const char *name,
                       const char *text,
                       uint32_t count)
{
    if (count == r->info->nodes)
        return 0;
    return gs_plan_fail(r->plan,
                        GS_REASON_WORLD_MISMATCH,
                        "%s=%.120s is about %u node(s), but the step has %u "
                        "(SLURM_STEP_NUM_NODES)",
                        name,
                        text,
                        count,
                        r->info->nodes);
}

int gs_stepread_hosts(struct gs_stepread *r)
{
    struct gs_stepinfo *info = r->info;
    bool known = false, own = false;
    int rc = hosts_parse(r, &own);

    if (rc == 0)
        rc = gs_stepread_number(r,
                                "SLURM_STEP_NUM_NODES",
                                count_item(r->facts->items.nodes),
                                &info->nodes,
                                &known);
    if (rc)
        return rc;
    if (!known)
        info->nodes = r->counts ? r->counts_nodes : info->hosts.count;
    if (info->nodes == 0)
        return gs_plan_fail(r->plan,
                            GS_REASON_BAD_ENVIRONMENT,
                            "SLURM_STEP_NUM_NODES, SLURM_STEP_TASKS_PER_NODE and "
                            "SLURM_STEP_NODELIST do not name a node; start the program "
                            "with srun");
    if (info->hosts.count != info->nodes && hosts_unique(&info->hosts) < 0)
        return -ENOMEM;
    if (r->counts && r->counts_nodes != info->nodes && !r->counts_own)
        counts_drop(r);
    if (r->counts)
        rc = nodes_check(r, r->counts_name, r->counts_text, r->counts_nodes);
    if (rc || info->hosts.count == info->nodes || !r->list_text)
        return rc;
    if (own && !r->het)
        return nodes_check(r, r->list_name, r->list_text, info->hosts.count);
    gs_names_free(&info->hosts); /* the job's nodes are not the step's */
    return 0;
}

/* SLURM_GTIDS: the ranks of this node's tasks, in local order. */
int gs_stepread_gtids(struct gs_stepread *r)
{
    const char *text = gs_env_get(r->env, "SLURM_GTIDS");
    uint32_t count = 1, filled = 0;
    uint32_t *ranks;
    uint64_t rank = 0;

    if (!text)
        return 0;
    for (const char *c = text; *c; c++)
        count += *c == ',';
    ranks = calloc(count, sizeof(*ranks));
    if (!ranks)
        return -ENOMEM;
    for (const char *c = text; filled < count; c++) {
        size_t len = strcspn(c, ",");

        if (!gs_number_read(c, len, GS_TASKS_MAX, &rank))
            break;
        ranks[filled++] = (uint32_t)rank;
        c += len;
    }
    if (filled < count) {
        free(ranks);
        return gs_plan_fail(r->plan,
                            GS_REASON_BAD_ENVIRONMENT,
                            "SLURM_GTIDS='%.80s' is not a list of ranks",
                            text);
    }
    r->info->local_ranks = ranks;
    r->info->local_world = count;
    return 0;
}
