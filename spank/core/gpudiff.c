/* gpudiff.c - match the GPUs of two samples, collect what changed; see gpudiff.h. The
 * readings are compared in gpudiffrow.c. On failure (no memory) nothing is returned. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpudiff_private.h"

static const char *const KINDS[GS_GPUDIFF_KINDS] = {
    "change", "restart", "unread", "gone", "new", "xid"};

const char *gs_gpudiff_kind_name(enum gs_gpudiff_kind kind)
{
    return (unsigned)kind < GS_GPUDIFF_KINDS ? KINDS[kind] : "";
}

void gs_diff_add(struct gs_diffing *diffing,
                 const struct gs_gpudiff *diff,
                 const struct gs_hit *hit)
{
    struct gs_gpudiffs *out = &diffing->out;
    struct gs_gpudiff *added;

    if (out->count == out->size) {
        uint32_t size = out->size > 0 ? out->size * 2 : 16;
        struct gs_gpudiff *grown = realloc(out->diffs, size * sizeof(*grown));

        if (!grown) {
            diffing->failed = true;
            return;
        }
        out->diffs = grown;
        out->size = size;
    }
    added = &out->diffs[out->count++];
    *added = *diff;
    if (hit->gpu)
        memcpy(added->uuid, hit->gpu->uuid, sizeof(added->uuid));
    snprintf(added->pci,
             sizeof(added->pci),
             "%s",
             hit->pci   ? hit->pci
             : hit->gpu ? hit->gpu->pci
                        : "");
    memcpy(added->reason, hit->reason, sizeof(added->reason));
    out->verdict = gs_verdict_worst(out->verdict, added->verdict);
}

static bool same_gpu(const struct gs_gpu *a, const struct gs_gpu *b)
{
    if (a->uuid[0] && b->uuid[0])
        return strcmp(a->uuid, b->uuid) == 0;
    return a->pci[0] && strcmp(a->pci, b->pci) == 0;
}

static const struct gs_gpu *find(const struct gs_gpus *gpus, const struct gs_gpu *gpu)
{
    for (uint32_t i = 0; i < gpus->count && i < GS_GPU_MAX; i++) {
        if (same_gpu(&gpus->gpus[i], gpu))
            return &gpus->gpus[i];
    }
    return NULL;
}

static bool is_named(const struct gs_gpu *gpu)
{
    return gpu->uuid[0] || gpu->pci[0];
}

/* It is not in the later sample. After a hang the rest was not read any more, which
 * says nothing about it; and one without a name is not found either way. */
static void tell_gone(struct gs_diffing *diffing, const struct gs_gpu *gpu)
{
    bool cut = diffing->after->hung_call[0] || !is_named(gpu);
    struct gs_gpudiff diff = {.id = "gone",
                              .kind = cut ? GS_GPUDIFF_UNREAD : GS_GPUDIFF_GONE,
                              .verdict = cut ? GS_UNKNOWN : GS_FAIL};
    struct gs_hit hit = {.gpu = gpu};

    snprintf(hit.value, sizeof(hit.value), "%s", gpu->uuid);
    gs_hit_say(&hit,
               !is_named(gpu) ? "cannot be compared: which GPU it was is not known"
               : cut ? "cannot be compared: it was not read any more after a hang"
                     : "it is gone: {v} was there before the job");
    gs_diff_add(diffing, &diff, &hit);
}

/* It is there and cannot be opened, before or now. */
static void tell_closed(struct gs_diffing *diffing,
                        const struct gs_gpu *before,
                        const struct gs_gpu *after)
{
    bool now = after->code != 0;
    uint16_t code = now ? after->code : before->code;
    struct gs_gpudiff diff = {
        .id = "gone", .kind = GS_GPUDIFF_UNREAD, .verdict = GS_UNKNOWN};
    /* What cannot be opened has no UUID. */
    struct gs_hit hit = {.gpu = before->code ? after : before};

    if (now && !before->code) {
        diff.kind = GS_GPUDIFF_GONE;
        diff.verdict = gs_verdict_worst(
            GS_UNKNOWN, gs_gpu_code_verdict(code, diffing->facts->host));
    }
    gs_gpu_code_text(code, hit.value);
    gs_hit_say(&hit,
               diff.kind == GS_GPUDIFF_GONE ? "it cannot be opened any more: {v}"
               : now ? "cannot be compared: it cannot be opened ({v})"
                     : "cannot be compared: it could not be opened before ({v})");
    gs_diff_add(diffing, &diff, &hit);
}

static void compare_gpus(struct gs_diffing *diffing)
{
    const struct gs_gpus *before = diffing->before, *after = diffing->after;

    for (uint32_t i = 0; i < before->count && i < GS_GPU_MAX; i++) {
        const struct gs_gpu *was = &before->gpus[i], *is = find(after, was);

        if (!is)
            tell_gone(diffing, was);
        else if (was->code || is->code)
            tell_closed(diffing, was, is);
        else
            gs_diff_readings(diffing, was, is);
    }
    for (uint32_t i = 0; i < after->count && i < GS_GPU_MAX; i++) {
        const struct gs_gpudiff diff = {.id = "new", .kind = GS_GPUDIFF_NEW};
        struct gs_hit hit = {.gpu = &after->gpus[i]};

        if (!is_named(hit.gpu) || find(before, hit.gpu))
            continue;
        gs_hit_say(&hit, "it was not there before the job");
        gs_diff_add(diffing, &diff, &hit);
    }
}

/* The code that kept a sample from having GPUs at all, 0 = none did. */
static uint16_t closed_code(const struct gs_gpus *gpus)
{
    return gpus->init_code ? gpus->init_code : gpus->count_code;
}

/* Whether both samples have GPUs that can be compared. */
static bool compare_node(struct gs_diffing *diffing)
{
    uint16_t was = closed_code(diffing->before), is = closed_code(diffing->after);
    struct gs_gpudiff diff = {
        .id = "driver", .kind = GS_GPUDIFF_UNREAD, .verdict = GS_UNKNOWN};
    struct gs_hit hit = {0};

    if (!was && !is)
        return true;
    if (was == GS_GPU_NOT_ASKED && is == GS_GPU_NOT_ASKED)
        return false; /* a node without GPUs */
    if (!was)
        diff.verdict =
            gs_verdict_worst(GS_UNKNOWN, gs_gpu_code_verdict(is, diffing->facts->host));
    gs_gpu_code_text(is ? is : was, hit.value);
    gs_hit_say(&hit,
               !was  ? "the driver does not answer any more: {v}"
               : !is ? "cannot be compared: the driver did not answer before ({v})"
                     : "cannot be compared: the driver does not answer ({v})");
    gs_diff_add(diffing, &diff, &hit);
    return false;
}

static const struct gs_gpu *gpu_at(const struct gs_diffing *diffing, const char *pci)
{
    const struct gs_gpus *samples[] = {diffing->after, diffing->before};

    for (size_t s = 0; s < sizeof(samples) / sizeof(samples[0]); s++) {
        for (uint32_t i = 0; i < samples[s]->count && i < GS_GPU_MAX; i++) {
            const struct gs_gpu *gpu = &samples[s]->gpus[i];

            /* One that cannot be opened any more has its UUID before only. */
            if (strcmp(gpu->pci, pci) == 0 && gpu->uuid[0])
                return gpu;
        }
    }
    return NULL;
}

static void tell_xid(struct gs_diffing *diffing, uint32_t index, bool known)
{
    const struct gs_xidlog *log = diffing->facts->xids;
    const struct gs_xid *xid = &log->xids[index];
    const struct gs_gpu *gpu = gpu_at(diffing, xid->pci);
    bool recovery = gpu && gs_gpu_value_or(gpu, GS_GPU_RECOVERY_ACTION, 0) != 0;
    enum gs_verdict verdict =
        gs_xid_class_verdict(gs_xidlog_class(log, index, recovery));
    struct gs_gpudiff diff = {.id = xid->nvswitch ? "sxid" : "xid",
                              .kind = GS_GPUDIFF_XID,
                              .verdict = verdict,
                              .after = xid->number};
    struct gs_hit hit = {.gpu = gpu, .pci = xid->pci};
    char says[96];

    /* It may be from before the job. */
    if (!known && verdict != GS_OK)
        diff.verdict = GS_UNKNOWN;
    snprintf(hit.value,
             sizeof(hit.value),
             "%.90s",
             xid->nvswitch ? xid->text : gs_xid_info(xid->number).name);
    snprintf(says,
             sizeof(says),
             "%s %u ({v})%s%s%s",
             xid->nvswitch ? "NVSwitch fault SXid" : "Xid",
             xid->number,
             gpu ? "" : " at ",
             gpu ? "" : xid->pci,
             known ? " during the job" : ", when is not known");
    gs_hit_say(&hit, says);
    gs_diff_add(diffing, &diff, &hit);
}

static void compare_xids(struct gs_diffing *diffing)
{
    const struct gs_xidlog *log = diffing->facts->xids;
    int64_t at;

    if (!log) {
        const struct gs_gpudiff diff = {.id = "xid",
                                        .kind = GS_GPUDIFF_UNREAD,
                                        .verdict =
                                            diffing->facts->host ? GS_UNKNOWN : GS_OK};
        struct gs_hit hit = {0};

        if (diffing->after->init_code == GS_GPU_NOT_ASKED)
            return;
        gs_hit_say(&hit, "cannot be compared: the kernel log could not be read");
        gs_diff_add(diffing, &diff, &hit);
        return;
    }
    for (uint32_t i = 0; i < log->count; i++) {
        bool known = gs_xid_wall(&log->xids[i], diffing->facts->boot_us, &at);

        if (!known || at > diffing->before->taken_us)
            tell_xid(diffing, i, known);
    }
}

int gs_gpudiff_compare(const struct gs_gpus *before,
                       const struct gs_gpus *after,
                       const struct gs_gpudiff_facts *facts,
                       struct gs_gpudiffs *ret)
{
    struct gs_diffing diffing = {.before = before, .after = after, .facts = facts};

    if (compare_node(&diffing))
        compare_gpus(&diffing);
    compare_xids(&diffing);
    if (diffing.failed) {
        gs_gpudiffs_free(&diffing.out);
        return -ENOMEM;
    }
    *ret = diffing.out;
    return 0;
}

void gs_gpudiffs_free(struct gs_gpudiffs *diffs)
{
    if (!diffs)
        return;
    free(diffs->diffs);
    memset(diffs, 0, sizeof(*diffs));
}
