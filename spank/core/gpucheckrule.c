/* gpucheckrule.c - the rules of the table in gpucheck.c: one reading, one question.
 *
 * A rule is called only when all readings its row needs are there. It answers whether
 * the check hits; value and limit for the sentence are filled in unless it does so
 * itself.
 */
#include <stdio.h>
#include <string.h>

#include "gpurule_private.h"

static uint64_t value(const struct gs_look *look, unsigned n)
{
    return look->gpu->values[look->needs[n]].value;
}

bool gs_rule_set(struct gs_look *look)
{
    return value(look, 0) != 0;
}

bool gs_rule_clear(struct gs_look *look)
{
    return value(look, 0) == 0;
}

bool gs_rule_above(struct gs_look *look)
{
    return value(look, 0) > look->limit;
}

bool gs_rule_above_mib(struct gs_look *look)
{
    return value(look, 0) / GS_MIB > look->limit;
}

/* Much memory in use, and nobody there who uses it. */
bool gs_rule_held(struct gs_look *look)
{
    return look->gpu->process_code == 0 && look->gpu->process_count == 0
           && gs_rule_above_mib(look);
}

bool gs_rule_differ(struct gs_look *look)
{
    gs_gpu_value_text(look->gpu, look->needs[1], look->limit_text);
    return value(look, 0) != value(look, 1);
}

/* Less than limit percent of the second reading. */
bool gs_rule_below_percent(struct gs_look *look)
{
    gs_gpu_value_text(look->gpu, look->needs[1], look->limit_text);
    return value(look, 0) * 100 < value(look, 1) * look->limit;
}

/* Less than the site's baseline (limit), or without one than the second reading. */
bool gs_rule_below_best(struct gs_look *look)
{
    uint64_t best = look->limit > 0 ? look->limit : value(look, 1);

    snprintf(
        look->limit_text, sizeof(look->limit_text), "%llu", (unsigned long long)best);
    return value(look, 0) < best;
}

/* Above the second reading; 0 is what some GPUs say that have no sensor. */
bool gs_rule_above_reading(struct gs_look *look)
{
    gs_gpu_value_text(look->gpu, look->needs[1], look->limit_text);
    return value(look, 1) > 0 && value(look, 0) >= value(look, 1);
}

/* 0 is ignored: some GPUs say it when they are cool. */
bool gs_rule_margin(struct gs_look *look)
{
    return value(look, 0) > 0 && value(look, 0) <= look->limit;
}

static const char *const RECOVERY[] = {
    "none",
    "reset the GPU",
    "reboot the node",
    "drain peer-to-peer traffic",
    "drain and reset the GPU",
    "recover the IMEX domain",
    "reset the bus",
    "reboot the system",
};

bool gs_recovery_peer(uint64_t action)
{
    return action == 3 || action == 5;
}

void gs_recovery_text(uint64_t action, char out[GS_FINDING_TEXT])
{
    if (action < sizeof(RECOVERY) / sizeof(RECOVERY[0]))
        snprintf(out, GS_FINDING_TEXT, "%s", RECOVERY[action]);
    else
        snprintf(
            out, GS_FINDING_TEXT, "unknown action %llu", (unsigned long long)action);
}

bool gs_rule_recovery(struct gs_look *look)
{
    gs_recovery_text(value(look, 0), look->value);
    return value(look, 0) != 0 && !gs_recovery_peer(value(look, 0));
}

bool gs_rule_recovery_peer(struct gs_look *look)
{
    gs_recovery_text(value(look, 0), look->value);
    return gs_recovery_peer(value(look, 0));
}

/* Workstation and consumer models have it off by default. */
bool gs_rule_ecc_off(struct gs_look *look)
{
    static const char *const OTHERS[] = {"RTX", "GeForce", "Quadro", "TITAN"};

    for (size_t i = 0; i < sizeof(OTHERS) / sizeof(OTHERS[0]); i++) {
        if (strstr(look->gpu->name, OTHERS[i]))
            return false;
    }
    return value(look, 0) == 0;
}

/* Far more corrected errors than any other GPU of the node. */
bool gs_rule_ecc_odd(struct gs_look *look)
{
    const uint64_t times = 100;
    uint64_t most = 0;
    bool others = false;

    for (uint32_t i = 0; i < look->gpus->count && i < GS_GPU_MAX; i++) {
        const struct gs_gpu *gpu = &look->gpus->gpus[i];

        if (gpu == look->gpu || gpu->code != 0
            || gs_gpu_reading_code(gpu, look->needs[0]) != 0)
            continue;
        others = true;
        if (gpu->values[look->needs[0]].value > most)
            most = gpu->values[look->needs[0]].value;
    }
    snprintf(
        look->limit_text, sizeof(look->limit_text), "%llu", (unsigned long long)most);
    return others && value(look, 0) > look->limit && value(look, 0) / times > most;
}

/* Pages retired for either reason. */
bool gs_rule_retired(struct gs_look *look)
{
    uint64_t pages = value(look, 0) + value(look, 1);

    snprintf(look->value, sizeof(look->value), "%llu", (unsigned long long)pages);
    return pages > look->limit;
}

/* Names of the bits of NVML's clocks event reasons that slow a GPU down. */
static const struct {
    uint64_t bit;
    const char *name;
} CLOCKS[] = {
    {0x8, "hardware slowdown"},
    {0x20, "software thermal slowdown"},
    {0x40, "hardware thermal slowdown"},
    {0x80, "hardware power brake"},
};
#define CLOCK_HW (0x8 | 0x40 | 0x80)
#define CLOCK_SW 0x20
#define CLOCK_SET 0x2

static bool clock_reason(struct gs_look *look, uint64_t bits)
{
    size_t used = 0;

    bits &= value(look, 0);
    for (size_t i = 0; i < sizeof(CLOCKS) / sizeof(CLOCKS[0]); i++) {
        if (bits & CLOCKS[i].bit)
            used += (size_t)snprintf(look->value + used,
                                     sizeof(look->value) - used,
                                     "%s%s",
                                     used > 0 ? ", " : "",
                                     CLOCKS[i].name);
    }
    return bits != 0;
}

bool gs_rule_clock_hw(struct gs_look *look)
{
    return clock_reason(look, CLOCK_HW);
}

bool gs_rule_clock_sw(struct gs_look *look)
{
    return clock_reason(look, CLOCK_SW);
}

/* Somebody has set clocks, and they are low. */
bool gs_rule_clock_locked(struct gs_look *look)
{
    gs_gpu_value_text(look->gpu, look->needs[1], look->value);
    gs_gpu_value_text(look->gpu, look->needs[2], look->limit_text);
    return value(look, 0) & CLOCK_SET
           && value(look, 1) * 100 < value(look, 2) * look->limit;
}

/* Links that models come with; the longest name that fits decides. */
static const struct {
    const char *model;
    uint64_t links;
} NVLINKS[] = {
    {"NVIDIA A100-SXM", 12},
    {"NVIDIA A800-SXM", 8},
    {"NVIDIA H100 80GB HBM3", 18},
    {"NVIDIA H100 NVL", 12},
    {"NVIDIA H200", 18},
    {"NVIDIA H200 NVL", 0}, /* as many as the bridge has */
    {"NVIDIA B200", 18},
    {"NVIDIA B300", 18},
    {"NVIDIA GB200", 18},
    {"NVIDIA GB300", 18},
};

/* What most GPUs of this model here have up, 0 = there is no majority of three. */
static uint64_t peers_links(const struct gs_look *look)
{
    uint32_t peers = 0, same[GS_GPU_LINKS + 1] = {0};

    for (uint32_t i = 0; i < look->gpus->count && i < GS_GPU_MAX; i++) {
        const struct gs_gpu *gpu = &look->gpus->gpus[i];
        uint64_t links = gs_gpu_value_or(gpu, look->needs[0], GS_GPU_LINKS + 1);

        if (gpu->code != 0 || links > GS_GPU_LINKS
            || strcmp(gpu->name, look->gpu->name) != 0)
            continue;
        peers++;
        same[links]++;
    }
    for (unsigned i = 0; i <= GS_GPU_LINKS; i++) {
        if (peers >= 3 && same[i] * 2 > peers)
            return i;
    }
    return 0;
}

/* Fewer links than the site says, the model has, or its peers have. Without any of
 * these a GPU that has some links up and some not is as its board was made. */
bool gs_rule_nvlink(struct gs_look *look)
{
    uint64_t expected = look->limit;
    size_t best = 0;

    for (size_t i = 0; look->limit == 0 && i < sizeof(NVLINKS) / sizeof(NVLINKS[0]);
         i++) {
        size_t len = strlen(NVLINKS[i].model);

        if (len > best && strncmp(look->gpu->name, NVLINKS[i].model, len) == 0) {
            best = len;
            expected = NVLINKS[i].links;
        }
    }
    if (expected == 0)
        expected = peers_links(look);
    snprintf(look->limit_text,
             sizeof(look->limit_text),
             "%llu",
             (unsigned long long)expected);
    return value(look, 0) < expected;
}

#define FABRIC_DONE 3

bool gs_rule_fabric(struct gs_look *look)
{
    static const char *const STATES[] = {"not supported", "not started", "in progress"};
    uint64_t state = value(look, 0);
    uint64_t status = gs_gpu_value_or(look->gpu, GS_GPU_FABRIC_STATUS, 0);

    if (state == FABRIC_DONE && status != 0) {
        gs_gpu_code_text((uint16_t)status, look->value);
        return true;
    }
    if (state == 0 || state == FABRIC_DONE)
        return false;
    if (state < FABRIC_DONE)
        snprintf(look->value, sizeof(look->value), "%s", STATES[state]);
    return true;
}

/* Groups of bits in the health mask: 1 is true, 2 is false, 0 is not told; those of the
 * configuration: 1 is right, from 2 on it is wrong. */
static uint64_t bits_of(uint64_t mask, unsigned shift, unsigned width)
{
    return mask >> shift & ((1U << width) - 1);
}

bool gs_rule_fabric_bad(struct gs_look *look)
{
    uint64_t mask = value(look, 0);
    bool route = bits_of(mask, 4, 2) == 1, wrong = bits_of(mask, 8, 4) >= 2;

    snprintf(look->value,
             sizeof(look->value),
             "%s",
             route ? "its route is unhealthy" : "its configuration is wrong");
    return route || wrong;
}

bool gs_rule_fabric_slow(struct gs_look *look)
{
    static const struct {
        unsigned shift;
        const char *says;
    } GROUPS[] = {
        {0, "its bandwidth is degraded"},
        {2, "its route is being recovered"},
        {6, "an access timed out"},
    };

    for (size_t i = 0; i < sizeof(GROUPS) / sizeof(GROUPS[0]); i++) {
        if (bits_of(value(look, 0), GROUPS[i].shift, 2) == 1) {
            snprintf(look->value, sizeof(look->value), "%s", GROUPS[i].says);
            return true;
        }
    }
    return false;
}

static bool is_foreign(const struct gs_gpucontext *context, uint32_t pid)
{
    for (uint32_t i = 0; i < context->foreign_count; i++) {
        if (context->foreign[i] == pid)
            return true;
    }
    return false;
}

/* Only processes that somebody has seen alive: the driver lists dead ones too. */
bool gs_rule_process(struct gs_look *look)
{
    const struct gs_gpu *gpu = look->gpu;
    size_t used = 0;

    if (gpu->process_code != 0)
        return false;
    for (uint32_t i = 0; i < gpu->process_count && i < GS_GPU_PROCESSES; i++) {
        if (!is_foreign(look->context, gpu->processes[i].pid)
            || used + 12 > sizeof(look->value))
            continue;
        used += (size_t)snprintf(look->value + used,
                                 sizeof(look->value) - used,
                                 "%s%u",
                                 used > 0 ? " " : "",
                                 gpu->processes[i].pid);
    }
    return used > 0;
}

/* Busy without anybody: what remains of a kernel whose process was killed. */
bool gs_rule_ghost(struct gs_look *look)
{
    const uint64_t nothing = 64 * GS_MIB;

    return look->gpu->process_code == 0 && look->gpu->process_count == 0
           && value(look, 1) < nothing && value(look, 0) >= look->limit;
}

bool gs_rule_prohibited(struct gs_look *look)
{
    return value(look, 0) == 2;
}

bool gs_rule_exclusive(struct gs_look *look)
{
    return value(look, 0) == 1 || value(look, 0) == 3;
}
