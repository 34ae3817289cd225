/* gang.c - see gang.h. No clock, no socket; every function is a plain update of the
 * tables, and gs_gang_tick() is the only place that decides on its own. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error_private.h"
#include "gang.h"

#define COUNT_MAX (1U << 24)

struct gs_gang *gs_gang_create(uint32_t node_count,
                               uint32_t task_count,
                               int64_t timeout_us)
{
    struct gs_gang *gang;

    if (!node_count || !task_count || node_count > COUNT_MAX || task_count > COUNT_MAX)
        return NULL;
    gang = calloc(1, sizeof(*gang));
    if (!gang)
        return NULL;
    gang->nodes = calloc(node_count, sizeof(*gang->nodes));
    gang->tasks = calloc(task_count, sizeof(*gang->tasks));
    if (!gang->nodes || !gang->tasks) {
        gs_gang_destroy(gang);
        return NULL;
    }
    gang->node_count = node_count;
    gang->task_count = task_count;
    gang->timeout_us = timeout_us;
    gang->first_us = gang->deadline_us = gang->decided_us = gang->suspect_us = -1;
    gang->fail_node = gang->fail_rank = gang->suspect_rank = GS_NO_RANK;
    for (uint32_t i = 0; i < node_count; i++) {
        gang->nodes[i].hello_us = gang->nodes[i].lost_us = -1;
        gang->nodes[i].silent_us = gang->nodes[i].hello_rtt_us = -1;
    }
    for (uint32_t i = 0; i < task_count; i++) {
        gang->tasks[i].node = GS_NO_RANK;
        gang->tasks[i].visible = GS_NO_RANK;
        gang->tasks[i].arrived_us = -1;
    }
    return gang;
}

void gs_gang_destroy(struct gs_gang *gang)
{
    if (!gang)
        return;
    for (uint32_t i = 0; gang->nodes && i < gang->node_count; i++)
        free(gang->nodes[i].ranks);
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
    uint32_t *copy;

    if (node >= gang->node_count || !rank_count || gang->nodes[node].rank_count)
        return -EINVAL;
    for (uint32_t i = 0; i < rank_count; i++)
        if (ranks[i] >= gang->task_count || gang->tasks[ranks[i]].expected)
            return -EINVAL;
    copy = calloc(rank_count, sizeof(*copy));
    if (!copy)
        return -ENOMEM;
    memcpy(copy, ranks, rank_count * sizeof(*copy));
    for (uint32_t i = 0; i < rank_count; i++) {
        gang->tasks[ranks[i]].expected = true;
        gang->tasks[ranks[i]].node = node;
    }
    gang->nodes[node].ranks = copy;
    gang->nodes[node].rank_count = rank_count;
    snprintf(gang->nodes[node].name, sizeof(gang->nodes[node].name), "%s", name);
    return 0;
}

static void decide(struct gs_gang *gang,
                   enum gs_outcome outcome,
                   enum gs_refusal reason,
                   uint8_t code,
                   int64_t now_us)
{
    if (gang->outcome != GS_WAITING)
        return;
    gang->outcome = outcome;
    gang->reason = reason;
    gang->code = code;
    gang->decided_us = now_us;
}

bool gs_gang_is_ours(struct gs_gang *gang,
                     uint32_t job_id,
                     uint32_t step_id,
                     uint32_t restart_count)
{
    if (job_id == gang->job_id && step_id == gang->step_id
        && restart_count == gang->restart_count)
        return true;
    gang->stale_count++;
    return false;
}

/* The ranks a node reports against the ones the step's layout gives it. */
static bool same_ranks(const struct gs_gang *gang,
                       const struct gs_node *node,
                       const struct gs_hello *hello)
{
    uint32_t index = (uint32_t)(node - gang->nodes);

    if (node->rank_count != hello->rank_count)
        return false;
    for (uint32_t i = 0; i < hello->rank_count; i++) {
        uint32_t rank = gs_hello_rank(hello, i);
        if (rank >= gang->task_count || gang->tasks[rank].node != index)
            return false;
    }
    return true;
}

static int learn_ranks(struct gs_gang *gang, const struct gs_hello *hello)
{
    uint32_t *ranks = calloc(hello->rank_count ? hello->rank_count : 1, sizeof(*ranks));
    int rc;

    if (!ranks)
        return -ENOMEM;
    for (uint32_t i = 0; i < hello->rank_count; i++)
        ranks[i] = gs_hello_rank(hello, i);
    rc = gs_gang_expect(
        gang, hello->node_index, hello->node_name, ranks, hello->rank_count);
    free(ranks);
    return rc;
}

static int misfit(struct gs_gang *gang,
                  uint32_t node,
                  struct gs_error *error,
                  const struct gs_hello *hello)
{
    int rc = gs_error_set(error,
                          EINVAL,
                          "%s says it is node %u of %u with %u of %u tasks, the step has "
                          "%u nodes and %u tasks",
                          hello->node_name,
                          hello->node_index,
                          hello->node_count,
                          hello->rank_count,
                          hello->task_count,
                          gang->node_count,
                          gang->task_count);

    if (node < gang->node_count && error) {
        gang->nodes[node].failed = true;
        memcpy(gang->nodes[node].text, error->text, sizeof(gang->nodes[node].text));
    }
    return rc;
}

int gs_gang_hello(struct gs_gang *gang,
                  const struct gs_hello *hello,
                  int64_t now_us,
                  struct gs_error *error)
{
    struct gs_node *node;

    if (!gs_gang_is_ours(gang, hello->job_id, hello->step_id, hello->restart_count))
        return -ESTALE;
    if (hello->node_index >= gang->node_count || hello->node_count != gang->node_count
        || hello->task_count != gang->task_count) {
        int rc = misfit(gang, hello->node_index, error, hello);
        gang->fail_node = hello->node_index < gang->node_count ? hello->node_index
                                                               : GS_NO_RANK;
        decide(gang, GS_REFUSED, GS_REFUSAL_MISMATCH, 75, now_us);
        return rc;
    }
    node = &gang->nodes[hello->node_index];
    if (node->hello_us >= 0)
        return -EALREADY;
    if (node->rank_count ? !same_ranks(gang, node, hello) : learn_ranks(gang, hello)) {
        gang->fail_node = hello->node_index;
        decide(gang, GS_REFUSED, GS_REFUSAL_MISMATCH, 75, now_us);
        return misfit(gang, hello->node_index, error, hello);
    }
    node->hello_us = now_us;
    gang->connected_count++;
    if (gang->first_us < 0) {
        gang->first_us = now_us;
        gang->deadline_us = now_us + gang->timeout_us;
    }
    return 0;
}

int gs_gang_arrive(struct gs_gang *gang,
                   uint32_t node,
                   uint32_t rank,
                   uint32_t claim,
                   int64_t when_us)
{
    struct gs_task *task;

    if (node >= gang->node_count || rank >= gang->task_count)
        return -EINVAL;
    task = &gang->tasks[rank];
    if (task->node != node) {
        task->mismatch = true;
        return -EINVAL;
    }
    if (task->state != GS_TASK_ABSENT)
        return 0;
    task->state = GS_TASK_ARRIVED;
    task->arrived_us = when_us;
    task->claim = claim;
    gang->nodes[node].arrived_count++;
    gang->arrived_count++;
    return 0;
}

void gs_gang_mismatch(struct gs_gang *gang, uint32_t rank)
{
    if (rank < gang->task_count)
        gang->tasks[rank].mismatch = true;
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
    decide(gang,
           GS_REFUSED,
           config ? GS_REFUSAL_CONFIG : GS_REFUSAL_LAUNCH,
           config ? 78 : 75,
           now_us);
}

int gs_gang_fail(struct gs_gang *gang, const struct gs_fail *fail, int64_t now_us)
{
    struct gs_task *task;
    bool held;

    if (fail->node_index >= gang->node_count)
        return -EINVAL;
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
    held = fail->kind != GS_FAIL_EXIT && is_cancel_signal(fail->status);
    if (held && ++gang->nodes[task->node].ended_count
                    == gang->nodes[task->node].rank_count)
        gang->ended_node_count++;
    if (held && gang->suspect_us < 0) {
        gang->suspect_us = now_us;
        gang->suspect_rank = fail->rank;
    }
    if (!held && gang->outcome == GS_WAITING) {
        gang->fail_rank = fail->rank;
        gang->fail_node = task->node;
        decide(gang, GS_REFUSED, GS_REFUSAL_TASK_ENDED, 75, now_us);
    }
    return 0;
}

void gs_gang_lost(struct gs_gang *gang, uint32_t node, const char *text, int64_t now_us)
{
    if (node >= gang->node_count || gang->nodes[node].lost_us >= 0)
        return;
    gang->nodes[node].lost_us = now_us;
    if (!gang->nodes[node].failed)
        snprintf(gang->nodes[node].text, sizeof(gang->nodes[node].text), "%s", text);
    /* A cancel that ends the tasks also ends their slurmstepd. */
    if (gang->suspect_us >= 0)
        return;
    if (gang->outcome == GS_WAITING)
        gang->fail_node = node;
    decide(gang, GS_REFUSED, GS_REFUSAL_NODE_LOST, 75, now_us);
}

void gs_gang_reach(struct gs_gang *gang, const struct gs_reach *reach)
{
    struct gs_node *node;

    if (reach->node_index >= gang->node_count)
        return;
    node = &gang->nodes[reach->node_index];
    node->reach = *reach;
    node->probed = true;
    if (reach->result == GS_REACH_OK && !node->wired) {
        node->wired = true;
        gang->wired_count++;
    }
}

void gs_gang_unwire(struct gs_gang *gang)
{
    gang->wired_count = 0;
    for (uint32_t i = 0; i < gang->node_count; i++)
        gang->nodes[i].wired = gang->nodes[i].probed = false;
}

void gs_gang_unreachable(struct gs_gang *gang, int64_t now_us)
{
    uint8_t code = 75;

    for (uint32_t i = 0; i < gang->node_count; i++)
        if (gang->nodes[i].probed && gang->nodes[i].reach.result >= GS_REACH_RESOLVE)
            code = 78;
    decide(gang, GS_REFUSED, GS_REFUSAL_UNREACHABLE, code, now_us);
}

void gs_gang_end(struct gs_gang *gang, bool cancelled, int64_t now_us)
{
    if (cancelled)
        decide(gang, GS_CANCELLED, GS_REFUSAL_NONE, 0, now_us);
    else
        decide(gang, GS_REFUSED, GS_REFUSAL_ENDED, 75, now_us);
}

void gs_gang_stretch(struct gs_gang *gang, int64_t stopped_us)
{
    if (gang->deadline_us >= 0)
        gang->deadline_us += stopped_us;
}

/* Marks the ranks whose claim differs from what most ranks claim; rank 0's side wins
 * a tie. Returns how many ranks contradict the step in any way. */
static uint32_t count_mismatches(struct gs_gang *gang)
{
    uint32_t majority = 0, votes = 0, wrong = 0;

    /* Majority vote of Boyer and Moore: one pass, no memory. */
    for (uint32_t i = 0; i < gang->task_count; i++) {
        uint32_t claim = gang->tasks[i].claim;
        if (!claim)
            continue;
        if (votes == 0)
            majority = claim;
        if (claim == majority)
            votes++;
        else
            votes--;
    }
    if (votes == 0)
        majority = gang->tasks[0].claim ? gang->tasks[0].claim : majority;
    for (uint32_t i = 0; i < gang->task_count; i++) {
        struct gs_task *task = &gang->tasks[i];
        if (task->claim && task->claim != majority)
            task->mismatch = true;
        wrong += task->mismatch;
    }
    return wrong;
}

static bool suspects_whole_node(const struct gs_gang *gang)
{
    const struct gs_node *node = &gang->nodes[gang->tasks[gang->suspect_rank].node];

    return node->ended_count == node->rank_count;
}

/* The deaths fit a signal to the step as a whole, as far as it was launched. */
static bool is_step_wide(const struct gs_gang *gang)
{
    return gang->ended_node_count == gang->connected_count
           || (gang->ended_node_count > 1 && suspects_whole_node(gang));
}

/* Slurm kills the step, too, when it gives up the launch because of a node that never
 * connected. People and slurmctld ask politely first, or tell srun. */
static bool is_ambiguous(const struct gs_gang *gang)
{
    return is_step_wide(gang) && gang->connected_count < gang->node_count
           && gang->tasks[gang->suspect_rank].status == SIGKILL;
}

static int64_t settled_us(const struct gs_gang *gang)
{
    return gang->suspect_us
           + (suspects_whole_node(gang) ? GS_SETTLE_STEP_US : GS_SETTLE_NODE_US);
}

static void judge_suspect(struct gs_gang *gang, int64_t now_us)
{
    bool over = gang->ended_node_count == gang->node_count;

    if (is_ambiguous(gang) || (!over && now_us < settled_us(gang)))
        return;
    if (is_step_wide(gang)) {
        decide(gang, GS_CANCELLED, GS_REFUSAL_NONE, 0, now_us);
        return;
    }
    gang->fail_rank = gang->suspect_rank;
    gang->fail_node = gang->tasks[gang->suspect_rank].node;
    decide(gang, GS_REFUSED, GS_REFUSAL_TASK_ENDED, 75, now_us);
}

enum gs_outcome gs_gang_tick(struct gs_gang *gang, int64_t now_us)
{
    bool everybody = gang->arrived_count == gang->task_count;

    if (gang->outcome != GS_WAITING)
        return gang->outcome;
    if (gang->suspect_us >= 0)
        judge_suspect(gang, now_us);
    if (everybody && count_mismatches(gang))
        decide(gang, GS_REFUSED, GS_REFUSAL_MISMATCH, 75, now_us);
    else if (everybody && (!gang->wiring || gang->wired_count == gang->node_count))
        decide(gang, GS_RELEASED, GS_REFUSAL_NONE, 0, now_us);
    else if (gang->deadline_us >= 0 && now_us >= gang->deadline_us) {
        count_mismatches(gang);
        decide(gang,
               GS_REFUSED,
               everybody ? GS_REFUSAL_UNREACHABLE : GS_REFUSAL_TIMEOUT,
               75,
               now_us);
    }
    return gang->outcome;
}

int64_t gs_gang_next_us(const struct gs_gang *gang)
{
    if (gang->outcome != GS_WAITING)
        return -1;
    if (gang->suspect_us >= 0 && !is_ambiguous(gang)
        && (gang->deadline_us < 0 || settled_us(gang) < gang->deadline_us))
        return settled_us(gang);
    return gang->deadline_us;
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
