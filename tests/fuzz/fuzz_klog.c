/* fuzz_klog.c - the kernel log, into which any process may write.
 *
 * Whatever it says: the faults kept are whole, their texts can be shown, a log read in
 * two parts is the same log, and judging and comparing with it breaks nothing. */
#include "fuzz.h"
#include "gpudiff.h"

static void shown(const char *text)
{
    for (; *text; text++)
        MUST((unsigned char)*text >= 0x20 && (unsigned char)*text < 0x7f);
}

static void whole(const struct gs_xidlog *log)
{
    char pci[GS_XID_PCI];

    MUST(log->count <= GS_XID_MAX);
    for (uint32_t i = 0; i < log->count; i++) {
        const struct gs_xid *xid = &log->xids[i];

        MUST(gs_pci_normalise(xid->pci, strlen(xid->pci), pci));
        MUST(strcmp(xid->pci, pci) == 0);
        shown(xid->text);
        MUST(xid->times > 0 && xid->pid >= -1);
        MUST(gs_xidlog_class(log, i, false) <= GS_XID_REBOOT);
        MUST(gs_xid_class_action(gs_xidlog_class(log, i, true))[0]);
    }
}

/* Read up to the end of a line somewhere in the middle, then the rest. */
static void in_parts(const struct gs_xidlog *log, const char *text, size_t size)
{
    static struct gs_xidlog parts;
    const char *end = memchr(text + size / 2, '\n', size - size / 2);
    size_t first = end ? (size_t)(end - text) + 1 : size;

    gs_xidlog_init(&parts);
    gs_xidlog_add(&parts, text, first);
    gs_xidlog_add(&parts, text + first, size - first);
    MUST(parts.count == log->count && parts.over == log->over);
    MUST(parts.lost == log->lost);
    for (uint32_t i = 0; i < log->count; i++) {
        MUST(parts.xids[i].number == log->xids[i].number);
        MUST(parts.xids[i].times == log->xids[i].times);
        MUST(parts.xids[i].time_us == log->xids[i].time_us);
        MUST(strcmp(parts.xids[i].text, log->xids[i].text) == 0);
    }
}

/* Two samples of one GPU. */
static void init_gpus(struct gs_gpus *gpus, int64_t taken_us)
{
    gs_gpus_init(gpus);
    gpus->init_code = gpus->count_code = gpus->gpus[0].code = 0;
    gpus->count = 1;
    gpus->taken_us = taken_us;
    strcpy(gpus->gpus[0].uuid, "GPU-0");
    strcpy(gpus->gpus[0].pci, "0000:1a:00.0");
}

static void use(const struct gs_xidlog *log)
{
    static struct gs_gpus before, after;
    static struct gs_policy policy;
    struct gs_gpudiff_facts facts = {log, 1000000000000000, true};
    struct gs_gpuverdict verdict;
    struct gs_gpucontext context;
    struct gs_gpudiffs diffs;

    if (!before.count) {
        init_gpus(&before, 1500000000000000);
        init_gpus(&after, 1600000000000000);
        gs_policy_init(&policy);
    }
    gs_gpucontext_init(&context, &policy);
    context.xids = log;
    context.boot_us = facts.boot_us;
    MUST(gs_gpurule_judge(&after, &context, NULL, &verdict) == 0);
    for (uint32_t i = 0; i < verdict.count; i++)
        shown(verdict.findings[i].reason);
    gs_gpuverdict_free(&verdict);
    MUST(gs_gpudiff_compare(&before, &after, &facts, &diffs) == 0);
    MUST(diffs.count <= log->count);
    for (uint32_t i = 0; i < diffs.count; i++)
        shown(diffs.diffs[i].reason);
    gs_gpudiffs_free(&diffs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gs_xidlog log;
    /* Not a text: of its own size, so that reading beyond its end is noticed. */
    char *text = malloc(size ? size : 1);

    MUST(text);
    if (size)
        memcpy(text, data, size);
    gs_xidlog_init(&log);
    gs_xidlog_add(&log, text, size);
    whole(&log);
    in_parts(&log, text, size);
    use(&log);
    free(text);
    return 0;
}
