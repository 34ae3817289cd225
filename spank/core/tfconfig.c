/* tfconfig.c - TF_CONFIG: the node and port of every task, for TensorFlow.
 *
 * Unlike the other frameworks TensorFlow meets nowhere: each task must know where every
 * other listens. Who runs where follows from the tasks per node and from the
 * distribution, and each node proves its own part with its tasks' ranks. Task l of any
 * node listens on the l-th port after MASTER_PORT in the step's order of ports
 * (portpick.h), which all nodes compute alike; nobody holds these ports until then.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "envplan_private.h"
#include "number_private.h"
#include "portpick.h"

#define MASTER_TRIES 256 /* MASTER_PORT is one of the first ports, or the user's */
#define NAME_SIZE sizeof("TF_CONFIG=")
#define FIVE_DIGITS 10000

struct seat {
    uint32_t node, local; /* place in the node list, number on that node */
};

struct layout {
    struct seat *seats; /* one per rank */
    uint16_t *ports;    /* one per task of the fullest node, and one to spare */
    uint32_t most;      /* how many that are */
};

static int layout_unknown(struct gs_draft *d)
{
    return gs_plan_fail(d->plan,
                        GS_REASON_BAD_ENVIRONMENT,
                        "TF_CONFIG lists the node of every rank, which is not known: "
                        "SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE and "
                        "SLURM_DISTRIBUTION do not tell in a heterogeneous step, with "
                        "an arbitrary distribution or where they disagree with "
                        "SLURM_GTIDS; set TF_CONFIG, or ask for "
                        "env=tensorflow-TF_CONFIG");
}

/* How many ranks in a row a node gets before the next one's turn; 0 = not known. */
static uint32_t run_length(const struct gs_draft *d)
{
    const char *words = gs_env_get(d->env, "SLURM_DISTRIBUTION");
    const char *plane = gs_env_get(d->env, "SLURM_DIST_PLANESIZE");
    size_t len = words ? strcspn(words, ":,=") : 0;
    uint64_t size = 0;

    if (!words || (len == 5 && memcmp(words, "block", len) == 0))
        return UINT32_MAX;
    if (len == 6 && memcmp(words, "cyclic", len) == 0)
        return 1;
    if (len != 5 || memcmp(words, "plane", len) != 0)
        return 0;
    if (words[len] == '=')
        plane = words + len + 1;
    if (plane && gs_number_read(plane, strcspn(plane, ":,"), UINT32_MAX, &size))
        return (uint32_t)size;
    return 0;
}

/* Deals the ranks to the nodes, run by run, to each as many as it runs. */
static int seats_deal(struct gs_draft *d, struct layout *layout)
{
    const struct gs_stepinfo *info = &d->info;
    uint32_t run = run_length(d), rank = 0;
    uint32_t *used;

    if (!run || !info->counts || !info->list_ranked || info->hosts.count != info->nodes)
        return layout_unknown(d);
    used = calloc(info->nodes, sizeof(*used));
    if (!used)
        return -ENOMEM;
    while (rank < info->world) {
        for (uint32_t node = 0; node < info->nodes; node++)
            for (uint32_t n = 0; n < run && used[node] < info->counts[node]; n++)
                layout->seats[rank++] = (struct seat){node, used[node]++};
    }
    for (uint32_t node = 0; node < info->nodes; node++)
        layout->most = used[node] > layout->most ? used[node] : layout->most;
    free(used);
    return 0;
}

/* This node's part of what was dealt, against the ranks it really runs. */
static int seats_check(struct gs_draft *d, const struct layout *layout)
{
    const struct gs_stepinfo *info = &d->info;

    for (uint32_t local = 0; local < info->local_world; local++) {
        uint32_t rank = info->local_ranks ? info->local_ranks[local] : info->rank;

        if (!info->local_ranks && local != info->local_rank)
            continue;
        if (rank >= info->world || layout->seats[rank].node != info->place
            || layout->seats[rank].local != local)
            return layout_unknown(d);
    }
    return 0;
}

static bool port_at(const struct gs_draft *d, uint32_t attempt, uint16_t *ret_port)
{
    struct gs_portrules rules;
    struct gs_error error;

    gs_portrules_init(&rules);
    rules.allowed[0].lo = (uint16_t)d->facts->port_lo;
    rules.allowed[0].hi = (uint16_t)d->facts->port_hi;
    rules.allowed_count = d->facts->port_hi ? 1 : 0;
    return gs_port_candidate(
               &rules, d->info.job_id, d->info.step_id, attempt, ret_port, &error)
           == 0;
}

/* The place in the step's order of ports that follows MASTER_PORT's. */
static uint32_t after_master(const struct gs_draft *d, uint16_t master)
{
    uint16_t port = 0;

    for (uint32_t i = 0; i < MASTER_TRIES && port_at(d, i, &port); i++)
        if (port == master)
            return i + 1;
    return 0;
}

/* The first ports after MASTER_PORT in that order, which starts over at its end. A
 * MASTER_PORT that is still to be chosen has to find one as well. */
static int ports_pick(struct gs_draft *d, struct layout *layout)
{
    uint16_t port = 0, master = (uint16_t)strtoul(d->master.port, NULL, 10);
    uint32_t start = after_master(d, master), place = start, count = 0;
    uint32_t want = layout->most + (start == 0);
    bool over = start == 0;

    while (count < want) {
        bool there = port_at(d, place++, &port);

        if (!there && !over) {
            over = true;
            place = 0;
        } else if (!there || (over && start && place > start)) {
            return gs_plan_fail(d->plan,
                                GS_REASON_BAD_ENVIRONMENT,
                                "TF_CONFIG needs %u ports beside MASTER_PORT on a "
                                "node, and there are %u; widen ports= in "
                                "plugstack.conf, or ask for env=tensorflow-TF_CONFIG",
                                layout->most,
                                count - (count && start == 0));
        } else if (port != master) {
            layout->ports[count++] = port;
        }
    }
    return 0;
}

static int too_long(struct gs_draft *d)
{
    return gs_plan_fail(d->plan,
                        GS_REASON_BAD_ENVIRONMENT,
                        "TF_CONFIG for %u tasks is longer than the %d bytes a variable "
                        "may have; start fewer tasks (one per node, for instance), or "
                        "ask for env=tensorflow-TF_CONFIG and configure the cluster in "
                        "the program",
                        d->info.world,
                        GS_ENV_STRING_MAX);
}

/* Judged as if all ports had five digits, since MASTER_PORT may still change. */
static int json_write(struct gs_draft *d,
                      const struct layout *layout,
                      struct gs_strbuf *out)
{
    const struct gs_stepinfo *info = &d->info;
    size_t spare = NAME_SIZE;

    gs_strbuf_add(out, "{\"cluster\": {\"worker\": [");
    for (uint32_t rank = 0; rank < info->world && out->used < GS_ENV_STRING_MAX;
         rank++) {
        uint16_t port = layout->ports[layout->seats[rank].local];
        const char *host = info->hosts.name[layout->seats[rank].node];

        gs_strbuf_add(out, "%s\"%s:%u\"", rank ? ", " : "", host, port);
        spare += port < FIVE_DIGITS;
    }
    gs_strbuf_add(
        out, "]}, \"task\": {\"type\": \"worker\", \"index\": %u}}", info->rank);
    return out->used + spare > GS_ENV_STRING_MAX ? too_long(d) : 0;
}

int gs_tfconfig_write(struct gs_draft *d, struct gs_strbuf *out)
{
    struct layout layout = {.seats = NULL};
    int rc;

    if (d->info.world > GS_ENV_STRING_MAX / sizeof("\"n:1024\","))
        return too_long(d);
    layout.seats = calloc(d->info.world, sizeof(*layout.seats));
    layout.ports = calloc(d->info.world + 1, sizeof(*layout.ports));
    rc = layout.seats && layout.ports ? seats_deal(d, &layout) : -ENOMEM;
    if (rc == 0)
        rc = seats_check(d, &layout);
    if (rc == 0)
        rc = ports_pick(d, &layout);
    if (rc == 0)
        rc = json_write(d, &layout, out);
    free(layout.seats);
    free(layout.ports);
    return rc;
}
