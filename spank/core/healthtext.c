/* healthtext.c - what a look at the GPUs says: a sentence, and the record. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "error_private.h"
#include "health.h"
#include "hostlist.h"
#include "json_private.h"
#include "jsonread_private.h"
#include "probeline_private.h"

#define KEY 32

static const char *const KINDS[] = {
    [GS_FINDING_HIT] = "hit",
    [GS_FINDING_NOTE] = "note",
    [GS_FINDING_SKIPPED] = "skipped",
};

enum gs_verdict gs_health_gpu(const struct gs_health *health, uint32_t gpu)
{
    enum gs_verdict worst = GS_OK;

    for (uint32_t i = 0; health->judged && i < health->found.count; i++)
        if (health->found.findings[i].gpu == (int32_t)gpu)
            worst = gs_verdict_worst(worst, health->found.findings[i].verdict);
    return worst;
}

/* The finding that made the verdict, NULL = none did. *ret_more: others as bad. */
static const struct gs_finding *find_worst(const struct gs_health *health,
                                           uint32_t *ret_more)
{
    const struct gs_finding *worst = NULL;

    *ret_more = 0;
    for (uint32_t i = 0; health->judged && i < health->found.count; i++) {
        const struct gs_finding *one = &health->found.findings[i];
        if (one->verdict != health->verdict || one->verdict == GS_OK)
            continue;
        *ret_more += worst != NULL;
        if (!worst || (int32_t)i == health->found.worst)
            worst = one;
    }
    return worst;
}

const char *gs_health_reason(const struct gs_health *health)
{
    uint32_t more;
    const struct gs_finding *worst = find_worst(health, &more);

    return worst ? worst->reason : health->note;
}

char *gs_health_why(const struct gs_health *health)
{
    uint32_t more;
    const struct gs_finding *worst = find_worst(health, &more);
    struct gs_strbuf out = {0};

    gs_strbuf_add(&out, "%s", gs_health_reason(health));
    if (worst) {
        gs_strbuf_add(&out, " [check %s", gs_check_get(worst->check)->id);
        if (worst->uuid[0])
            gs_strbuf_add(&out, ", %s", worst->uuid);
        if (worst->value[0])
            gs_strbuf_add(&out, ", value %s", worst->value);
        if (worst->limit[0])
            gs_strbuf_add(&out, ", limit %s", worst->limit);
        gs_strbuf_add(&out, "; source: %s]", gs_check_get(worst->check)->source);
    }
    if (more)
        gs_strbuf_add(&out, " and %u more", more);
    return gs_strbuf_take(&out);
}

/* "8 GPUs ok", "7 ok, 1 fail". */
static void add_counts(struct gs_strbuf *out, const uint32_t counts[GS_VERDICTS])
{
    uint32_t all = 0;
    bool more = false;

    for (unsigned i = 0; i < GS_VERDICTS; i++)
        all += counts[i];
    if (all == 0) {
        gs_strbuf_add(out, "no GPU was read");
        return;
    }
    if (counts[GS_OK] == all) {
        gs_strbuf_add(out, "%u GPU%s ok", all, all == 1 ? "" : "s");
        return;
    }
    for (unsigned i = 0; i < GS_VERDICTS; i++) {
        if (!counts[i])
            continue;
        gs_strbuf_add(out,
                      "%s%u %s",
                      more ? ", " : "",
                      counts[i],
                      gs_verdict_name((enum gs_verdict)i));
        more = true;
    }
}

char *gs_health_sentence(const struct gs_health *health)
{
    struct gs_strbuf out = {0};

    if (health->none)
        gs_strbuf_add(&out, "no GPU");
    else if (health->judged)
        add_counts(&out, health->counts);
    else
        gs_strbuf_add(&out, "GPUs not known");
    if (health->verdict != GS_OK && health->counts[health->verdict] == 0)
        gs_strbuf_add(&out, "; node %s", gs_verdict_name(health->verdict));
    if (health->verdict != GS_OK)
        gs_strbuf_add(&out, ": %s", gs_health_reason(health));
    return gs_strbuf_take(&out);
}

static void add_gpus(struct gs_strbuf *buf,
                     const struct gs_health *health,
                     bool readings)
{
    const struct gs_gpus *gpus = &health->gpus;

    gs_json_key(buf, "gpus");
    gs_strbuf_add(buf, "[");
    for (uint32_t i = 0; i < gpus->count; i++) {
        gs_json_comma(buf);
        gs_strbuf_add(buf, "{");
        gs_json_text(buf, "verdict", gs_verdict_name(gs_health_gpu(health, i)));
        gs_gpu_write(buf, &gpus->gpus[i], readings);
        gs_strbuf_add(buf, "}");
    }
    gs_strbuf_add(buf, "]");
}

static void add_finding(struct gs_strbuf *buf, const struct gs_finding *one)
{
    const struct gs_check_info *info = gs_check_get(one->check);

    gs_json_comma(buf);
    gs_strbuf_add(buf, "{");
    gs_json_text(buf, "check", info->id);
    gs_json_text(buf, "kind", KINDS[one->kind]);
    gs_json_text(buf, "verdict", gs_verdict_name(one->verdict));
    gs_json_flag(buf, "settled", one->settled);
    gs_json_key(buf, "gpu");
    if (one->gpu < 0)
        gs_strbuf_add(buf, "null");
    else
        gs_strbuf_add(buf, "%d", one->gpu);
    gs_json_text(buf, "uuid", one->uuid);
    gs_json_text(buf, "pci", one->pci);
    gs_json_text(buf, "value", one->value);
    gs_json_text(buf, "limit", one->limit);
    gs_json_text(buf, "reason", one->reason);
    gs_json_text(buf, "action", one->action ? one->action : "");
    gs_json_text(buf, "source", info->source);
    gs_strbuf_add(buf, "}");
}

static void add_findings(struct gs_strbuf *buf,
                         const struct gs_health *health,
                         bool skipped)
{
    gs_json_key(buf, "findings");
    gs_strbuf_add(buf, "[");
    for (uint32_t i = 0; health->judged && i < health->found.count; i++)
        if (skipped || health->found.findings[i].kind != GS_FINDING_SKIPPED)
            add_finding(buf, &health->found.findings[i]);
    gs_strbuf_add(buf, "]");
}

char *gs_health_record(const struct gs_health *health, enum gs_record_detail detail)
{
    const struct gs_gpus *gpus = &health->gpus;
    struct gs_strbuf buf = {0};
    char *sentence = gs_health_sentence(health);

    gs_strbuf_add(
        &buf, "{\"schema\":\"gangstart.health\",\"version\":%d", GS_HEALTH_VERSION);
    gs_json_text(&buf, "stage", gs_stage_name(health->ask.stage));
    gs_json_text(&buf, "verdict", gs_verdict_name(health->verdict));
    gs_json_flag(&buf, "drain", health->judged && health->found.drain);
    gs_json_flag(&buf, "none", health->none);
    gs_json_text(&buf, "sentence", sentence ? sentence : "");
    gs_json_text(&buf, "note", health->note);
    gs_json_text(&buf, "kernel_log_note", health->log_note);
    gs_json_number(&buf, "looks", health->looks);
    gs_json_seconds(&buf, "took_s", health->done_us - health->begun_us);
    gs_json_text(&buf, "hung_call", gpus->hung_call);
    gs_json_text(&buf, "hung_gpu", gpus->hung_gpu);
    add_gpus(&buf, health, detail >= GS_RECORD_SAMPLE);
    gs_json_key(&buf, "node");
    gs_strbuf_add(&buf, "{");
    gs_gpus_write(&buf, gpus, health->asked && !gpus->hung_call[0]);
    gs_strbuf_add(&buf, "}");
    add_findings(&buf, health, detail == GS_RECORD_ALL);
    gs_strbuf_add(&buf, "}");
    gs_text_free(sentence);
    return gs_strbuf_take(&buf);
}

static void read_gpus(struct gs_json_reader *reader, struct gs_gpus *gpus)
{
    gs_json_enter(reader, '[');
    while (gs_json_next(reader))
        if (gs_gpu_parse(reader, gpus) >= 0 && !reader->bad)
            gpus->count++;
}

int gs_health_read(const char *record, struct gs_gpus *ret_gpus, struct gs_error *error)
{
    struct gs_json_reader reader = {.at = record};
    bool whole = false;
    char key[KEY];

    gs_gpus_init(ret_gpus);
    gs_json_enter(&reader, '{');
    while (gs_json_next_key(&reader, key, sizeof(key))) {
        if (strcmp(key, "gpus") == 0) {
            read_gpus(&reader, ret_gpus);
        } else if (strcmp(key, "node") == 0) {
            whole = true;
            gs_gpus_parse(&reader, ret_gpus);
        } else {
            gs_json_skip(&reader);
        }
    }
    if (whole && gs_json_at_end(&reader))
        return 0;
    gs_gpus_init(ret_gpus);
    return gs_error_set(
        error, EPROTO, "'%.60s' is no record of GPUs, or one cut short", record);
}
