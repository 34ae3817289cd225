/* story_report.c - start.json; docs/report.schema.json describes it field by field. */
#include <stdlib.h>
#include <string.h>

#include "hostlist.h"
#include "json_private.h"
#include "story_private.h"

/* A moment of the gang's clock as seconds since srun began to wait. */
static void since_begin(struct gs_strbuf *out,
                        const struct gs_story *story,
                        const char *name,
                        int64_t us)
{
    gs_json_seconds(out, name, us < story->begun_us ? -1 : us - story->begun_us);
}

static void put_step(struct gs_strbuf *out, const struct gs_story *story)
{
    const struct gs_gang *gang = story->gang;

    gs_strbuf_add(out, "\"step\":{");
    gs_json_key(out, "name");
    gs_strbuf_add(out, "\"%u.%u\"", gang->job_id, gang->step_id);
    gs_json_number(out, "job_id", gang->job_id);
    gs_json_number(out, "step_id", gang->step_id);
    gs_json_number(out, "restart_count", gang->restart_count);
    gs_json_text(out, "cluster", story->cluster);
    gs_json_number(out, "user_id", story->user_id);
    gs_json_text(out, "submit_host", story->submit_host);
    gs_strbuf_add(out, "}");
}

static void put_count(struct gs_strbuf *out,
                      const char *name,
                      uint32_t nodes,
                      uint32_t tasks)
{
    gs_json_key(out, name);
    gs_strbuf_add(out, "{\"nodes\":%u,\"tasks\":%u}", nodes, tasks);
}

static void put_missing(struct gs_strbuf *out, const struct gs_story *story)
{
    const struct gs_gang *gang = story->gang;
    const char **names = calloc(gang->node_count, sizeof(*names));
    uint32_t *ranks = calloc(gang->task_count, sizeof(*ranks));
    uint32_t name_count = 0, rank_count = 0;
    char *hosts = NULL, *folded = NULL;

    for (uint32_t i = 0; names && i < gang->node_count; i++)
        if (gang->outcome == GS_REFUSED && gs_story_blames(story, i))
            names[name_count++] = gang->nodes[i].name[0] ? gang->nodes[i].name : "?";
    for (uint32_t i = 0; ranks && i < gang->task_count; i++)
        if (gang->outcome == GS_REFUSED && !gs_story_was_ready(gang, i))
            ranks[rank_count++] = i;
    if (names && name_count)
        hosts = gs_hostlist_fold(names, name_count);
    if (ranks && rank_count)
        folded = gs_ranks_fold(ranks, rank_count);
    gs_json_text(out, "blamed_nodes", hosts ? hosts : "");
    gs_json_text(out, "missing_ranks", folded ? folded : "");
    gs_text_free(hosts);
    gs_text_free(folded);
    free(names);
    free(ranks);
}

static void put_last(struct gs_strbuf *out, const struct gs_story *story)
{
    const struct gs_gang *gang = story->gang;
    uint32_t last = gs_gang_last(gang), first = gs_gang_first(gang);

    gs_json_key(out, "last");
    if (last == GS_NO_RANK) {
        gs_strbuf_add(out, "null");
        gs_json_seconds(out, "skew_s", -1);
        return;
    }
    gs_strbuf_add(out, "{");
    gs_json_number(out, "rank", last);
    gs_json_text(out, "node", gang->nodes[gang->tasks[last].node].name);
    gs_strbuf_add(out, "}");
    gs_json_seconds(
        out, "skew_s", gang->tasks[last].arrived_us - gang->tasks[first].arrived_us);
}

static void put_candidate(struct gs_strbuf *out, const struct gs_candidate *one)
{
    gs_strbuf_add(out, "{");
    gs_json_text(out, "address", one->address);
    gs_json_text(out, "interface", one->interface);
    gs_json_text(out, "why", one->why);
    gs_strbuf_add(out, "}");
}

static void put_master(struct gs_strbuf *out, const struct gs_story *story)
{
    const struct gs_master *master = story->master;

    gs_json_key(out, "master");
    if (!master) {
        gs_strbuf_add(out, "null");
        return;
    }
    gs_strbuf_add(out, "{");
    gs_json_text(out, "node", story->gang->nodes[master->node_index].name);
    gs_json_text(out, "address", story->master_addr);
    gs_json_number(out, "port", master->port);
    gs_json_text(out, "address_from", master->user_address ? "user" : "gang-start");
    gs_json_text(out, "port_from", master->user_port ? "user" : "gang-start");
    gs_json_flag(
        out, "proven", master->candidate_count > 0 && !story->gang->tasks[0].apart);
    gs_json_key(out, "tried");
    gs_strbuf_add(out, "[");
    for (uint32_t i = 0; i < master->candidate_count && i <= story->candidate; i++) {
        gs_json_comma(out);
        put_candidate(out, &master->candidates[i]);
    }
    gs_strbuf_add(out, "]}");
}

static void put_kept(struct gs_strbuf *out, const struct gs_master *master)
{
    gs_json_key(out, "kept_from_user");
    gs_strbuf_add(out, "[");
    if (master && master->user_address)
        gs_strbuf_add(out, "\"MASTER_ADDR\"");
    if (master && master->user_port) {
        gs_json_comma(out);
        gs_strbuf_add(out, "\"MASTER_PORT\"");
    }
    gs_strbuf_add(out, "]");
}

static void put_spec(struct gs_strbuf *out, const struct gs_spec *spec)
{
    char text[GS_SPEC_TEXT_SIZE];

    gs_json_number(out, "timeout_s", spec->timeout_s);
    gs_json_text(
        out, "spec", gs_spec_format(spec, text, sizeof(text)) == 0 ? text : "");
}

static void put_arrivals(struct gs_strbuf *out,
                         const struct gs_story *story,
                         const struct gs_node *node)
{
    const struct gs_gang *gang = story->gang;

    gs_json_key(out, "tasks");
    gs_strbuf_add(out, "[");
    for (uint32_t i = 0; i < node->rank_count; i++) {
        const struct gs_task *task = &gang->tasks[node->ranks[i]];
        struct gs_strbuf ending = {0};
        gs_json_comma(out);
        gs_strbuf_add(out, "{");
        gs_json_number(out, "rank", node->ranks[i]);
        since_begin(out, story, "arrived_s", task->arrived_us);
        if (task->visible != GS_NO_RANK)
            gs_json_number(out, "gpus_visible", task->visible);
        if (task->state == GS_TASK_ENDED) {
            gs_story_ending(task, &ending);
            gs_json_text(out, "ended", ending.text ? ending.text : "");
            free(ending.text);
        }
        gs_strbuf_add(out, "}");
    }
    gs_strbuf_add(out, "]");
}

static void put_node(struct gs_strbuf *out,
                     const struct gs_story *story,
                     uint32_t index)
{
    const struct gs_node *node = &story->gang->nodes[index];
    struct gs_strbuf detail = {0};
    char *ranks = gs_ranks_fold(node->ranks, node->rank_count);

    gs_strbuf_add(out, "{");
    gs_json_text(out, "name", node->name);
    gs_json_number(out, "index", index);
    gs_json_text(out, "ranks", ranks ? ranks : "");
    gs_json_text(out, "phase", gs_node_phase(node));
    if (story->gang->outcome == GS_REFUSED && gs_story_blames(story, index))
        gs_story_detail(story, index, &detail);
    gs_json_text(out, "detail", detail.text ? detail.text : "");
    gs_json_text(out, "address", node->address);
    since_begin(out, story, "connected_s", node->hello_us);
    gs_json_flag(out, "reaches_master", node->wired);
    gs_json_seconds(
        out, "master_rtt_s", node->wired ? (int64_t)node->reach.rtt_us : -1);
    gs_json_key(out, "clock_offset_s");
    if (node->hello_rtt_us < 0)
        gs_strbuf_add(out, "null");
    else /* no %f: the decimal point depends on the locale */
        gs_strbuf_add(out,
                      "%s%lld.%06lld",
                      node->clock_offset_us < 0 ? "-" : "",
                      llabs(node->clock_offset_us / 1000000),
                      llabs(node->clock_offset_us % 1000000));
    put_arrivals(out, story, node);
    gs_story_put_node_health(out, node);
    gs_strbuf_add(out, "}");
    free(detail.text);
    gs_text_free(ranks);
}

static void put_warnings(struct gs_strbuf *out, const struct gs_story *story)
{
    const struct gs_gang *gang = story->gang;
    bool uneven = false, misbound = false;
    uint32_t rank;

    for (uint32_t n = 0; n < gang->node_count; n++) {
        uneven |= gang->nodes[n].rank_count != gang->nodes[0].rank_count;
        for (uint32_t l = 0; l < gang->nodes[n].rank_count; l++)
            misbound |= gs_story_misbound(gang, n, l);
    }
    gs_json_key(out, "warnings");
    gs_strbuf_add(out, "[%s", uneven ? "\"UNEVEN_TASKS\"" : "");
    if (misbound) {
        gs_json_comma(out);
        gs_strbuf_add(out, "\"GPU_BINDING\"");
    }
    if (story->master && story->master->candidate_count == 0) {
        gs_json_comma(out);
        gs_strbuf_add(out, "\"MASTER_UNPROVEN\"");
    }
    if (gs_story_apart(gang, &rank)) {
        gs_json_comma(out);
        gs_strbuf_add(out, "\"NETWORK_NAMESPACE\"");
    }
    gs_strbuf_add(out, "]");
}

static void put_outcome(struct gs_strbuf *out, const struct gs_story *story)
{
    const struct gs_gang *gang = story->gang;
    char *message = gang->outcome == GS_RELEASED  ? gs_story_start(story)
                    : gang->outcome == GS_REFUSED ? gs_story_refusal(story)
                                                  : NULL;
    size_t size = message ? strlen(message) : 0;

    gs_json_text(out, "outcome", gs_outcome_name(gang->outcome));
    gs_json_text(out, "reason", gs_refusal_name(gang->reason));
    gs_json_number(out, "exit_code", gang->code);
    if (size && message[size - 1] == '\n')
        message[size - 1] = '\0';
    gs_json_key(out, "message");
    gs_strbuf_add(out, "[");
    for (char *line = message, *end; line && *line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (end)
            *end = '\0';
        gs_json_comma(out);
        gs_json_string(out, line);
    }
    gs_strbuf_add(out, "]");
    free(message);
}

static void put_versions(struct gs_strbuf *out, const struct gs_story *story)
{
    gs_json_key(out, "versions");
    gs_strbuf_add(out, "{");
    gs_json_text(out, "plugin", story->version);
    gs_json_text(out, "slurm", story->slurm_version);
    gs_json_number(out, "wire", GS_WIRE_VERSION);
    gs_strbuf_add(out, "}");
}

char *gs_story_head(const struct gs_story *story)
{
    const struct gs_gang *gang = story->gang;
    struct gs_strbuf out = {0};

    put_step(&out, story);
    put_outcome(&out, story);
    gs_json_seconds(&out, "decided_at", story->wall_us);
    since_begin(&out, story, "elapsed_s", gang->decided_us);
    since_begin(&out, story, "first_connected_s", gang->first_us);
    put_spec(&out, story->spec);
    put_count(&out, "expected", gang->node_count, gang->task_count);
    put_count(&out, "arrived", gang->connected_count, gang->arrived_count);
    gs_json_number(&out, "stale_arrivals", gang->stale_count);
    put_missing(&out, story);
    put_last(&out, story);
    put_master(&out, story);
    put_kept(&out, story->master);
    gs_story_put_health(&out, story);
    put_warnings(&out, story);
    put_versions(&out, story);
    return gs_strbuf_take(&out);
}

char *gs_story_report(const struct gs_story *story, const char *head, uint32_t node)
{
    const struct gs_gang *gang = story->gang;
    struct gs_strbuf out = {0};

    /* The epilog looks for "complete" in the first bytes. */
    gs_strbuf_add(&out,
                  "{\"schema\":\"gangstart.start\",\"version\":%d,\"complete\":%s,%s",
                  GS_REPORT_VERSION,
                  node == GS_NO_RANK ? "true" : "false",
                  head);
    gs_json_key(&out, "nodes");
    gs_strbuf_add(&out, "[");
    for (uint32_t i = 0; i < gang->node_count; i++) {
        if (node != GS_NO_RANK && node != i)
            continue;
        gs_json_comma(&out);
        put_node(&out, story, i);
    }
    gs_strbuf_add(&out, "]}\n");
    return gs_strbuf_take(&out);
}
