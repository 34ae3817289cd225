/* gpunode.c - judge what comes before any value: the driver, which GPUs are there,
 * which queries failed; and the kernel log's faults.
 *
 * A hit here names its check itself; the policy decides what it counts as.
 */
#include <stdio.h>
#include <string.h>

#include "gpurule_private.h"

static struct gs_hit hit_of(enum gs_check check, const struct gs_gpu *gpu)
{
    return (struct gs_hit){.check = check, .most = GS_FAIL, .gpu = gpu};
}

static bool gpus_expected(const struct gs_judge *judge)
{
    return judge->context->expected > 0 || judge->gpus->pci_count > 0
           || judge->context->step_gpu_count > 0;
}

/* No driver or no library: fine where there is no GPU, unknown where nobody knows. */
static void judge_no_driver(struct gs_judge *judge, uint16_t code)
{
    const struct gs_gpucontext *context = judge->context;
    struct gs_hit hit = hit_of(GS_CHECK_INIT, NULL);

    hit.code = code == GS_GPU_NOT_ASKED ? 0 : code;
    gs_gpu_code_text(code, hit.value);
    if (!gpus_expected(judge)) {
        hit.skipped = true;
        hit.most =
            judge->gpus->pci_count == 0 || context->expected == 0 ? GS_OK : GS_UNKNOWN;
        gs_hit_say(
            &hit,
            hit.most == GS_OK
                ? "no GPU is expected here and no NVIDIA driver is loaded"
                : "no NVIDIA driver is loaded, and whether there are GPUs is not "
                  "known");
    } else {
        gs_hit_say(&hit, "GPUs are expected but the NVIDIA driver is not loaded ({v})");
        if (!gs_judge_host(context) && code != GS_GPU_NOT_ASKED)
            hit.most = GS_UNKNOWN;
    }
    gs_judge_add(judge, &hit);
}

/* Whether NVML started, so that the rest can be judged. */
static bool judge_init(struct gs_judge *judge)
{
    const struct gs_gpus *gpus = judge->gpus;
    uint16_t code = gpus->init_code;
    struct gs_hit hit =
        hit_of(code == GS_NVML_MISMATCH ? GS_CHECK_DRIVER : GS_CHECK_INIT, NULL);

    if (code == 0 || code == GS_GPU_HUNG)
        return code == 0;
    if (code == GS_GPU_NOT_ASKED || code == GS_NVML_DRIVER_NOT_LOADED
        || code == GS_NVML_LIBRARY_NOT_FOUND
        || (code == GS_NVML_GPU_NOT_FOUND && !gpus_expected(judge))) {
        judge_no_driver(judge, code);
        return false;
    }
    hit.code = code;
    gs_gpu_code_text(code, hit.value);
    if (code == GS_NVML_MISMATCH)
        gs_hit_say(&hit,
                   "driver and NVML library are of different versions ({v}): no new "
                   "program can use the GPUs; running ones are not affected");
    else
        gs_hit_say(&hit, "NVML does not start: {v}");
    if (!gs_judge_host(judge->context))
        hit.most = gs_gpu_code_verdict(code, false) == GS_FAIL ? GS_FAIL : GS_UNKNOWN;
    gs_judge_add(judge, &hit);
    return false;
}

static void judge_hung(struct gs_judge *judge)
{
    const struct gs_gpus *gpus = judge->gpus;
    struct gs_hit hit = hit_of(GS_CHECK_HUNG, NULL);

    if (!gpus->hung_call[0] && gpus->init_code != GS_GPU_HUNG
        && gpus->count_code != GS_GPU_HUNG)
        return;
    hit.code = GS_GPU_HUNG;
    snprintf(hit.value,
             sizeof(hit.value),
             "%.60s",
             gpus->hung_call[0]               ? gpus->hung_call
             : gpus->init_code == GS_GPU_HUNG ? "nvmlInit"
                                              : "nvmlDeviceGetCount");
    snprintf(hit.limit, sizeof(hit.limit), "%.32s", gpus->hung_gpu);
    if (gpus->hung_gpu[0])
        hit.pci = gpus->hung_gpu;
    gs_hit_say(&hit,
               gpus->hung_gpu[0] ? "the driver did not answer {v} on GPU {l} in time"
                                 : "the driver did not answer {v} in time");
    hit.limit[0] = '\0';
    gs_judge_add(judge, &hit);
}

/* As many as the driver counts, though some may not have been read any more. */
static uint32_t told(const struct gs_gpus *gpus)
{
    return gpus->told > gpus->count ? gpus->told : gpus->count;
}

static void judge_count(struct gs_judge *judge)
{
    const struct gs_gpucontext *context = judge->context;
    struct gs_hit hit = hit_of(GS_CHECK_COUNT, NULL);
    int64_t count = told(judge->gpus), expected = context->policy->expected_gpus;

    if (judge->gpus->count_code != 0 && judge->gpus->count_code != GS_GPU_HUNG) {
        hit.check = GS_CHECK_INIT;
        hit.code = judge->gpus->count_code;
        hit.most = gs_gpu_code_verdict(hit.code, gs_judge_host(context));
        gs_gpu_code_text(hit.code, hit.value);
        gs_hit_say(&hit, "NVML does not say how many GPUs there are: {v}");
        gs_judge_add(judge, &hit);
        return;
    }
    if (expected < 0)
        expected = context->expected;
    /* A user or a container sees the GPUs it was given, not the node's. */
    if (expected < 0 || count == expected || !gs_judge_host(context))
        return;
    hit.not_of_step = context->step_gpu_count > 0;
    hit.most = count < expected ? GS_FAIL : GS_OK;
    snprintf(hit.value, sizeof(hit.value), "%lld", (long long)count);
    snprintf(hit.limit, sizeof(hit.limit), "%lld", (long long)expected);
    gs_hit_say(&hit, "{v} GPUs, but {l} are expected");
    gs_judge_add(judge, &hit);
}

static void judge_bus(struct gs_judge *judge)
{
    const struct gs_gpus *gpus = judge->gpus;
    struct gs_hit hit = hit_of(GS_CHECK_BUS, NULL);

    if (gpus->count_code != 0 || !gs_judge_host(judge->context)
        || gpus->pci_count <= (int64_t)told(gpus))
        return;
    hit.not_of_step = judge->context->step_gpu_count > 0;
    snprintf(hit.value, sizeof(hit.value), "%u", told(gpus));
    snprintf(hit.limit, sizeof(hit.limit), "%d", gpus->pci_count);
    gs_hit_say(&hit, "the PCI bus has {l} GPUs but the driver only {v}: one is lost");
    gs_judge_add(judge, &hit);
}

static void judge_step_gpus(struct gs_judge *judge)
{
    const struct gs_gpucontext *context = judge->context;

    for (uint32_t i = 0; i < context->step_gpu_count; i++) {
        struct gs_hit hit = hit_of(GS_CHECK_STEP_GPU, NULL);
        bool found = false;

        for (uint32_t g = 0; g < judge->gpus->count && g < GS_GPU_MAX; g++)
            found |= strcmp(judge->gpus->gpus[g].uuid, context->step_gpus[i]) == 0;
        if (found)
            continue;
        snprintf(hit.value, sizeof(hit.value), "%s", context->step_gpus[i]);
        gs_hit_say(&hit, "the step's GPU {v} is not there");
        gs_judge_add(judge, &hit);
    }
}

void gs_judge_node(struct gs_judge *judge)
{
    bool started = judge_init(judge);

    judge_hung(judge);
    if (!started)
        return;
    judge_count(judge);
    judge_bus(judge);
    if (judge->gpus->count_code == 0)
        judge_step_gpus(judge);
}

/* The check that a failed query belongs to. handle: it was that of opening the GPU. */
static enum gs_check check_of_code(uint16_t code, bool host, bool handle)
{
    if (code == GS_NVML_GPU_IS_LOST)
        return GS_CHECK_LOST;
    if (code == GS_NVML_RESET_REQUIRED)
        return GS_CHECK_RESET;
    if (!handle)
        return GS_CHECK_QUERY;
    /* What a GPU that fell off the bus says when it is opened. */
    if (host
        && (code == GS_NVML_UNKNOWN || code == GS_NVML_NOT_FOUND
            || code == GS_NVML_GPU_NOT_FOUND))
        return GS_CHECK_LOST;
    return GS_CHECK_HANDLE;
}

static void judge_handle(struct gs_judge *judge, const struct gs_gpu *gpu)
{
    bool host = gs_judge_host(judge->context);
    enum gs_check check = check_of_code(gpu->code, host, true);
    struct gs_hit hit = hit_of(check, gpu);

    if (gpu->code == GS_GPU_HUNG)
        return;
    if (check == GS_CHECK_HANDLE)
        hit.most = gs_gpu_code_verdict(gpu->code, host);
    /* What was not asked, after a hang or an earlier error, is not known. */
    if (gpu->code == GS_GPU_NOT_ASKED)
        hit.most = GS_UNKNOWN;
    hit.code = gpu->code;
    gs_gpu_code_text(gpu->code, hit.value);
    gs_hit_say(&hit,
               check == GS_CHECK_LOST ? "it is lost: it cannot be opened ({v})"
                                      : "it cannot be opened: {v}");
    gs_judge_add(judge, &hit);
}

/* Every reading that failed with one code, in one finding. */
static void judge_code(struct gs_judge *judge, const struct gs_gpu *gpu, uint16_t code)
{
    bool host = gs_judge_host(judge->context);
    struct gs_hit hit = hit_of(check_of_code(code, host, false), gpu);
    size_t used = 0;
    unsigned more = 0;

    hit.code = code;
    if (hit.check == GS_CHECK_QUERY)
        hit.most = gs_gpu_code_verdict(code, host);
    gs_gpu_code_text(code, hit.limit);
    for (unsigned r = 0; r < GS_GPU_READINGS; r++) {
        const char *name = gs_gpu_reading_name((enum gs_gpu_reading)r);

        if (gpu->values[r].code != code)
            continue;
        if (used + strlen(name) + 16 > sizeof(hit.value)) {
            more++;
            continue;
        }
        used += (size_t)snprintf(hit.value + used,
                                 sizeof(hit.value) - used,
                                 "%s%s",
                                 used > 0 ? " " : "",
                                 name);
    }
    if (gpu->process_code == code && used + 16 < sizeof(hit.value))
        used += (size_t)snprintf(hit.value + used,
                                 sizeof(hit.value) - used,
                                 "%sprocesses",
                                 used > 0 ? " " : "");
    if (more > 0)
        snprintf(hit.value + used, sizeof(hit.value) - used, " +%u", more);
    gs_hit_say(&hit,
               hit.check == GS_CHECK_LOST    ? "it is lost ({l} from {v})"
               : hit.check == GS_CHECK_RESET ? "it needs a reset ({l} from {v})"
                                             : "cannot read {v}: {l}");
    hit.limit[0] = '\0';
    gs_judge_add(judge, &hit);
}

/* Whether this is the first reading of the GPU that has this code. */
static bool first_with(const struct gs_gpu *gpu, unsigned reading, uint16_t code)
{
    for (unsigned r = 0; r < reading; r++) {
        if (gpu->values[r].code == code)
            return false;
    }
    return true;
}

static bool worth_saying(const struct gs_judge *judge, uint16_t code)
{
    return code != GS_GPU_HUNG
           && gs_gpu_code_verdict(code, gs_judge_host(judge->context)) != GS_OK;
}

void gs_judge_gpu(struct gs_judge *judge, const struct gs_gpu *gpu)
{
    if (gpu->code != 0) {
        judge_handle(judge, gpu);
        return;
    }
    for (unsigned r = 0; r < GS_GPU_READINGS; r++) {
        const struct gs_gpu_value *value = &gpu->values[r];
        struct gs_hit hit = hit_of(GS_CHECK_SANE, gpu);

        if (worth_saying(judge, value->code) && first_with(gpu, r, value->code))
            judge_code(judge, gpu, value->code);
        if (value->code != 0 || gs_gpu_sane((enum gs_gpu_reading)r, value->value))
            continue;
        hit.most = GS_WARN;
        gs_gpu_value_text(gpu, (enum gs_gpu_reading)r, hit.value);
        snprintf(hit.limit,
                 sizeof(hit.limit),
                 "%s",
                 gs_gpu_reading_name((enum gs_gpu_reading)r));
        gs_hit_say(&hit, "{l} cannot be {v}, so it is not known");
        hit.limit[0] = '\0';
        gs_judge_add(judge, &hit);
    }
    if (worth_saying(judge, gpu->process_code)
        && first_with(gpu, GS_GPU_READINGS, gpu->process_code))
        judge_code(judge, gpu, gpu->process_code);
}
