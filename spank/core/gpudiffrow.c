/* gpudiffrow.c - the table of readings that gpudiff.h compares, and how.
 *
 * Each row: id, reading, how it is compared, up to which growth it is only told, what
 * it counts as beyond, when it does not apply, the sentence: {v} is by how much it grew
 * (or what it is now), {l} what it was.
 */
#include <stdio.h>
#include <string.h>

#include "gpudiff_private.h"

#define MINUTE_US 60000000

enum how {
    COUNTS,  /* grows for good; going down it has begun anew */
    GROWS,   /* more of it is bad, less of it is nothing */
    SET,     /* was 0 and is not any more */
    FALLS,   /* less of it is bad */
    RATE,    /* a counter whose growth per minute matters */
    HISTORY, /* counts, and is told only if the counter since loading does not tell it
              */
    ACTION   /* the recovery that the driver asks for */
};

#define NOTHING 0
#define IN_BYTES(mib) ((mib) * GS_MIB)

/* A table reads better with few lines per row. */
/* clang-format off */
static const struct row {
    const char *id;
    enum gs_gpu_reading reading;
    enum how how;
    uint64_t limit;
    enum gs_verdict verdict;
    unsigned unless; /* of enum gs_unless: MIG, NUMA */
    const char *says;
} ROWS[] = {
    {"recovery", GS_GPU_RECOVERY_ACTION, ACTION, 0, GS_FAIL, NOTHING, "the driver now asks to {v}"},
    {"ecc_unc", GS_GPU_ECC_UNC_VOLATILE, COUNTS, 0, GS_FAIL, NOTHING,
        "{v} uncorrectable ECC errors during the job, {l} before"},
    {"ecc_history", GS_GPU_ECC_UNC_AGGREGATE, HISTORY, 0, GS_FAIL, NOTHING,
        "{v} uncorrectable ECC errors during the job, {l} in its life before"},
    {"sram_unc", GS_GPU_SRAM_UNC_VOLATILE, COUNTS, 0, GS_FAIL, NOTHING,
        "{v} uncorrectable SRAM errors during the job, {l} before"},
    {"sram_threshold", GS_GPU_SRAM_THRESHOLD, SET, 0, GS_FAIL, NOTHING,
        "SRAM errors have passed the limit for replacement"},
    {"ecc_cor", GS_GPU_ECC_COR_VOLATILE, COUNTS, 20000000, GS_WARN, NOTHING,
        "{v} corrected ECC errors during the job, {l} before"},
    {"remap_rows", GS_GPU_REMAP_UNC, COUNTS, 0, GS_WARN, NOTHING,
        "{v} of its memory were replaced during the job, {l} before"},
    {"remap_pending", GS_GPU_REMAP_PENDING, SET, 0, GS_WARN, NOTHING,
        "bad memory rows now wait for a reset to be replaced"},
    {"remap_failed", GS_GPU_REMAP_FAILED, SET, 0, GS_FAIL, NOTHING,
        "a bad memory row could not be replaced"},
    {"remap_banks", GS_GPU_REMAP_BANKS_EMPTY, GROWS, 0, GS_WARN, NOTHING,
        "{v} of its memory have used up their spare rows during the job, {l} before"},
    {"unrepairable", GS_GPU_UNREPAIRABLE, SET, 0, GS_FAIL, NOTHING,
        "its memory has become unrepairable"},
    {"retired_sbe", GS_GPU_RETIRED_SBE, COUNTS, 0, GS_WARN, NOTHING,
        "{v} of memory were retired during the job, {l} before"},
    {"retired_dbe", GS_GPU_RETIRED_DBE, COUNTS, 0, GS_WARN, NOTHING,
        "{v} of memory were retired for double-bit errors during the job, {l} before"},
    {"retired_pending", GS_GPU_RETIRED_PENDING, SET, 0, GS_WARN, NOTHING,
        "bad memory pages now wait for a reset to be retired"},
    {"nvlink", GS_GPU_NVLINK_ACTIVE, FALLS, 0, GS_FAIL, GS_UNLESS_MIG,
        "{v} of NVLink are up, {l} before"},
    {"nvlink_errors", GS_GPU_NVLINK_ERRORS, COUNTS, 0, GS_WARN, GS_UNLESS_MIG,
        "{v} NVLink errors during the job, {l} before"},
    {"p2p", GS_GPU_P2P_BROKEN, GROWS, 0, GS_FAIL, GS_UNLESS_MIG,
        "{v} of its node cannot be reached over NVLink any more, {l} could not before"},
    {"c2c", GS_GPU_C2C_DOWN, GROWS, 0, GS_FAIL, NOTHING,
        "{v} to the CPU went down, {l} were so before"},
    {"pcie_width", GS_GPU_PCIE_WIDTH, FALLS, 0, GS_WARN, NOTHING, "{v} of PCIe, {l} before"},
    {"pcie_replays", GS_GPU_PCIE_REPLAYS, RATE, 0, GS_WARN, NOTHING,
        "{v} PCIe replays during the job, {l} before"},
    {"memory", GS_GPU_MEMORY_USED, GROWS, IN_BYTES(500), GS_WARN, GS_UNLESS_NUMA,
        "{v} of memory more are in use than before ({l})"},
};
/* clang-format on */
#define ROW_COUNT (sizeof(ROWS) / sizeof(ROWS[0]))

const char *gs_gpudiff_id(uint32_t n)
{
    return n < ROW_COUNT ? ROWS[n].id : NULL;
}

static bool applies(const struct row *row, const struct gs_gpu *gpu)
{
    return !(row->unless & GS_UNLESS_MIG
             && gs_gpu_value_or(gpu, GS_GPU_MIG_MODE, 0) == 1)
           && !(row->unless & GS_UNLESS_NUMA
                && gs_gpu_value_or(gpu, GS_GPU_NUMA_MEMORY, 0) == 1);
}

/* Replays per minute that a link may have at the bit error rate of 1e-12 that PCIe
 * allows: 0.06 x GT/s x lanes. Of the best link it can have: an idle one is slower than
 * it was while the job ran. 0 = not known. */
static double replays_allowed(const struct gs_gpu *gpu)
{
    static const double SPEED[] = {0, 2.5, 5, 8, 16, 32, 64};
    uint64_t gen = gs_gpu_value_or(gpu, GS_GPU_PCIE_GEN_MAX, 0);
    uint64_t lanes = gs_gpu_value_or(gpu, GS_GPU_PCIE_WIDTH_MAX, 0);

    if (gen >= sizeof(SPEED) / sizeof(SPEED[0]))
        return 0;
    return 0.06 * SPEED[gen] * (double)lanes;
}

/* A job of seconds is not long enough for a rate: it counts as one of a minute. */
static enum gs_verdict rate_verdict(const struct gs_diffing *diffing,
                                    const struct gs_gpu *gpu,
                                    uint64_t grown,
                                    enum gs_verdict verdict)
{
    int64_t took = diffing->after->taken_us - diffing->before->taken_us;
    double minutes = took > MINUTE_US ? (double)took / MINUTE_US : 1;
    double allowed = replays_allowed(gpu);

    if (allowed <= 0 || took < 0)
        return GS_UNKNOWN;
    return (double)grown > allowed * minutes ? verdict : GS_OK;
}

static enum gs_verdict action_verdict(uint64_t action)
{
    return action == 0 ? GS_OK : gs_recovery_peer(action) ? GS_WARN : GS_FAIL;
}

/* Whether row has something to tell; sets the verdict and what {v} is. */
static bool compare(const struct gs_diffing *diffing,
                    const struct row *row,
                    const struct gs_gpu *before,
                    const struct gs_gpu *after,
                    struct gs_gpudiff *diff,
                    uint64_t *ret_value)
{
    uint64_t grown = diff->after > diff->before ? diff->after - diff->before : 0;

    diff->verdict = row->verdict;
    switch (row->how) {
    case SET:
        return diff->before == 0 && diff->after != 0;
    case FALLS:
        return diff->after < diff->before;
    case ACTION:
        diff->verdict = action_verdict(diff->after);
        return diff->after != diff->before;
    case RATE:
        diff->verdict = rate_verdict(diffing, after, grown, row->verdict);
        break;
    case HISTORY:
        if (gs_gpu_value_or(after, GS_GPU_ECC_UNC_VOLATILE, 0)
            > gs_gpu_value_or(before, GS_GPU_ECC_UNC_VOLATILE, 0))
            return false;
        break;
    case COUNTS:
    case GROWS:
        diff->verdict = grown > row->limit ? row->verdict : GS_OK;
        break;
    }
    *ret_value = grown;
    return grown > 0;
}

/* Tells what a row finds. */
static void compare_row(struct gs_diffing *diffing,
                        const struct row *row,
                        const struct gs_gpu *before,
                        const struct gs_gpu *after)
{
    struct gs_hit hit = {.gpu = after};
    struct gs_gpudiff diff = {
        .id = row->id,
        .before = before->values[row->reading].value,
        .after = after->values[row->reading].value,
    };
    bool counter = row->how == COUNTS || row->how == RATE || row->how == HISTORY;
    uint64_t value = diff.after;
    char says[160];

    if (counter && diff.after < diff.before) {
        diff.kind = GS_GPUDIFF_RESTART;
        snprintf(says,
                 sizeof(says),
                 "not judged: %s went from {l} down to {v}: the driver was loaded or "
                 "the GPU reset in between",
                 gs_gpu_reading_name(row->reading));
    } else {
        if (!compare(diffing, row, before, after, &diff, &value))
            return;
        snprintf(says,
                 sizeof(says),
                 "%s",
                 row->how == ACTION && diff.after == 0
                     ? "the driver asks for no recovery any more"
                     : row->says);
    }
    gs_reading_text(row->reading, diff.before, hit.limit);
    if (row->how == ACTION)
        gs_recovery_text(diff.after, hit.value);
    else
        gs_reading_text(row->reading, value, hit.value);
    gs_hit_say(&hit, says);
    gs_diff_add(diffing, &diff, &hit);
}

/* Why a row cannot be compared: the code and whether it is the later sample's. */
struct why {
    uint16_t code; /* 0 = it can be, or there never was such a reading */
    bool now;
};

static struct why why_not(const struct gs_diffing *diffing,
                          const struct row *row,
                          const struct gs_gpu *before,
                          const struct gs_gpu *after)
{
    bool host = diffing->facts->host;
    uint16_t was = gs_gpu_reading_code(before, row->reading);
    uint16_t is = gs_gpu_reading_code(after, row->reading);

    if (!applies(row, after))
        return (struct why){0, false};
    if (is && (!was || gs_gpu_code_verdict(is, host) != GS_OK))
        return (struct why){is, true};
    if (was && gs_gpu_code_verdict(was, host) != GS_OK)
        return (struct why){was, false};
    return (struct why){0, false};
}

/* All rows from `first` on that cannot be compared for its reason, in one sentence. */
static void tell_unread(struct gs_diffing *diffing,
                        size_t first,
                        const struct gs_gpu *before,
                        const struct gs_gpu *after)
{
    struct why why = why_not(diffing, &ROWS[first], before, after), own;
    struct gs_gpudiff diff = {
        .id = "unread", .kind = GS_GPUDIFF_UNREAD, .verdict = GS_UNKNOWN};
    struct gs_hit hit = {.gpu = after};
    size_t used = 0;

    for (size_t i = first; i < ROW_COUNT; i++) {
        const char *name = gs_gpu_reading_name(ROWS[i].reading);

        own = why_not(diffing, &ROWS[i], before, after);
        if (own.code != why.code || own.now != why.now
            || used + strlen(name) + 2 > sizeof(hit.value))
            continue;
        used += (size_t)snprintf(hit.value + used,
                                 sizeof(hit.value) - used,
                                 "%s%s",
                                 used > 0 ? " " : "",
                                 name);
    }
    if (why.now)
        diff.verdict = gs_verdict_worst(
            GS_UNKNOWN, gs_gpu_code_verdict(why.code, diffing->facts->host));
    gs_gpu_code_text(why.code, hit.limit);
    gs_hit_say(&hit,
               why.now ? "cannot be compared, not read any more: {v} ({l})"
                       : "cannot be compared, not read before: {v} ({l})");
    gs_diff_add(diffing, &diff, &hit);
}

void gs_diff_readings(struct gs_diffing *diffing,
                      const struct gs_gpu *before,
                      const struct gs_gpu *after)
{
    struct why told[ROW_COUNT];

    for (size_t i = 0; i < ROW_COUNT; i++) {
        bool first = true;

        told[i] = why_not(diffing, &ROWS[i], before, after);
        for (size_t k = 0; k < i; k++)
            first &= told[k].code != told[i].code || told[k].now != told[i].now;
        if (told[i].code && first)
            tell_unread(diffing, i, before, after);
        if (applies(&ROWS[i], after) && !gs_gpu_reading_code(before, ROWS[i].reading)
            && !gs_gpu_reading_code(after, ROWS[i].reading))
            compare_row(diffing, &ROWS[i], before, after);
    }
}
