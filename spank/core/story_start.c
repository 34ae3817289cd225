/* story_start.c - the lines of a good start, and the one of waiting. */
#include <stdlib.h>
#include <string.h>

#include "hostlist.h"
#include "story_private.h"

double gs_story_seconds(int64_t us)
{
    return us < 0 ? 0 : (double)us / 1e6;
}

char *gs_story_fold(const struct gs_gang *gang, const uint32_t *nodes, uint32_t count)
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

uint32_t gs_story_apart(const struct gs_gang *gang, uint32_t *ret_rank)
{
    uint32_t count = 0;

    *ret_rank = GS_NO_RANK;
    for (uint32_t i = gang->task_count; i-- > 0;) {
        if (!gang->tasks[i].apart)
            continue;
        *ret_rank = i;
        count++;
    }
    return count;
}

/* What was proven was proven by the nodes, with their own network. */
static void warn_apart(const struct gs_story *story, struct gs_strbuf *out)
{
    const struct gs_gang *gang = story->gang;
    uint32_t rank, count = gs_story_apart(gang, &rank);
    const char *node;

    if (!count || !story->master)
        return;
    node = gang->nodes[gang->tasks[rank].node].name;
    if (rank == 0)
        gs_strbuf_add(
            out,
            "gang-start: warning: rank 0 is in a network namespace that is not %s's, "
            "as "
            "in a container: MASTER_ADDR %s port %u is proven for %s, not for it; give "
            "it the network of the host",
            node,
            story->master_addr,
            story->master->port,
            node);
    else
        gs_strbuf_add(
            out,
            "gang-start: warning: rank %u is in a network namespace that is not %s's, "
            "as in a container: %s reaches MASTER_ADDR %s, whether it does is not "
            "known",
            rank,
            node,
            node,
            story->master_addr);
    gs_strbuf_add(
        out, count > 1 ? " (so for %u of %u tasks)\n" : "\n", count, gang->task_count);
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
        gs_story_seconds(gang->decided_us - story->begun_us),
        last,
        gang->nodes[gang->tasks[last].node].name,
        gs_story_seconds(skew));
    gs_story_gpus(story, &out);
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
    if (story->spec->slack_s > 0 && gs_story_seconds(skew) > story->spec->slack_s)
        gs_strbuf_add(
            &out,
            "gang-start: warning: rank %u on %s was %.3g s later than the first "
            "(slack=%g)\n",
            last,
            gang->nodes[gang->tasks[last].node].name,
            gs_story_seconds(skew),
            story->spec->slack_s);
    gs_story_gpu_warnings(story, &out);
    if (master && master->candidate_count == 0)
        gs_strbuf_add(
            &out,
            "gang-start: warning: MASTER_ADDR=%s, set by the user, is no address "
            "of %s, where rank 0 runs: nobody has tried to reach it\n",
            story->master_addr,
            gang->nodes[master->node_index].name);
    warn_apart(story, &out);
    warn_launcher(story, &out);
    warn_binding(gang, &out);
    return gs_strbuf_take(&out);
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
    hosts = count ? gs_story_fold(gang, nodes, count) : NULL;
    gs_strbuf_add(&out,
                  "\r\033[Kgang-start: waiting for %u of %u nodes: %.60s%s (%.0f s)",
                  count,
                  gang->node_count,
                  hosts ? hosts : "",
                  hosts && strlen(hosts) > 60 ? "…" : "",
                  gs_story_seconds(now_us - story->begun_us));
    gs_text_free(hosts);
    free(nodes);
    return gs_strbuf_take(&out);
}
