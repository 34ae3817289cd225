/* gpuxid.c - judge the kernel log's faults beside the GPUs that they are of.
 *
 * Without a kernel log the check is skipped, and as root on the host that is unknown.
 */
#include <stdio.h>
#include <string.h>

#include "gpurule_private.h"

#define SECOND 1000000

static const struct gs_gpu *gpu_at(const struct gs_gpus *gpus, const char *pci)
{
    for (uint32_t i = 0; i < gpus->count && i < GS_GPU_MAX; i++) {
        if (strcmp(gpus->gpus[i].pci, pci) == 0)
            return &gpus->gpus[i];
    }
    return NULL;
}

bool gs_xid_wall(const struct gs_xid *xid, int64_t boot_us, int64_t *ret_us)
{
    int64_t at = xid->time_us;

    if (xid->clock == GS_CLOCK_NONE)
        return false;
    /* Any process may write a line with any time in it. */
    if (xid->clock == GS_CLOCK_BOOT
        && (boot_us < 0 || __builtin_add_overflow(at, boot_us, &at)))
        return false;
    *ret_us = at;
    return true;
}

/* Whether an entry is too old to count. What has no time that can be read counts. */
static bool is_history(const struct gs_judge *judge, const struct gs_xid *xid)
{
    int64_t lookback = (int64_t)judge->context->policy->xid_lookback_s * SECOND, at;

    return gs_xid_wall(xid, judge->context->boot_us, &at)
           && judge->gpus->taken_us - at > lookback;
}

static void judge_xid(struct gs_judge *judge, uint32_t index)
{
    const struct gs_xidlog *log = judge->context->xids;
    const struct gs_xid *xid = &log->xids[index];
    const struct gs_gpu *gpu = gpu_at(judge->gpus, xid->pci);
    bool recovery = gpu && gs_gpu_value_or(gpu, GS_GPU_RECOVERY_ACTION, 0) != 0;
    enum gs_xid_class cls = gs_xidlog_class(log, index, recovery);
    struct gs_hit hit = {
        .check = xid->nvswitch ? GS_CHECK_SXID : GS_CHECK_XID,
        .most = gs_xid_class_verdict(cls),
        .gpu = gpu,
        .pci = xid->pci,
        .xid = xid->number,
        .action = gs_xid_class_action(cls),
    };
    char says[160];

    hit.not_of_step = !gpu && !xid->nvswitch && judge->context->step_gpu_count > 0;
    snprintf(hit.value, sizeof(hit.value), "%u", xid->number);
    snprintf(hit.limit, sizeof(hit.limit), "%.90s", xid->text);
    snprintf(says,
             sizeof(says),
             "%s {v} (%s)%s%s%s, %u %s in the kernel log",
             xid->nvswitch ? "NVSwitch fault SXid" : "Xid",
             xid->nvswitch ? "{l}" : gs_xid_info(xid->number).name,
             gpu ? "" : " at ",
             gpu ? "" : xid->pci,
             hit.most == GS_OK ? ", harmless" : "",
             xid->times,
             xid->times == 1 ? "time" : "times");
    gs_hit_say(&hit, says);
    hit.limit[0] = '\0';
    gs_judge_add(judge, &hit);
}

void gs_judge_xids(struct gs_judge *judge)
{
    const struct gs_xidlog *log = judge->context->xids;

    if (!log) {
        struct gs_hit hit = {.check = GS_CHECK_XID, .skipped = true, .most = GS_OK};

        if (gs_judge_host(judge->context) && judge->gpus->init_code != GS_GPU_NOT_ASKED)
            hit.most = GS_UNKNOWN;
        gs_hit_say(&hit, "not judged: the kernel log could not be read");
        gs_judge_add(judge, &hit);
        return;
    }
    for (uint32_t i = 0; i < log->count; i++) {
        if (!is_history(judge, &log->xids[i]))
            judge_xid(judge, i);
    }
}
