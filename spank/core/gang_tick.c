/* gang_tick.c - the decision that takes time or everybody: see gang.h. */
#include <signal.h>

#include "gang_private.h"

void gs_gang_decide(struct gs_gang *gang,
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

/* What most ranks claim about the step; without a majority, what rank 0 claims. */
static uint32_t find_majority(const struct gs_gang *gang)
{
    uint32_t majority = 0, votes = 0, supporters = 0, claims = 0;

    /* Majority vote of Boyer and Moore: one pass, no memory; a second pass to see
     * whether the winner has a majority at all. */
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
    for (uint32_t i = 0; i < gang->task_count; i++) {
        claims += gang->tasks[i].claim != 0;
        supporters += majority && gang->tasks[i].claim == majority;
    }
    if (supporters <= claims / 2 && gang->tasks[0].claim)
        return gang->tasks[0].claim;
    return majority;
}

/* Marks the ranks that claim something else than the others. Returns how many ranks
 * contradict the step in any way. */
static uint32_t count_mismatches(struct gs_gang *gang)
{
    uint32_t majority = find_majority(gang), wrong = 0;

    for (uint32_t i = 0; i < gang->task_count; i++) {
        struct gs_task *task = &gang->tasks[i];
        if (task->claim && task->claim != majority)
            task->mismatch = true;
        wrong += task->mismatch;
    }
    return wrong;
}

/* Some ranks can execute the program and some cannot. When nobody can, the path may
 * exist only in a container that is entered later: not ours to judge. */
static bool program_differs(const struct gs_gang *gang)
{
    uint32_t lacking = 0;

    for (uint32_t i = 0; i < gang->task_count; i++)
        lacking += gang->tasks[i].program != 0;
    return lacking && lacking < gang->task_count;
}

/* Whether kills fit the end of the step as a whole, but somebody is missing: a cancel,
 * or Slurm giving up the launch. */
static bool is_ambiguous(const struct gs_gang *gang)
{
    return gang->connected_count < gang->node_count
           && (gang->ended_count == gang->connected_count || gang->ended_count > 1)
           && gang->tasks[gang->suspect_rank].status == SIGKILL;
}

static void judge_suspect(struct gs_gang *gang, int64_t now_us)
{
    if (is_ambiguous(gang))
        return;
    if (gang->ended_count > 1 || gang->ended_count == gang->node_count) {
        gs_gang_decide(gang, GS_CANCELLED, GS_REFUSAL_NONE, 0, now_us);
        return;
    }
    if (now_us < gang->suspect_us + GS_SETTLE_US)
        return;
    gang->fail_rank = gang->suspect_rank;
    gang->fail_node = gang->tasks[gang->suspect_rank].node;
    gs_gang_decide(gang, GS_REFUSED, GS_REFUSAL_TASK_ENDED, 75, now_us);
}

/* Once, when the last one has arrived: with many tasks it is long for every tick. */
static void compare(struct gs_gang *gang, int64_t now_us)
{
    gang->compared = true;
    if (count_mismatches(gang))
        gs_gang_decide(gang, GS_REFUSED, GS_REFUSAL_MISMATCH, 75, now_us);
    else if (program_differs(gang))
        gs_gang_decide(gang, GS_REFUSED, GS_REFUSAL_PROGRAM, 75, now_us);
}

enum gs_outcome gs_gang_tick(struct gs_gang *gang, int64_t now_us)
{
    bool everybody = gang->task_count && gang->arrived_count == gang->task_count;
    bool ready, known;

    if (gang->outcome != GS_WAITING)
        return gang->outcome;
    if (gang->suspect_us >= 0) {
        judge_suspect(gang, now_us);
        if (!is_ambiguous(gang))
            return gang->outcome;
    }
    if (everybody && !gang->compared)
        compare(gang, now_us);
    if (gang->outcome != GS_WAITING)
        return gang->outcome;
    ready = everybody && (!gang->wiring || gang->wired_count == gang->node_count);
    known = gs_gang_health_tick(gang, ready, now_us);
    if (ready && known)
        gs_gang_decide(gang, GS_RELEASED, GS_REFUSAL_NONE, 0, now_us);
    else if (!ready && gang->deadline_us >= 0 && now_us >= gang->deadline_us) {
        count_mismatches(gang);
        gs_gang_decide(gang,
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
    if (gang->suspect_us >= 0 && !is_ambiguous(gang))
        return gang->suspect_us + GS_SETTLE_US;
    if (gang->unfit_us >= 0
        && (gang->unfit_us + GS_SETTLE_US < gang->deadline_us
            || gang->health_until_us >= 0))
        return gang->unfit_us + GS_SETTLE_US;
    return gang->health_until_us >= 0 ? gang->health_until_us : gang->deadline_us;
}
