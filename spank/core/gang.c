/* gang.c - see gang.h. No clock, no socket: every function is a plain update of the
 * tables. What needs no weighing is decided here, the rest in gang_tick.c. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error_private.h"
#include "gang_private.h"

#define COUNT_MAX (1U << 24)

int gs_gang_size(struct gs_gang *gang, uint32_t node_count, uint32_t task_count)
{
    struct gs_node *nodes;
    struct gs_task *tasks;

    if (!node_count || !task_count || node_count > COUNT_MAX || task_count > COUNT_MAX
        || gang->node_count)
        return -EINVAL;
    nodes = calloc(node_count, sizeof(*nodes));
    tasks = calloc(task_count, sizeof(*tasks));
    if (!nodes || !tasks) {
        free(nodes);
        free(tasks);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < node_count; i++)
        nodes[i].hello_us = nodes[i].lost_us = nodes[i].silent_us =
            nodes[i].hello_rtt_us = -1;
    for (uint32_t i = 0; i < task_count; i++) {
        tasks[i].node = tasks[i].visible = GS_NO_RANK;
        tasks[i].arrived_us = -1;
    }
    gang->nodes = nodes;
    gang->tasks = tasks;
    gang->node_count = node_count;
    gang->task_count = task_count;
    return 0;
}

struct gs_gang *gs_gang_create(uint32_t node_count,
                               uint32_t task_count,
                               int64_t timeout_us)
{
    struct gs_gang *gang = calloc(1, sizeof(*gang));

    if (!gang)
        return NULL;
    gang->timeout_us = timeout_us;
    gang->first_us = gang->deadline_us = gang->decided_us = gang->suspect_us = -1;
    gang->unfit_us = gang->ready_us = gang->health_until_us = -1;
    gang->fail_node = gang->fail_rank = gang->suspect_rank = GS_NO_RANK;
    if ((node_count || task_count) && gs_gang_size(gang, node_count, task_count) < 0) {
        free(gang);
        return NULL;
    }
    return gang;
}

void gs_gang_destroy(struct gs_gang *gang)
{
    if (!gang)
        return;
    for (uint32_t i = 0; gang->nodes && i < gang->node_count; i++) {
        free(gang->nodes[i].ranks);
        gs_nodehealth_free(gang->nodes[i].health);
    }
    for (uint32_t i = 0; gang->tasks && i < gang->task_count; i++)
        free(gang->tasks[i].info);
    free(gang->nodes);
    free(gang->tasks);
    free(gang);
}

int gs_gang_expect(struct gs_gang *gang,
                   uint32_t node,
                   const char *name,
                   const uint32_t *ranks,
                   uint32_t rank_count)
{
    uint32_t *copy, taken = 0;

    if (node >= gang->node_count || !rank_count || gang->nodes[node].rank_count)
        return -EINVAL;
    copy = calloc(rank_count, sizeof(*copy));
    if (!copy)
        return -ENOMEM;
    while (taken < rank_count && ranks[taken] < gang->task_count
           && !gang->tasks[ranks[taken]].expected) {
        gang->tasks[ranks[taken]].expected = true;
        copy[taken] = ranks[taken];
        taken++;
    }
    if (taken < rank_count) {
        while (taken)
            gang->tasks[copy[--taken]].expected = false;
        free(copy);
        return -EINVAL;
    }
    for (uint32_t i = 0; i < rank_count; i++)
        gang->tasks[copy[i]].node = node;
    gang->nodes[node].ranks = copy;
    gang->nodes[node].rank_count = rank_count;
    snprintf(gang->nodes[node].name, sizeof(gang->nodes[node].name), "%s", name);
    return 0;
}

void gs_gang_contradict(struct gs_gang *gang,
                        uint32_t node,
                        const char *text,
                        int64_t now_us)
{
    bool known = node < gang->node_count;

    if (gang->outcome != GS_WAITING)
        return;
    if (known) {
        gang->nodes[node].failed = true;
        snprintf(gang->nodes[node].text, sizeof(gang->nodes[node].text), "%s", text);
    }
    gang->fail_node = known ? node : GS_NO_RANK;
    gs_gang_decide(gang, GS_REFUSED, GS_REFUSAL_MISMATCH, 75, now_us);
}

int gs_gang_arrive(
    struct gs_gang *gang, uint32_t node, uint32_t rank, uint32_t claim, int64_t when_us)
{
    struct gs_task *task;

    if (node >= gang->node_count)
        return -EINVAL;
    if (rank >= gang->task_count || gang->tasks[rank].node != node) {
        struct gs_error text;
        gs_error_set(&text, 0, "reports rank %u, which is not its own", rank);
        gs_gang_contradict(gang, node, text.text, when_us);
        return -EINVAL;
    }
    task = &gang->tasks[rank];
    if (task->state != GS_TASK_ABSENT)
        return 0;
    task->state = GS_TASK_ARRIVED;
    task->arrived_us = when_us < 0 ? 0 : when_us; /* negative means "not" */
    task->claim = claim;
    gang->nodes[node].arrived_count++;
    gang->arrived_count++;
    gang->compared = false;
    return 0;
}

void gs_gang_state(struct gs_gang *gang, const struct gs_state *state, int64_t now_us)
{
    struct gs_task *task;

    if (state->rank >= gang->task_count)
        return;
    task = &gang->tasks[state->rank];
    if (task->node != state->node_index || task->state != GS_TASK_ABSENT)
        return;
    if (!task->info)
        task->info = calloc(1, sizeof(*task->info));
    if (!task->info)
        return;
    if (task->info->letter != state->letter
        || strcmp(task->info->wchan, state->wchan) != 0)
        task->info_us = now_us;
    *task->info = *state;
}

void gs_gang_mismatch(struct gs_gang *gang, uint32_t rank)
{
    if (rank >= gang->task_count)
        return;
    gang->tasks[rank].mismatch = true;
    gang->compared = false;
}

/* Signals that a person, slurmctld or srun send to all tasks of a step. */
static bool is_cancel_signal(uint32_t signal)
{
    static const uint32_t cancel[] = {
        SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGXCPU};

    for (size_t i = 0; i < sizeof(cancel) / sizeof(cancel[0]); i++)
        if (cancel[i] == signal)
            return true;
    return false;
}

static void fail_node(struct gs_gang *gang, const struct gs_fail *fail, int64_t now_us)
{
    struct gs_node *node = &gang->nodes[fail->node_index];
    bool config = fail->kind == GS_FAIL_CONFIG;

    node->failed = true;
    memcpy(node->text, fail->text, sizeof(node->text));
    if (gang->outcome == GS_WAITING)
        gang->fail_node = fail->node_index;
    gs_gang_decide(gang,
                   GS_REFUSED,
                   config ? GS_REFUSAL_CONFIG : GS_REFUSAL_LAUNCH,
                   config ? 78 : 75,
                   now_us);
}

/* All tasks of a node were signalled together. */
static void node_ended(struct gs_gang *gang, const struct gs_fail *fail, int64_t now_us)
{
    struct gs_node *node = &gang->nodes[fail->node_index];

    if (!node->ended)
        gang->ended_count++;
    node->ended = true;
    if (gang->suspect_us < 0) {
        gang->suspect_us = now_us;
        gang->suspect_rank = fail->rank;
    }
    if (fail->kind == GS_FAIL_ASKED)
        gs_gang_decide(gang, GS_CANCELLED, GS_REFUSAL_NONE, 0, now_us);
}

int gs_gang_fail(struct gs_gang *gang, const struct gs_fail *fail, int64_t now_us)
{
    struct gs_task *task;

    if (fail->node_index >= gang->node_count)
        return -EINVAL;
    if (fail->kind == GS_FAIL_LOST) {
        gs_gang_lost(gang, fail->node_index, fail->text, now_us);
        return 0;
    }
    if (fail->rank == GS_NO_RANK) {
        fail_node(gang, fail, now_us);
        return 0;
    }
    if (fail->rank >= gang->task_count
        || gang->tasks[fail->rank].node != fail->node_index)
        return -EINVAL;
    task = &gang->tasks[fail->rank];
    if (task->state == GS_TASK_ENDED)
        return 0;
    if (task->state == GS_TASK_ARRIVED) {
        gang->arrived_count--;
        gang->nodes[task->node].arrived_count--;
    }
    task->state = GS_TASK_ENDED;
    task->fail_kind = fail->kind;
    task->status = fail->status;
    if (gang->outcome == GS_WAITING && !gang->fail_text[0])
        memcpy(gang->fail_text, fail->text, sizeof(gang->fail_text));
    if (fail->kind != GS_FAIL_EXIT && fail->siblings == 0
        && is_cancel_signal(fail->status) && !fail->text[0]) {
        node_ended(gang, fail, now_us);
    } else if (gang->outcome == GS_WAITING) {
        gang->fail_rank = fail->rank;
        gang->fail_node = task->node;
        gs_gang_decide(gang, GS_REFUSED, GS_REFUSAL_TASK_ENDED, 75, now_us);
    }
    return 0;
}

void gs_gang_lost(struct gs_gang *gang, uint32_t node, const char *text, int64_t now_us)
{
    /* Once it is decided, who leaves is innocent. */
    if (node >= gang->node_count || gang->nodes[node].lost_us >= 0
        || gang->outcome != GS_WAITING)
        return;
    gang->nodes[node].lost_us = now_us;
    if (!gang->nodes[node].failed)
        snprintf(gang->nodes[node].text, sizeof(gang->nodes[node].text), "%s", text);
    /* A cancel that ends the tasks also ends their slurmstepd. */
    if (gang->suspect_us >= 0)
        return;
    gang->fail_node = node;
    gs_gang_decide(gang, GS_REFUSED, GS_REFUSAL_NODE_LOST, 75, now_us);
}

void gs_gang_reach(struct gs_gang *gang, const struct gs_reach *reach)
{
    struct gs_node *node;

    if (reach->node_index >= gang->node_count)
        return;
    node = &gang->nodes[reach->node_index];
    node->reach = *reach;
    gang->probed_count += !node->probed;
    node->probed = true;
    gang->wired_count -= node->wired;
    node->wired = reach->result == GS_REACH_OK;
    gang->wired_count += node->wired;
}

void gs_gang_unwire(struct gs_gang *gang)
{
    gang->wired_count = gang->probed_count = 0;
    for (uint32_t i = 0; i < gang->node_count; i++)
        gang->nodes[i].wired = gang->nodes[i].probed = false;
}

void gs_gang_unreachable(struct gs_gang *gang, int64_t now_us)
{
    uint8_t code = 75;

    for (uint32_t i = 0; i < gang->node_count; i++)
        if (gang->nodes[i].probed && gang->nodes[i].reach.result >= GS_REACH_RESOLVE)
            code = 78;
    gs_gang_decide(gang, GS_REFUSED, GS_REFUSAL_UNREACHABLE, code, now_us);
}

void gs_gang_end(struct gs_gang *gang, bool cancelled, int64_t now_us)
{
    if (cancelled)
        gs_gang_decide(gang, GS_CANCELLED, GS_REFUSAL_NONE, 0, now_us);
    else
        gs_gang_decide(gang, GS_REFUSED, GS_REFUSAL_ENDED, 75, now_us);
}

void gs_gang_stretch(struct gs_gang *gang, int64_t stopped_us)
{
    if (gang->deadline_us >= 0)
        gang->deadline_us += stopped_us;
}

static uint32_t extreme(const struct gs_gang *gang, bool latest)
{
    uint32_t found = GS_NO_RANK;

    for (uint32_t i = 0; i < gang->task_count; i++) {
        const struct gs_task *task = &gang->tasks[i];
        if (task->arrived_us < 0)
            continue;
        if (found == GS_NO_RANK
            || (latest ? task->arrived_us > gang->tasks[found].arrived_us
                       : task->arrived_us < gang->tasks[found].arrived_us))
            found = i;
    }
    return found;
}

uint32_t gs_gang_last(const struct gs_gang *gang)
{
    return extreme(gang, true);
}

uint32_t gs_gang_first(const struct gs_gang *gang)
{
    return extreme(gang, false);
}
