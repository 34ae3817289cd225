/* story.c - names, and who is to blame; see story.h. Blame only what did not arrive. */
#include <stdlib.h>
#include <string.h>

#include "hostlist.h"
#include "story_private.h"

const char *gs_outcome_name(enum gs_outcome outcome)
{
    static const char *const names[] = {
        [GS_WAITING] = "waiting",
        [GS_RELEASED] = "released",
        [GS_REFUSED] = "refused",
        [GS_CANCELLED] = "cancelled",
    };

    return names[outcome];
}

const char *gs_refusal_name(enum gs_refusal reason)
{
    static const char *const names[] = {
        [GS_REFUSAL_NONE] = "none",
        [GS_REFUSAL_TIMEOUT] = "timeout",
        [GS_REFUSAL_TASK_ENDED] = "task_ended",
        [GS_REFUSAL_LAUNCH] = "launch_failed",
        [GS_REFUSAL_CONFIG] = "configuration",
        [GS_REFUSAL_NODE_LOST] = "node_lost",
        [GS_REFUSAL_UNREACHABLE] = "master_unreachable",
        [GS_REFUSAL_MISMATCH] = "mismatch",
        [GS_REFUSAL_ENDED] = "ended_by_slurm",
        [GS_REFUSAL_PROGRAM] = "program_missing",
        [GS_REFUSAL_HEALTH] = "health",
    };

    return names[reason];
}

const char *gs_node_phase(const struct gs_node *node)
{
    if (node->hello_us < 0)
        return node->failed ? "refused" : "never connected";
    if (node->lost_us >= 0)
        return "connection lost";
    if (node->failed)
        return "failed";
    if (node->arrived_count == node->rank_count)
        return "ready";
    return node->arrived_count ? "partly started" : "not started";
}

static bool has_mismatch(const struct gs_gang *gang, const struct gs_node *node)
{
    for (uint32_t i = 0; i < node->rank_count; i++)
        if (gang->tasks[node->ranks[i]].mismatch)
            return true;
    return false;
}

/* Whether a node has a task that cannot execute the program. */
static bool lacks_program(const struct gs_gang *gang, const struct gs_node *node)
{
    for (uint32_t i = 0; i < node->rank_count; i++)
        if (gang->tasks[node->ranks[i]].program)
            return true;
    return false;
}

/* Slurm ends the tasks of every node when it gives up the launch because of one: those
 * that had arrived are innocent. */
bool gs_story_was_ready(const struct gs_gang *gang, uint32_t rank)
{
    const struct gs_task *task = &gang->tasks[rank];
    bool swept = gang->reason == GS_REFUSAL_ENDED || gang->reason == GS_REFUSAL_TIMEOUT;

    return task->state == GS_TASK_ARRIVED
           || (swept && task->state == GS_TASK_ENDED && task->arrived_us >= 0
               && task->fail_kind != GS_FAIL_EXIT);
}

uint32_t gs_story_count_ready(const struct gs_gang *gang, const struct gs_node *node)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < node->rank_count; i++)
        count += gs_story_was_ready(gang, node->ranks[i]);
    return count;
}

bool gs_story_blames(const struct gs_story *story, uint32_t index)
{
    const struct gs_gang *gang = story->gang;
    const struct gs_node *node = &gang->nodes[index];

    switch (gang->reason) {
    case GS_REFUSAL_TASK_ENDED:
    case GS_REFUSAL_LAUNCH:
    case GS_REFUSAL_CONFIG:
    case GS_REFUSAL_NODE_LOST:
        return index == gang->fail_node;
    case GS_REFUSAL_UNREACHABLE:
        if (!story->master) /* nobody had anything to reach */
            return index == gang->tasks[0].node;
        return node->hello_us >= 0 && !node->wired;
    case GS_REFUSAL_PROGRAM:
        return lacks_program(gang, node);
    case GS_REFUSAL_HEALTH:
        return gs_gang_unfit(gang, node);
    case GS_REFUSAL_MISMATCH:
        return index == gang->fail_node || has_mismatch(gang, node);
    default:
        return node->hello_us < 0
               || gs_story_count_ready(gang, node) < node->rank_count;
    }
}

void gs_story_ending(const struct gs_task *task, struct gs_strbuf *ret_text)
{
    if (task->fail_kind == GS_FAIL_EXIT)
        gs_strbuf_add(ret_text, "exit code %u", task->status);
    else
        gs_strbuf_add(
            ret_text, "signal %u (%s)", task->status, strsignal((int)task->status));
}

static void reach_detail(const struct gs_story *story,
                         const struct gs_node *node,
                         struct gs_strbuf *ret_text)
{
    const struct gs_master *master = story->master;
    const struct gs_reach *reach = &node->reach;
    const char *address = "";

    if (!master) {
        gs_strbuf_add(ret_text, "has not offered an address for MASTER_ADDR");
        return;
    }
    if (story->candidate < master->candidate_count)
        address = master->candidates[story->candidate].address;
    if (!node->probed)
        gs_strbuf_add(ret_text, "has not said whether it reaches %s", address);
    else if (reach->result == GS_REACH_RESOLVE)
        gs_strbuf_add(ret_text, "does not resolve %s", story->master_addr);
    else if (reach->result == GS_REACH_ELSEWHERE)
        gs_strbuf_add(ret_text,
                      "resolves %s to %s instead of %s",
                      story->master_addr,
                      reach->text,
                      address);
    else if (reach->result == GS_REACH_STRANGER)
        gs_strbuf_add(
            ret_text, "reaches another host at %s port %u", address, master->port);
    else
        gs_strbuf_add(ret_text,
                      "cannot reach %s port %u from %s: %s",
                      address,
                      master->port,
                      node->address,
                      strerror((int)reach->detail));
}

static void program_detail(const struct gs_story *story,
                           const struct gs_node *node,
                           struct gs_strbuf *ret_text)
{
    for (uint32_t i = 0; i < node->rank_count; i++) {
        uint32_t code = story->gang->tasks[node->ranks[i]].program;
        if (!code)
            continue;
        gs_strbuf_add(ret_text,
                      "cannot execute %s: %s",
                      story->program ? story->program : "the program",
                      strerror((int)code));
        return;
    }
}

/* What the kernel says of the first task that has not arrived. It still runs
 * slurmstepd's code, so its state is that of its start. */
static void state_detail(const struct gs_story *story,
                         const struct gs_task *task,
                         struct gs_strbuf *ret_text)
{
    const struct gs_state *info = task->info;
    int64_t for_us = story->gang->decided_us - task->info_us;
    bool asleep = info->wchan[0] && strcmp(info->wchan, "0") != 0;

    gs_strbuf_add(ret_text, ": pid %u ", info->pid);
    if (info->letter == 'D')
        gs_strbuf_add(ret_text, "in D state");
    else if (info->letter == 'T' || info->letter == 't')
        gs_strbuf_add(ret_text, "is stopped");
    else
        gs_strbuf_add(ret_text,
                      "still in %s%s or Slurm's set-up",
                      info->ahead[0] ? "task_init of " : "another plugin's task_init",
                      info->ahead);
    if (info->child[0])
        gs_strbuf_add(ret_text, ", running %s", info->child);
    gs_strbuf_add(ret_text,
                  "%s%s%s for %lld s",
                  asleep ? " (" : "",
                  asleep ? info->wchan : "",
                  asleep ? ")" : "",
                  (long long)(for_us < 0 ? 0 : for_us / 1000000));
}

static void missing_ranks(const struct gs_story *story,
                          const struct gs_node *node,
                          struct gs_strbuf *ret_text)
{
    const struct gs_gang *gang = story->gang;
    const struct gs_task *known = NULL;
    uint32_t *missing = calloc(node->rank_count, sizeof(*missing)), count = 0;
    char *folded;

    for (uint32_t i = 0; missing && i < node->rank_count; i++) {
        const struct gs_task *task = &gang->tasks[node->ranks[i]];
        if (gs_story_was_ready(gang, node->ranks[i]))
            continue;
        missing[count++] = node->ranks[i];
        if (!known && task->info)
            known = task;
    }
    folded = missing ? gs_ranks_fold(missing, count) : NULL;
    gs_strbuf_add(ret_text,
                  "rank%s %s not started",
                  count == 1 ? "" : "s",
                  folded ? folded : "?");
    if (known)
        state_detail(story, known, ret_text);
    gs_text_free(folded);
    free(missing);
}

static void mismatch_ranks(const struct gs_gang *gang,
                           const struct gs_node *node,
                           struct gs_strbuf *ret_text)
{
    for (uint32_t i = 0; i < node->rank_count; i++)
        if (gang->tasks[node->ranks[i]].mismatch)
            gs_strbuf_add(ret_text,
                          "%srank %u",
                          ret_text->used ? ", " : "contradicts the other ranks: ",
                          node->ranks[i]);
}

void gs_story_detail(const struct gs_story *story,
                     uint32_t index,
                     struct gs_strbuf *ret_text)
{
    const struct gs_gang *gang = story->gang;
    const struct gs_node *node = &gang->nodes[index];

    if (gang->reason == GS_REFUSAL_TASK_ENDED && gang->fail_node == index) {
        gs_strbuf_add(ret_text, "rank %u: ", gang->fail_rank);
        gs_story_ending(&gang->tasks[gang->fail_rank], ret_text);
        if (gang->fail_text[0])
            gs_strbuf_add(ret_text, ": %s", gang->fail_text);
    } else if (gang->reason == GS_REFUSAL_HEALTH) {
        gs_story_unfit(node, ret_text);
    } else if (gang->reason == GS_REFUSAL_PROGRAM) {
        program_detail(story, node, ret_text);
    } else if (gang->reason == GS_REFUSAL_UNREACHABLE && node->hello_us >= 0) {
        reach_detail(story, node, ret_text);
    } else if (node->text[0]) {
        gs_strbuf_add(ret_text, "%s", node->text);
    } else if (gang->reason == GS_REFUSAL_MISMATCH) {
        mismatch_ranks(gang, node, ret_text);
    } else if (node->hello_us >= 0 && node->arrived_count != node->rank_count) {
        missing_ranks(story, node, ret_text);
    }
}

bool gs_story_misbound(const struct gs_gang *gang, uint32_t index, uint32_t local)
{
    uint32_t visible = gang->tasks[gang->nodes[index].ranks[local]].visible;

    return visible != GS_NO_RANK && visible > 0 && local >= visible;
}
