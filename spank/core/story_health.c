/* story_health.c - what is told of the step's GPUs. */
#include "gpurule.h"
#include "json_private.h"
#include "story_private.h"

#define SHARED_LINES 4

struct sum {
    uint32_t gpus[GS_VERDICTS];
    uint32_t nodes[GS_VERDICTS]; /* with such a verdict, GPUs or not */
    uint32_t untold;             /* nodes that said nothing in time */
    uint32_t all;                /* GPUs */
    uint32_t without;            /* nodes that looked and have no GPU */
    uint32_t without_node;       /* the first of them */
    enum gs_verdict worst;
    uint32_t worst_node;
};

static struct sum add_up(const struct gs_gang *gang)
{
    struct sum sum = {.worst_node = GS_NO_RANK};

    for (uint32_t i = 0; i < gang->node_count; i++) {
        const struct gs_nodehealth *health = gang->nodes[i].health;
        enum gs_verdict verdict =
            health ? (enum gs_verdict)health->verdict : GS_UNKNOWN;
        sum.untold += !health;
        if (health && health->none && !sum.without++)
            sum.without_node = i;
        sum.nodes[verdict]++;
        for (unsigned v = 0; health && v < GS_VERDICTS; v++) {
            sum.gpus[v] += health->counts[v];
            sum.all += health->counts[v];
        }
        if (verdict > sum.worst) {
            sum.worst = verdict;
            sum.worst_node = i;
        }
    }
    return sum;
}

void gs_story_unfit(const struct gs_node *node, struct gs_strbuf *ret_text)
{
    const struct gs_nodehealth *health = node->health;

    if (!health)
        gs_strbuf_add(ret_text, "said nothing about its GPUs in time");
    else if (health->verdict == GS_FAIL || !health->shared_gpu)
        gs_strbuf_add(ret_text,
                      "%s: %s",
                      gs_verdict_name((enum gs_verdict)health->verdict),
                      health->why);
    else
        gs_strbuf_add(ret_text, "%s", health->binding);
}

void gs_story_gpus(const struct gs_story *story, struct gs_strbuf *out)
{
    const struct gs_gang *gang = story->gang;
    struct sum sum;

    if (gang->health == GS_GANG_HEALTH_OFF)
        return;
    sum = add_up(gang);
    if (sum.worst == GS_OK) {
        if (sum.all)
            gs_strbuf_add(out, " · %u GPU%s ok", sum.all, sum.all == 1 ? "" : "s");
        if (sum.all && sum.without == 1)
            gs_strbuf_add(out, ", none on %s", gang->nodes[sum.without_node].name);
        else if (sum.all && sum.without)
            gs_strbuf_add(out,
                          ", none on %u nodes (%s first)",
                          sum.without,
                          gang->nodes[sum.without_node].name);
        return;
    }
    gs_strbuf_add(out, " · ");
    if (sum.all)
        gs_strbuf_add(out, "%u ok, ", sum.gpus[GS_OK]);
    for (unsigned v = GS_VERDICTS; v-- > GS_UNKNOWN;)
        if (sum.gpus[v])
            gs_strbuf_add(
                out, "%u %s, ", sum.gpus[v], gs_verdict_name((enum gs_verdict)v));
        else if (sum.nodes[v])
            gs_strbuf_add(out,
                          "%u node%s %s, ",
                          sum.nodes[v],
                          sum.nodes[v] == 1 ? "" : "s",
                          gs_verdict_name((enum gs_verdict)v));
    out->used -= 2;
    out->text[out->used] = '\0';
    gs_strbuf_add(out,
                  ": %s %s",
                  gang->nodes[sum.worst_node].name,
                  gang->nodes[sum.worst_node].health
                      ? gang->nodes[sum.worst_node].health->why
                      : "said nothing about its GPUs in time");
}

static void warn_shared(const struct gs_gang *gang, struct gs_strbuf *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < gang->node_count; i++) {
        const struct gs_node *node = &gang->nodes[i];
        if (!node->health || !node->health->shared_gpu)
            continue;
        if (count++ < SHARED_LINES)
            gs_strbuf_add(out,
                          "gang-start: warning: %s: %s\n",
                          node->name,
                          node->health->binding);
    }
    if (count > SHARED_LINES)
        gs_strbuf_add(
            out,
            "gang-start: warning: %u more nodes have tasks that share a GPU\n",
            count - SHARED_LINES);
}

static void warn_odd(const struct gs_gpuverdict *odd, struct gs_strbuf *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < odd->count; i++)
        if (odd->findings[i].kind == GS_FINDING_HIT && count++ < SHARED_LINES)
            gs_strbuf_add(out, "gang-start: warning: %s\n", odd->findings[i].reason);
    if (count > SHARED_LINES)
        gs_strbuf_add(out,
                      "gang-start: warning: %u more differences between GPUs of this "
                      "step are in the report\n",
                      count - SHARED_LINES);
}

void gs_story_gpu_warnings(const struct gs_story *story, struct gs_strbuf *out)
{
    if (story->gang->health == GS_GANG_HEALTH_OFF)
        return;
    warn_shared(story->gang, out);
    if (story->odd)
        warn_odd(story->odd, out);
}

static void put_odd(struct gs_strbuf *out, const struct gs_gpuverdict *odd)
{
    gs_json_key(out, "odd");
    gs_strbuf_add(out, "[");
    for (uint32_t i = 0; odd && i < odd->count; i++) {
        gs_json_comma(out);
        gs_json_string(out, odd->findings[i].reason);
    }
    gs_strbuf_add(out, "]");
}

void gs_story_put_health(struct gs_strbuf *out, const struct gs_story *story)
{
    static const char *const modes[] = {
        [GS_GANG_HEALTH_OFF] = "off",
        [GS_GANG_HEALTH_RECORD] = "record",
        [GS_GANG_HEALTH_REQUIRE] = "require",
        [GS_GANG_HEALTH_STRICT] = "strict",
    };
    const struct gs_gang *gang = story->gang;
    struct sum sum = add_up(gang);
    int64_t last_us = -1;

    for (uint32_t i = 0; i < gang->node_count; i++)
        if (gang->nodes[i].health && gang->nodes[i].health->came_us > last_us)
            last_us = gang->nodes[i].health->came_us;
    gs_json_key(out, "health");
    gs_strbuf_add(out, "{");
    gs_json_text(out, "mode", modes[gang->health]);
    gs_json_text(out,
                 "verdict",
                 gang->health == GS_GANG_HEALTH_OFF ? "unknown"
                                                    : gs_verdict_name(sum.worst));
    gs_json_number(out, "nodes_told", gang->node_count - sum.untold);
    gs_json_key(out, "gpus");
    gs_strbuf_add(out, "{");
    for (unsigned v = 0; v < GS_VERDICTS; v++)
        gs_json_number(out, gs_verdict_name((enum gs_verdict)v), sum.gpus[v]);
    gs_strbuf_add(out, "}");
    /* How much later the start was for it: all else was ready, this was not. */
    gs_json_seconds(out,
                    "waited_s",
                    gang->ready_us < 0 || last_us < 0 ? -1
                    : last_us > gang->ready_us        ? last_us - gang->ready_us
                                                      : 0);
    put_odd(out, story->odd);
    gs_strbuf_add(out, "}");
}

void gs_story_put_node_health(struct gs_strbuf *out, const struct gs_node *node)
{
    const struct gs_nodehealth *health = node->health;

    gs_json_key(out, "health");
    if (!health) {
        gs_strbuf_add(out, "null");
        return;
    }
    gs_strbuf_add(out, "{");
    gs_json_text(out, "verdict", gs_verdict_name((enum gs_verdict)health->verdict));
    gs_json_text(out, "why", health->why);
    gs_json_text(out, "shared_gpu", health->binding);
    gs_json_seconds(out, "took_s", health->took_us);
    gs_json_key(out, "record");
    gs_strbuf_add(out, "%s", health->record ? health->record : "null");
    gs_strbuf_add(out, "}");
}
