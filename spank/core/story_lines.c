/* story_lines.c - the lines in srun's terminal. */
#include <stdlib.h>
#include <string.h>

#include "hostlist.h"
#include "story_private.h"

/* As many lines as a person reads; the nodes beyond share the last one. */
#define GROUP_MAX 24

/* Nodes with the same phase and the same detail share one line. */
struct group {
    char *text; /* phase and detail */
    uint32_t *nodes;
    uint32_t count;
};

static double seconds(int64_t us)
{
    return us < 0 ? 0 : (double)us / 1e6;
}

static void warn_binding(const struct gs_gang *gang, struct gs_strbuf *out)
{
    uint32_t count = 0, first_node = 0, first_local = 0;

    for (uint32_t n = 0; n < gang->node_count; n++) {
        for (uint32_t l = 0; l < gang->nodes[n].rank_count; l++) {
            if (!gs_story_misbound(gang, n, l))
                continue;
            if (count++ == 0) {
                first_node = n;
                first_local = l;
            }
        }
    }
    if (!count)
        return;
    uint32_t rank = gang->nodes[first_node].ranks[first_local];
    gs_strbuf_add(
        out,
        "gang-start: warning: %u task%s fewer GPUs than LOCAL_RANK needs (rank "
        "%u on %s: LOCAL_RANK %u, %u visible); ask for --gpus-per-node, or use "
        "device 0 in every task\n",
        count,
        count == 1 ? " sees" : "s see",
        rank,
        gang->nodes[first_node].name,
        first_local,
        gang->tasks[rank].visible);
}

/* torchrun and its like start one process per GPU themselves. */
static void warn_launcher(const struct gs_story *story, struct gs_strbuf *out)
{
    for (uint32_t i = 0; story->launcher && i < story->gang->node_count; i++) {
        const struct gs_node *node = &story->gang->nodes[i];
        if (node->rank_count < 2)
            continue;
        gs_strbuf_add(
            out,
            "gang-start: warning: %s starts the processes of a node itself, but "
            "%s has %u tasks; it wants --ntasks-per-node=1\n",
            story->launcher,
            node->name,
            node->rank_count);
        return;
    }
}

char *gs_story_start(const struct gs_story *story)
{
    const struct gs_gang *gang = story->gang;
    uint32_t last = gs_gang_last(gang), first = gs_gang_first(gang);
    int64_t skew = gang->tasks[last].arrived_us - gang->tasks[first].arrived_us;
    const struct gs_master *master = story->master;
    struct gs_strbuf out = {0};

    gs_strbuf_add(
        &out,
        "gang-start: %u/%u tasks on %u/%u nodes in %.1f s (last: rank %u on %s, "
        "+%.1f s)",
        gang->arrived_count,
        gang->task_count,
        gang->connected_count,
        gang->node_count,
        seconds(gang->decided_us - story->begun_us),
        last,
        gang->nodes[gang->tasks[last].node].name,
        seconds(skew));
    if (master)
        gs_strbuf_add(&out,
                      " · master %s:%u%s",
                      master->user_address ? story->master_addr
                                           : gang->nodes[master->node_index].name,
                      master->port,
                      master->user_address ? " (MASTER_ADDR is yours)"
                      : master->user_port  ? " (MASTER_PORT is yours)"
                                           : "");
    gs_strbuf_add(&out, "\n");
    if (story->spec->slack_s > 0 && seconds(skew) > story->spec->slack_s)
        gs_strbuf_add(
            &out,
            "gang-start: warning: rank %u on %s was %.1f s later than the first "
            "(slack=%g)\n",
            last,
            gang->nodes[gang->tasks[last].node].name,
            seconds(skew),
            story->spec->slack_s);
    if (story->spec->health == GS_HEALTH_REQUIRE)
        gs_strbuf_add(
            &out,
            "gang-start: warning: health=require, but this version does not look "
            "at GPUs: their health is unknown\n");
    warn_launcher(story, &out);
    warn_binding(gang, &out);
    return gs_strbuf_take(&out);
}

static char *fold_nodes(const struct gs_gang *gang,
                        const uint32_t *nodes,
                        uint32_t count)
{
    const char **names = calloc(count, sizeof(*names));
    char *folded;

    if (!names)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        names[i] = gang->nodes[nodes[i]].name[0] ? gang->nodes[nodes[i]].name : "?";
    folded = gs_hostlist_fold(names, count);
    free(names);
    return folded;
}

char *gs_story_waiting(const struct gs_story *story, int64_t now_us)
{
    const struct gs_gang *gang = story->gang;
    uint32_t *nodes = calloc(gang->node_count, sizeof(*nodes)), count = 0;
    struct gs_strbuf out = {0};
    char *hosts;

    for (uint32_t i = 0; nodes && i < gang->node_count; i++)
        if (gang->nodes[i].hello_us < 0
            || gang->nodes[i].arrived_count != gang->nodes[i].rank_count)
            nodes[count++] = i;
    hosts = count ? fold_nodes(gang, nodes, count) : NULL;
    gs_strbuf_add(&out,
                  "\r\033[Kgang-start: waiting for %u of %u nodes: %.60s%s (%.0f s)",
                  count,
                  gang->node_count,
                  hosts ? hosts : "",
                  hosts && strlen(hosts) > 60 ? "…" : "",
                  seconds(now_us - story->begun_us));
    gs_text_free(hosts);
    free(nodes);
    return gs_strbuf_take(&out);
}

static uint32_t count_blamed(const struct gs_story *story)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < story->gang->node_count; i++)
        count += gs_story_blames(story, i);
    return count;
}

/* Nodes that were ready; *ret_tasks: tasks. */
static uint32_t count_ready(const struct gs_gang *gang, uint32_t *ret_tasks)
{
    uint32_t count = 0;

    *ret_tasks = 0;
    for (uint32_t i = 0; i < gang->node_count; i++) {
        const struct gs_node *node = &gang->nodes[i];
        uint32_t ready = gs_story_count_ready(gang, node);
        bool lost = node->lost_us >= 0 && !node->ended;
        *ret_tasks += ready;
        count += node->hello_us >= 0 && !lost && ready == node->rank_count;
    }
    return count;
}

static void headline(const struct gs_story *story, struct gs_strbuf *out)
{
    static const char *const what[] = {
        [GS_REFUSAL_NONE] = "is not ready",
        [GS_REFUSAL_TIMEOUT] = "not ready",
        [GS_REFUSAL_TASK_ENDED] = "a task ended before the start",
        [GS_REFUSAL_LAUNCH] = "a node could not launch its tasks",
        [GS_REFUSAL_CONFIG] = "options or environment cannot work",
        [GS_REFUSAL_NODE_LOST] = "a node was lost",
        [GS_REFUSAL_UNREACHABLE] = "cannot reach the node of rank 0",
        [GS_REFUSAL_MISMATCH] = "the nodes do not agree on the step",
        [GS_REFUSAL_ENDED] = "not ready when Slurm ended the launch",
        [GS_REFUSAL_PROGRAM] = "the program is not everywhere",
    };
    const struct gs_gang *gang = story->gang;
    int64_t since = gang->first_us >= 0 ? gang->first_us : story->begun_us;
    uint32_t blamed = count_blamed(story), tasks, ready = count_ready(gang, &tasks);

    gs_strbuf_add(out,
                  "gang-start: step %u.%u refused after %.*f s: ",
                  gang->job_id,
                  gang->step_id,
                  gang->reason == GS_REFUSAL_TIMEOUT ? 0 : 1,
                  seconds(gang->decided_us - since));
    if (gang->reason == GS_REFUSAL_UNREACHABLE && !story->master)
        gs_strbuf_add(out, "the node of rank 0 offered no address in time");
    else if (gang->reason == GS_REFUSAL_TIMEOUT || gang->reason == GS_REFUSAL_ENDED
             || gang->reason == GS_REFUSAL_UNREACHABLE)
        gs_strbuf_add(out,
                      "%u of %u nodes %s%s",
                      blamed,
                      gang->node_count,
                      gang->reason == GS_REFUSAL_UNREACHABLE ? ""
                      : blamed == 1                          ? "is "
                                                             : "are ",
                      what[gang->reason]);
    else
        gs_strbuf_add(out, "%s", what[gang->reason]);
    gs_strbuf_add(out,
                  " (%u node%s, %u task%s ready)\n",
                  ready,
                  ready == 1 ? "" : "s",
                  tasks,
                  tasks == 1 ? " was" : "s were");
}

static char *group_text(const struct gs_story *story, uint32_t node)
{
    const struct gs_gang *gang = story->gang;
    const char *phase = gs_node_phase(&gang->nodes[node]);
    struct gs_strbuf detail = {0}, text = {0};

    gs_story_detail(story, node, &detail);
    /* These details say it all. */
    if (gang->reason == GS_REFUSAL_UNREACHABLE || gang->reason == GS_REFUSAL_CONFIG
        || gang->reason == GS_REFUSAL_PROGRAM || gang->reason == GS_REFUSAL_MISMATCH
        || (detail.text && strstr(detail.text, "not started")))
        phase = "";
    else if (gang->reason == GS_REFUSAL_TASK_ENDED)
        phase = "ended before the start";
    gs_strbuf_add(&text,
                  "%s%s%s",
                  phase,
                  phase[0] && detail.text ? ": " : "",
                  detail.text ? detail.text : "");
    free(detail.text);
    return gs_strbuf_take(&text);
}

/* The line of all nodes that found no other. */
static char *rest_text(const struct gs_gang *gang)
{
    struct gs_strbuf text = {0};

    gs_strbuf_add(&text,
                  "not ready either: gangstart report %u.%u tells of each",
                  gang->job_id,
                  gang->step_id);
    return gs_strbuf_take(&text);
}

/* Takes over text. NULL when memory runs out. */
static struct group *find_group(const struct gs_gang *gang,
                                struct group *groups,
                                uint32_t *count,
                                char *text)
{
    for (uint32_t i = 0; text && i < *count; i++) {
        if (strcmp(groups[i].text, text) == 0) {
            free(text);
            return &groups[i];
        }
    }
    if (*count >= GROUP_MAX - 1) {
        free(text);
        if (*count == GROUP_MAX)
            return &groups[GROUP_MAX - 1];
        text = rest_text(gang);
    }
    if (!text)
        return NULL;
    groups[*count].text = text;
    return &groups[(*count)++];
}

static void free_groups(struct group *groups, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(groups[i].text);
        free(groups[i].nodes);
    }
}

static bool add_to_group(struct group *group, uint32_t node)
{
    uint32_t *nodes = group->nodes;

    /* Room doubles at every power of two. */
    if ((group->count & (group->count - 1)) == 0)
        nodes = realloc(nodes, (group->count ? group->count * 2 : 1) * sizeof(*nodes));
    if (!nodes)
        return false;
    group->nodes = nodes;
    group->nodes[group->count++] = node;
    return true;
}

static char *fold_ranks(const struct gs_gang *gang,
                        const struct group *group,
                        bool *ret_one)
{
    uint32_t *ranks = calloc(gang->task_count, sizeof(*ranks)), count = 0;
    char *folded = NULL;
    bool rest = false;

    for (uint32_t i = 0; ranks && i < group->count; i++) {
        const struct gs_node *node = &gang->nodes[group->nodes[i]];
        rest |= node->rank_count == 0;
        for (uint32_t k = 0; k < node->rank_count; k++)
            ranks[count++] = node->ranks[k];
    }
    /* Nodes that never said theirs have, together, the ranks that nobody claimed. */
    for (uint32_t i = 0; ranks && rest && i < gang->task_count; i++)
        if (!gang->tasks[i].expected)
            ranks[count++] = i;
    if (ranks)
        folded = gs_ranks_fold(ranks, count);
    free(ranks);
    *ret_one = count == 1;
    return folded;
}

static void print_group(const struct gs_gang *gang,
                        const struct group *group,
                        struct gs_strbuf *out)
{
    bool one;
    char *hosts = fold_nodes(gang, group->nodes, group->count);
    char *ranks = fold_ranks(gang, group, &one);
    struct gs_strbuf who = {0};

    gs_strbuf_add(&who, "rank%s %s", one ? "" : "s", ranks ? ranks : "?");
    gs_strbuf_add(out,
                  "  %-10s  %-14s  %s\n",
                  hosts ? hosts : "?",
                  who.text ? who.text : "",
                  group->text);
    free(who.text);
    gs_text_free(hosts);
    gs_text_free(ranks);
}

static void print_groups(const struct gs_story *story, struct gs_strbuf *out)
{
    const struct gs_gang *gang = story->gang;
    struct group groups[GROUP_MAX] = {0};
    uint32_t count = 0;

    for (uint32_t i = 0; i < gang->node_count; i++) {
        struct group *group;
        if (!gs_story_blames(story, i))
            continue;
        group = find_group(gang, groups, &count, group_text(story, i));
        if (!group || !add_to_group(group, i))
            break;
    }
    for (uint32_t i = 0; i < count; i++)
        print_group(gang, &groups[i], out);
    free_groups(groups, count);
}

/* What to type next. Only where a node is the matter does excluding it help. */
static void next_step(const struct gs_story *story, struct gs_strbuf *out)
{
    const struct gs_gang *gang = story->gang;
    uint32_t *nodes = calloc(gang->node_count, sizeof(*nodes)), count = 0;
    char *hosts;

    for (uint32_t i = 0; nodes && i < gang->node_count; i++)
        if (gs_story_blames(story, i) && gang->nodes[i].name[0])
            nodes[count++] = i;
    hosts = count ? fold_nodes(gang, nodes, count) : NULL;
    if (gang->reason == GS_REFUSAL_CONFIG)
        gs_strbuf_add(out, "  next: correct the option or variable and start again\n");
    else if (gang->reason == GS_REFUSAL_TASK_ENDED && hosts)
        gs_strbuf_add(
            out,
            "  next: look at the lines of rank %u above · scontrol show node %s\n",
            gang->fail_rank,
            hosts);
    else if (hosts)
        gs_strbuf_add(out,
                      "  next: scontrol show node %s · sbatch --exclude=%s …\n",
                      hosts,
                      hosts);
    gs_text_free(hosts);
    free(nodes);
}

char *gs_story_refusal(const struct gs_story *story)
{
    struct gs_strbuf out = {0};

    headline(story, &out);
    print_groups(story, &out);
    next_step(story, &out);
    return gs_strbuf_take(&out);
}
