/* agent_tasks.c - what the node's own tasks do: arrivals and deaths, told once each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent_private.h"
#include "clock_private.h"

int gs_agent_send_fail(struct gs_agent *agent, const struct gs_fail *fail)
{
    struct gs_buffer body = {0};
    int rc;

    gs_fail_encode(&body, fail);
    rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_FAIL, &body);
    gs_wire_free(&body);
    return rc;
}

static int send_arrivals(struct gs_agent *agent, int64_t now_us)
{
    uint32_t count = 0, slots = agent->conf.page->slot_count;
    struct gs_arrival *arrivals = NULL;
    struct gs_buffer body = {0};
    int rc = 0;

    for (uint32_t i = 0; i < slots; i++) {
        struct gs_slot *slot = &agent->conf.page->slots[i];
        struct gs_arrival *grown;
        int64_t age = now_us - atomic_load(&slot->arrived_us);
        if (agent->arrival_sent[i] || atomic_load(&slot->state) != GS_SLOT_ARRIVED)
            continue;
        grown = realloc(arrivals, (count + 1) * sizeof(*arrivals));
        if (!grown)
            break;
        arrivals = grown;
        arrivals[count++] = (struct gs_arrival){
            .rank = agent->conf.ranks[i],
            .age_us = age < 0 ? 0 : age > UINT32_MAX ? UINT32_MAX : (uint32_t)age,
            .visible = atomic_load(&slot->visible),
            .claim = atomic_load(&slot->claim),
        };
        agent->arrival_sent[i] = true;
    }
    if (count) {
        gs_arrivals_encode(&body, agent->conf.hello.node_index, arrivals, count);
        rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_ARRIVED, &body);
        gs_wire_free(&body);
    }
    free(arrivals);
    return rc;
}

/* The task's own words may hold anything: it ran with the user's rights. */
static void copy_clean(char *to, const char *from, size_t size)
{
    size_t i;

    for (i = 0; i + 1 < size && from[i]; i++)
        to[i] = (unsigned char)from[i] < 0x20 || from[i] == 0x7f ? '?' : from[i];
    to[i] = '\0';
}

static struct gs_fail describe_exit(struct gs_agent *agent, uint32_t local, int status)
{
    struct gs_slot *slot = &agent->conf.page->slots[local];
    uint32_t state = atomic_load(&slot->state);
    struct gs_fail fail = {
        .node_index = agent->conf.hello.node_index,
        .rank = agent->conf.ranks[local],
        .kind = GS_FAIL_EXIT,
    };

    if (WIFSIGNALED(status)) {
        fail.kind = GS_FAIL_SIGNAL;
        fail.status = (uint32_t)WTERMSIG(status);
        return fail;
    }
    fail.status = (uint32_t)WEXITSTATUS(status);
    if (state == GS_SLOT_ASKED && fail.status > 128) {
        fail.kind = GS_FAIL_ASKED;
        fail.status -= 128;
    } else if (state == GS_SLOT_CONFIG) {
        fail.kind = GS_FAIL_CONFIG;
        fail.rank = GS_NO_RANK;
        copy_clean(fail.text, slot->text, sizeof(fail.text));
    }
    return fail;
}

static int send_exits(struct gs_agent *agent)
{
    bool waiting = atomic_load(&agent->conf.page->state) == GS_PAGE_WAIT;

    for (uint32_t i = 0; i < agent->conf.page->slot_count; i++) {
        int32_t status = atomic_load(&agent->exit_status[i]);
        if (status < 0 || agent->exit_sent[i])
            continue;
        agent->exit_sent[i] = true;
        agent->exits++;
        if (!waiting)
            continue;
        struct gs_fail fail = describe_exit(agent, i, status);
        int rc = gs_agent_send_fail(agent, &fail);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int send_launch_failed(struct gs_agent *agent)
{
    struct gs_fail fail = {
        .node_index = agent->conf.hello.node_index,
        .rank = GS_NO_RANK,
        .kind = GS_FAIL_LAUNCH,
        .text = "slurmstepd ended before it released its tasks",
    };

    if (!atomic_exchange(&agent->launch_failed, false))
        return 0;
    agent->launch_told = true;
    return gs_agent_send_fail(agent, &fail);
}

int gs_agent_report_tasks(struct gs_agent *agent, int64_t now_us)
{
    int rc = send_launch_failed(agent);

    if (rc == 0)
        rc = send_arrivals(agent, now_us);
    if (rc == 0)
        rc = send_exits(agent);
    return rc;
}
