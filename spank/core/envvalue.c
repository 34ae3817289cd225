/* envvalue.c - the values of variables, from the step's facts; see preset.h.
 *
 * One row per kind of value: a number of the step, or a function that writes it.
 */
#include <string.h>

#include "envplan_private.h"

static int write_constant(struct gs_draft *d, struct gs_strbuf *out)
{
    (void)d;
    gs_strbuf_add(out, "gloo");
    return 0;
}

/* Where the local rank's tasks of the other nodes are: a group of Horovod's consists of
 * the tasks with one local rank, in node order, and not every node has one. */
static int cross_find(struct gs_draft *d, uint32_t *ret_rank, uint32_t *ret_size)
{
    const struct gs_stepinfo *info = &d->info;

    *ret_rank = 0;
    *ret_size = 1;
    if (info->nodes == 1)
        return 0;
    if (!info->counts || info->place < 0)
        return gs_plan_fail(d->plan,
                            GS_REASON_BAD_ENVIRONMENT,
                            "which nodes run a task of local rank %u is not known: "
                            "SLURM_STEP_TASKS_PER_NODE does not tell; leave the "
                            "variables out: env=horovod-HOROVOD_CROSS_RANK-"
                            "HOROVOD_CROSS_SIZE",
                            info->local_rank);
    *ret_size = 0;
    for (uint32_t i = 0; i < info->nodes; i++) {
        if (info->counts[i] <= info->local_rank)
            continue;
        *ret_rank += i < info->place;
        (*ret_size)++;
    }
    return 0;
}

static int write_cross_rank(struct gs_draft *d, struct gs_strbuf *out)
{
    uint32_t rank, size;
    int rc = cross_find(d, &rank, &size);

    if (rc == 0)
        gs_strbuf_add(out, "%u", rank);
    return rc;
}

static int write_cross_size(struct gs_draft *d, struct gs_strbuf *out)
{
    uint32_t rank, size;
    int rc = cross_find(d, &rank, &size);

    if (rc == 0)
        gs_strbuf_add(out, "%u", size);
    return rc;
}

static int write_hostname(struct gs_draft *d, struct gs_strbuf *out)
{
    const struct gs_stepinfo *info = &d->info;

    if (info->own_node)
        gs_strbuf_add(out, "%s", info->own_node);
    else if (info->place >= 0 && info->place < info->hosts.count)
        gs_strbuf_add(out, "%s", info->hosts.name[info->place]);
    return 0;
}

/* JAX takes SLURM_LOCALID for the device, which a task that sees one GPU has not. */
static int write_devices(struct gs_draft *d, struct gs_strbuf *out)
{
    if (gs_gpubind_count(d->env, d->facts, &d->info) == 1)
        gs_strbuf_add(out, "0");
    return 0;
}

static int write_master_addr(struct gs_draft *d, struct gs_strbuf *out)
{
    gs_strbuf_add(out, "%s", d->master.addr);
    return 0;
}

static int write_master_port(struct gs_draft *d, struct gs_strbuf *out)
{
    gs_strbuf_add(out, "%s", d->master.port);
    return 0;
}

static int write_coordinator(struct gs_draft *d, struct gs_strbuf *out)
{
    bool six = strchr(d->master.addr, ':') != NULL;

    gs_strbuf_add(out, six ? "[%s]:%s" : "%s:%s", d->master.addr, d->master.port);
    return 0;
}

static int write_report(struct gs_draft *d, struct gs_strbuf *out)
{
    gs_strbuf_add(out, "%s", d->facts->report ? d->facts->report : "");
    return 0;
}

static int write_step(struct gs_draft *d, struct gs_strbuf *out)
{
    gs_strbuf_add(out, "%s", d->info.step);
    return 0;
}

static int write_t0(struct gs_draft *d, struct gs_strbuf *out)
{
    double t0 = d->facts->t0;
    unsigned long long seconds = t0 > 0 ? (unsigned long long)t0 : 0;

    if (t0 > 0)
        gs_strbuf_add(
            out, "%llu.%06u", seconds, (unsigned)((t0 - (double)seconds) * 1e6));
    return 0;
}

static int write_master(struct gs_draft *d, struct gs_strbuf *out)
{
    if (d->has_master)
        gs_strbuf_add(out,
                      "%.255s %s",
                      d->master.user_addr ? "-" : d->master.addr,
                      d->master.user_port ? "-" : d->master.port);
    return 0;
}

/* The last variable of a plan: all others are there. */
static int write_kept(struct gs_draft *d, struct gs_strbuf *out)
{
    for (uint32_t i = 0; i < d->plan->vars; i++) {
        const struct gs_planvar *row = &d->plan->var[i];

        if (row->action == GS_VAR_KEEP && row->var != GS_VAR_MASTER_ADDR
            && row->var != GS_VAR_MASTER_PORT)
            gs_strbuf_add(out, "%s%s", out->used ? " " : "", row->name);
    }
    return 0;
}

_Static_assert(GS_VAR_KEPT == GS_VAR_COUNT - 1, "GANGSTART_KEPT comes last");

#define NUMBER(field) {.offset = offsetof(struct gs_stepinfo, field)}

static const struct {
    int (*write)(struct gs_draft *d, struct gs_strbuf *out); /* NULL: a number */
    size_t offset;
} VALUES[GS_VALUE_COUNT] = {
    [GS_VALUE_RANK] = NUMBER(rank),
    [GS_VALUE_LOCAL_RANK] = NUMBER(local_rank),
    [GS_VALUE_WORLD_SIZE] = NUMBER(world),
    [GS_VALUE_LOCAL_WORLD_SIZE] = NUMBER(local_world),
    [GS_VALUE_NODE_RANK] = NUMBER(node_rank),
    [GS_VALUE_NODES] = NUMBER(nodes),
    [GS_VALUE_CROSS_RANK] = {.write = write_cross_rank},
    [GS_VALUE_CROSS_SIZE] = {.write = write_cross_size},
    [GS_VALUE_HOSTNAME] = {.write = write_hostname},
    [GS_VALUE_GLOO] = {.write = write_constant},
    [GS_VALUE_DEVICES] = {.write = write_devices},
    [GS_VALUE_TF_CONFIG] = {.write = gs_tfconfig_write},
    [GS_VALUE_MASTER_ADDR] = {.write = write_master_addr},
    [GS_VALUE_MASTER_PORT] = {.write = write_master_port},
    [GS_VALUE_COORDINATOR] = {.write = write_coordinator},
    [GS_VALUE_REPORT] = {.write = write_report},
    [GS_VALUE_STEP] = {.write = write_step},
    [GS_VALUE_T0] = {.write = write_t0},
    [GS_VALUE_MASTER] = {.write = write_master},
    [GS_VALUE_KEPT] = {.write = write_kept},
};

int gs_envvalue_write(struct gs_draft *d, enum gs_env_value what, struct gs_strbuf *out)
{
    uint32_t number;

    if (VALUES[what].write)
        return VALUES[what].write(d, out);
    memcpy(&number, (const char *)&d->info + VALUES[what].offset, sizeof(number));
    gs_strbuf_add(out, "%u", number);
    return 0;
}
