/* story_refusal.c - the lines of a refused start in srun's terminal. */
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

static uint32_t count_blamed(const struct gs_story *story)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < story->gang->node_count; i++)
        count += gs_story_blames(story, i);
    return count;
}

/* Nodes that were ready; *ret_tasks: tasks. */
static uint32_t count_ready(const struct gs_story *story, uint32_t *ret_tasks)
{
    const struct gs_gang *gang = story->gang;
    uint32_t count = 0;

    *ret_tasks = 0;
    for (uint32_t i = 0; i < gang->node_count; i++) {
        const struct gs_node *node = &gang->nodes[i];
        uint32_t ready = gs_story_count_ready(gang, node);
        bool lost = node->lost_us >= 0 && !node->ended;
        if (gang->reason == GS_REFUSAL_HEALTH && gs_story_blames(story, i))
            continue;
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
        [GS_REFUSAL_HEALTH] = "not healthy (health=require)",
    };
    const struct gs_gang *gang = story->gang;
    int64_t since = gang->first_us >= 0 ? gang->first_us : story->begun_us;
    uint32_t blamed = count_blamed(story), tasks, ready = count_ready(story, &tasks);

    gs_strbuf_add(out,
                  "gang-start: step %u.%u refused after %.*f s: ",
                  gang->job_id,
                  gang->step_id,
                  gang->reason == GS_REFUSAL_TIMEOUT ? 0 : 1,
                  gs_story_seconds(gang->decided_us - since));
    if (gang->reason == GS_REFUSAL_UNREACHABLE && !story->master)
        gs_strbuf_add(out, "the node of rank 0 offered no address in time");
    else if (gang->reason == GS_REFUSAL_TIMEOUT || gang->reason == GS_REFUSAL_ENDED
             || gang->reason == GS_REFUSAL_UNREACHABLE
             || gang->reason == GS_REFUSAL_HEALTH)
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
        || gang->reason == GS_REFUSAL_HEALTH
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
    char *hosts = gs_story_fold(gang, group->nodes, group->count);
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
    hosts = count ? gs_story_fold(gang, nodes, count) : NULL;
    if (gang->reason == GS_REFUSAL_CONFIG)
        gs_strbuf_add(out, "  next: correct the option or variable and start again\n");
    else if (gang->reason == GS_REFUSAL_TASK_ENDED && hosts)
        gs_strbuf_add(
            out,
            "  next: look at the lines of rank %u above · scontrol show node %s\n",
            gang->fail_rank,
            hosts);
    else if (gang->reason == GS_REFUSAL_HEALTH && hosts)
        gs_strbuf_add(
            out,
            "  next: gangstart check on %s · gangstart check --explain CHECK · "
            "sbatch --exclude=%s …\n",
            hosts,
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
