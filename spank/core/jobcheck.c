/* jobcheck.c - see jobcheck.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock_private.h"
#include "hostlist.h"
#include "jobcheck.h"
#include "json_private.h"
#include "klog_private.h"
#include "procfs.h"
#include "spool.h"

#define SECOND 1000000
#define PATIENCE_US (5 * SECOND) /* a Prolog has to end soon */
#define NO_SAMPLE "no earlier sample of this job"

/* What the job's first sample and this one differ in. */
static int compare(struct gs_jobcheck *check, const char *spool)
{
    struct gs_gpus *before = malloc(sizeof(*before));
    char *sample = before ? gs_spool_sample(spool, check->job_id) : NULL;
    struct gs_gpudiff_facts facts = {
        .xids = check->health->has_xids ? &check->health->xids : NULL,
        .boot_us = check->health->boot_us,
        .host = geteuid() == 0,
    };
    int rc = before ? 0 : -ENOMEM;

    if (sample && check->health->asked && gs_health_read(sample, before, NULL) == 0) {
        rc = gs_gpudiff_compare(before, &check->health->gpus, &facts, &check->diffs);
        check->compared = rc == 0;
    }
    gs_text_free(sample);
    free(before);
    return rc;
}

int gs_records_compare(const char *before,
                       const char *after,
                       const char *kernel_log,
                       struct gs_gpudiffs *ret_diffs,
                       struct gs_error *error)
{
    struct gs_gpus *gpus = calloc(2, sizeof(*gpus));
    struct gs_xidlog *xids = malloc(sizeof(*xids));
    struct gs_gpudiff_facts facts = {.boot_us = gs_clock_boot_us(),
                                     .host = geteuid() == 0};
    int rc = gpus && xids ? 0 : -ENOMEM;

    if (rc == 0)
        rc = gs_health_read(before, &gpus[0], error);
    if (rc == 0)
        rc = gs_health_read(after, &gpus[1], error);
    if (rc == 0
        && gs_klog_collect(kernel_log ? kernel_log : GS_KLOG_DEVICE, xids, NULL) == 0)
        facts.xids = xids;
    if (rc == 0)
        rc = gs_gpudiff_compare(&gpus[0], &gpus[1], &facts, ret_diffs);
    free(gpus);
    free(xids);
    return rc;
}

int gs_jobcheck_run(struct gs_jobcheck *check, const struct gs_jobcheck_conf *conf)
{
    struct gs_health_ask ask = {
        .stage = check->stage,
        .devices = conf->devices,
        .patience_us = PATIENCE_US,
        .idle = !gs_proc_other_jobs(check->job_id),
    };
    struct gs_error error;
    int64_t now_us = gs_clock_now_us();

    check->wall_us = gs_clock_wall_us();
    gs_policy_init(&check->policy);
    ask.policy = &check->policy;
    ask.probe.program = conf->probe && conf->probe[0] ? conf->probe : NULL;
    if (conf->policy && conf->policy[0]
        && gs_policy_load(&check->policy, conf->policy, conf->policy_optional, &error)
               < 0)
        check->health = gs_health_failed(check->stage, error.text, now_us);
    else
        check->health = gs_health_start(&ask, now_us);
    if (!check->health)
        return -ENOMEM;
    gs_health_wait(check->health);
    if (check->stage == GS_STAGE_EPILOG && compare(check, conf->spool) < 0) {
        gs_jobcheck_clear(check);
        return -ENOMEM;
    }
    return 0;
}

enum gs_verdict gs_jobcheck_verdict(const struct gs_jobcheck *check)
{
    return gs_verdict_worst(check->health->verdict,
                            check->compared ? check->diffs.verdict : GS_OK);
}

bool gs_jobcheck_drains(const struct gs_jobcheck *check)
{
    return check->health->judged && check->health->found.drain;
}

char *gs_jobcheck_sentence(const struct gs_jobcheck *check)
{
    char *looked = gs_health_sentence(check->health);
    struct gs_strbuf out = {0};

    gs_strbuf_add(&out, "%s", looked ? looked : "");
    for (uint32_t i = 0; check->compared && i < check->diffs.count; i++)
        if (check->diffs.diffs[i].verdict > GS_UNKNOWN)
            gs_strbuf_add(&out, "; during the job: %s", check->diffs.diffs[i].reason);
    gs_text_free(looked);
    return gs_strbuf_take(&out);
}

static void add_diff(struct gs_strbuf *out, const struct gs_gpudiff *diff)
{
    gs_json_comma(out);
    gs_strbuf_add(out, "{");
    gs_json_text(out, "reading", diff->id);
    gs_json_text(out, "kind", gs_gpudiff_kind_name(diff->kind));
    gs_json_text(out, "verdict", gs_verdict_name(diff->verdict));
    gs_json_text(out, "uuid", diff->uuid);
    gs_json_text(out, "pci", diff->pci);
    gs_json_number(out, "before", diff->before);
    gs_json_number(out, "after", diff->after);
    gs_json_text(out, "reason", diff->reason);
    gs_strbuf_add(out, "}");
}

static void add_diffs(struct gs_strbuf *out, const struct gs_jobcheck *check)
{
    gs_json_key(out, "differences");
    if (check->stage != GS_STAGE_EPILOG) {
        gs_strbuf_add(out, "null");
        return;
    }
    gs_strbuf_add(out, "{");
    gs_json_flag(out, "compared", check->compared);
    gs_json_text(out, "note", check->compared ? "" : NO_SAMPLE);
    gs_json_key(out, "found");
    gs_strbuf_add(out, "[");
    for (uint32_t i = 0; i < check->diffs.count; i++)
        add_diff(out, &check->diffs.diffs[i]);
    gs_strbuf_add(out, "]}");
}

static void add_gpu(struct gs_strbuf *out, const struct gs_jobcheck *check)
{
    const struct gs_health *health = check->health;
    char *record = gs_health_record(health, GS_RECORD_SAMPLE);
    char *sentence = gs_health_sentence(health);

    gs_json_key(out, "gpu");
    gs_strbuf_add(out, "{");
    gs_json_text(out, "verdict", gs_verdict_name(health->verdict));
    gs_json_flag(out, "drain", gs_jobcheck_drains(check));
    gs_json_flag(out, "none", health->none);
    gs_json_text(out, "sentence", sentence ? sentence : "");
    gs_json_flag(out, "reused", false);
    gs_json_key(out, "event");
    gs_strbuf_add(out, "%s}", record ? record : "{}");
    gs_text_free(sentence);
    gs_text_free(record);
}

char *gs_jobcheck_event(const struct gs_jobcheck *check)
{
    char *sentence = gs_jobcheck_sentence(check);
    struct gs_strbuf out = {0};

    gs_strbuf_add(&out,
                  "{\"event\":\"check\",\"schema\":\"gangstart.check\",\"version\":%d",
                  GS_CHECK_VERSION);
    gs_json_text(&out, "stage", gs_stage_name(check->stage));
    gs_json_seconds(&out, "time", check->wall_us);
    gs_json_text(&out, "node", check->node);
    gs_json_number(&out, "job", check->job_id);
    gs_json_number(&out, "job_uid", check->user_id);
    gs_json_text(&out, "by", "hook");
    gs_json_text(&out, "verdict", gs_verdict_name(gs_jobcheck_verdict(check)));
    gs_json_flag(&out, "drain", gs_jobcheck_drains(check));
    gs_json_text(&out, "reason", sentence ? sentence : "");
    gs_json_number(&out,
                   "took_ms",
                   (uint64_t)(check->health->done_us - check->health->begun_us) / 1000);
    add_gpu(&out, check);
    add_diffs(&out, check);
    gs_strbuf_add(&out, "}");
    gs_text_free(sentence);
    return gs_strbuf_take(&out);
}

void gs_jobcheck_clear(struct gs_jobcheck *check)
{
    gs_health_destroy(check->health);
    check->health = NULL;
    gs_gpudiffs_free(&check->diffs);
    check->compared = false;
}
