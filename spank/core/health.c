/* health.c - see health.h: probe, then judge, then perhaps probe again. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock_private.h"
#include "error_private.h"
#include "gpusys_private.h"
#include "health.h"
#include "klog_private.h"

#define SECOND 1000000
#define SLICE_MS 100
#define SHORTEST_US 200000 /* a look that gets less is not begun */

static const char *const STAGES[GS_STAGES] = {"node", "start", "prolog", "epilog"};

const char *gs_stage_name(enum gs_stage stage)
{
    return (unsigned)stage < GS_STAGES ? STAGES[stage] : "";
}

/* Whether this node has GPUs of a vendor that the probe knows. A walk through /sys, so
 * that a node without GPUs starts no program. */
static bool has_gpus(const char *root)
{
    static const char *const vendors[] = {"0x10de", "0x1002"};
    struct gs_bus bus;

    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++) {
        gs_bus_read(root, vendors[i], &bus);
        if (bus.count > 0)
            return true;
    }
    return false;
}

/* Whether it should have some. */
static bool wants_gpus(const struct gs_health *health)
{
    return health->ask.expected > 0 || health->ask.policy->expected_gpus > 0
           || (health->ask.devices && health->ask.devices[0]);
}

static void finish(struct gs_health *health, int64_t now_us)
{
    health->done = true;
    health->done_us = now_us;
    health->again_us = -1;
}

/* There is no (further) sample. What an earlier one has shown still holds. */
static void not_known(struct gs_health *health, const char *why, int64_t now_us)
{
    snprintf(health->note, sizeof(health->note), "%s", why);
    if (!health->judged)
        health->verdict = GS_UNKNOWN;
    finish(health, now_us);
}

static void start_probe(struct gs_health *health, int64_t now_us)
{
    struct gs_probe_ask ask = health->ask.probe;
    int64_t left_us = health->begun_us + health->ask.total_us - now_us;
    struct gs_error error;

    health->again_us = -1;
    if (left_us < ask.whole_us)
        ask.whole_us = left_us;
    if (gs_probe_start(&health->probe, &ask, now_us, &error) < 0)
        not_known(health, error.text, now_us);
}

static void set_deadlines(struct gs_health *health)
{
    const struct gs_policy *policy = health->ask.policy;
    struct gs_probe_ask *probe = &health->ask.probe;

    if (!probe->whole_us)
        probe->whole_us = (int64_t)policy->probe_s * SECOND;
    if (!probe->init_us)
        probe->init_us = (int64_t)policy->probe_init_s * SECOND;
    if (!probe->gpu_us)
        probe->gpu_us = (int64_t)policy->probe_gpu_s * SECOND;
    if (!health->ask.total_us)
        health->ask.total_us = health->ask.patience_us + probe->whole_us;
}

struct gs_health *gs_health_start(const struct gs_health_ask *ask, int64_t now_us)
{
    struct gs_health *health = calloc(1, sizeof(*health));
    const char *root = ask->probe.root ? ask->probe.root : "";
    char vendor[GS_GPU_TEXT];
    bool here;

    if (!health)
        return NULL;
    health->ask = *ask;
    health->begun_us = now_us;
    health->again_us = health->boot_us = -1;
    health->probe.fd = -1;
    gs_gpus_init(&health->gpus);
    set_deadlines(health);
    here = has_gpus(root);
    if (!here && gs_bus_other(root, vendor)) {
        struct gs_error error;
        gs_error_set(&error,
                     0,
                     "GPUs of PCI vendor %s are not looked at: only NVIDIA's and AMD's",
                     vendor);
        not_known(health, error.text, now_us);
    } else if (!here && !wants_gpus(health)) {
        health->none = true;
        finish(health, now_us);
    } else if (!ask->probe.program) {
        not_known(health, "no probe is configured (probe=none)", now_us);
    } else if (access(ask->probe.program, X_OK) < 0) {
        struct gs_error error;
        gs_error_set(
            &error,
            0,
            "%s cannot be run: %s; install gangstart on this node, or name the "
            "program with probe=PATH",
            ask->probe.program,
            strerror(errno));
        not_known(health, error.text, now_us);
    } else {
        start_probe(health, now_us);
    }
    return health;
}

struct gs_health *gs_health_failed(enum gs_stage stage, const char *why, int64_t now_us)
{
    struct gs_health *health = calloc(1, sizeof(*health));

    if (!health)
        return NULL;
    health->ask.stage = stage;
    health->begun_us = now_us;
    health->probe.fd = -1;
    gs_gpus_init(&health->gpus);
    not_known(health, why, now_us);
    return health;
}

/* Once per sample. A site that reads no log has nothing to find there. */
static void read_log(struct gs_health *health)
{
    const char *path = health->ask.kernel_log ? health->ask.kernel_log
                                              : health->ask.policy->kernel_log;
    struct gs_error error;

    gs_xidlog_init(&health->xids);
    health->boot_us = gs_clock_boot_us();
    health->has_xids = !path[0] || gs_klog_collect(path, &health->xids, &error) == 0;
    if (!health->has_xids)
        snprintf(health->log_note, sizeof(health->log_note), "%s", error.text);
}

/* A device as Slurm names it is the N of /dev/nvidiaN; where that is not told, the
 * GPU's place. */
static const struct gs_gpu *find_device(const struct gs_gpus *gpus, const char *name)
{
    char *end;
    unsigned long number = strtoul(name, &end, 10);

    if (end == name || *end)
        return NULL;
    for (uint32_t i = 0; i < gpus->count; i++) {
        const struct gs_gpu_value *minor = &gpus->gpus[i].values[GS_GPU_MINOR];
        if (minor->code == 0 ? minor->value == number : gpus->gpus[i].index == number)
            return &gpus->gpus[i];
    }
    return NULL;
}

/* The job's GPUs by UUID. One that cannot be found keeps its name: the judgement then
 * says that it is missing. */
static uint32_t find_devices(const struct gs_health *health,
                             char names[GS_HEALTH_DEVICES][GS_GPU_TEXT],
                             const char *uuids[GS_HEALTH_DEVICES])
{
    const char *at = health->ask.devices;
    uint32_t count = 0;

    while (at && *at && count < GS_HEALTH_DEVICES) {
        size_t size = strcspn(at, ",");
        const struct gs_gpu *gpu;
        snprintf(names[count],
                 GS_GPU_TEXT,
                 "%.*s",
                 (int)(size < GS_GPU_TEXT ? size : GS_GPU_TEXT - 1),
                 at);
        gpu = find_device(&health->gpus, names[count]);
        uuids[count] = gpu && gpu->uuid[0] ? gpu->uuid : names[count];
        count += size > 0;
        at += size + (at[size] == ',');
    }
    return count;
}

/* The worst finding about each of the job's GPUs, counted. */
static void count_gpus(struct gs_health *health, const struct gs_gpucontext *context)
{
    const struct gs_gpus *gpus = &health->gpus;

    memset(health->counts, 0, sizeof(health->counts));
    for (uint32_t i = 0; i < gpus->count; i++) {
        bool ours = context->step_gpu_count == 0;
        for (uint32_t k = 0; k < context->step_gpu_count; k++)
            ours |= strcmp(context->step_gpus[k], gpus->gpus[i].uuid) == 0;
        if (ours)
            health->counts[gs_health_gpu(health, i)]++;
    }
}

/* Judges the sample; before: the verdict on the one before it, NULL = there was none.
 */
static int judge(struct gs_health *health, const struct gs_gpuverdict *before)
{
    char names[GS_HEALTH_DEVICES][GS_GPU_TEXT];
    const char *uuids[GS_HEALTH_DEVICES];
    struct gs_gpucontext context;
    struct gs_gpuverdict found;
    int rc;

    gs_gpucontext_init(&context, health->ask.policy);
    context.expected = health->ask.policy->expected_gpus >= 0
                           ? health->ask.policy->expected_gpus
                       : health->ask.expected > 0 ? health->ask.expected
                                                  : -1;
    context.root = geteuid() == 0;
    context.in_container = health->ask.in_container;
    context.idle = health->ask.idle;
    context.epilog = health->ask.stage == GS_STAGE_EPILOG;
    context.step_gpus = uuids;
    context.step_gpu_count = find_devices(health, names, uuids);
    context.xids = health->has_xids ? &health->xids : NULL;
    context.boot_us = health->boot_us;
    rc = gs_gpurule_judge(&health->gpus, &context, before, &found);
    if (rc < 0)
        return rc;
    gs_gpuverdict_free(&health->found);
    health->found = found;
    health->judged = true;
    count_gpus(health, &context);
    health->verdict = context.step_gpu_count ? found.step : found.node;
    return 0;
}

/* A further sample is judged beside the verdict on the one before it. */
static int judge_sample(struct gs_health *health)
{
    int rc;

    health->asked = true;
    health->looks++;
    read_log(health);
    gs_gpuverdict_free(&health->before);
    health->before = health->found;
    memset(&health->found, 0, sizeof(health->found));
    rc = judge(health, health->looks > 1 ? &health->before : NULL);
    if (rc < 0) {
        health->found = health->before;
        memset(&health->before, 0, sizeof(health->before));
    }
    return rc;
}

struct gs_health *gs_health_judge(const struct gs_health_ask *ask,
                                  const struct gs_gpus *gpus,
                                  int64_t now_us)
{
    struct gs_health *health = gs_health_failed(ask->stage, "", now_us);

    if (!health)
        return NULL;
    health->ask = *ask;
    health->gpus = *gpus;
    health->none = gpus->count == 0 && gpus->pci_count <= 0 && !gpus->driver_loaded;
    if (judge_sample(health) < 0)
        not_known(health, "out of memory", now_us);
    return health;
}

/* Another look only pays where the first one was bad and there is time for it. */
static bool look_again(const struct gs_health *health, int64_t now_us)
{
    int64_t wait_us = health->found.look_again_us - gs_clock_wall_us();

    if (health->found.look_again_us < 0 || health->verdict < GS_WARN)
        return false;
    now_us += wait_us > 0 ? wait_us : 0;
    return now_us <= health->begun_us + health->ask.patience_us
           && now_us <= health->begun_us + health->ask.total_us - SHORTEST_US;
}

static void on_sample(struct gs_health *health, int64_t now_us)
{
    int64_t wait_us;

    health->gpus = health->probe.gpus;
    if (judge_sample(health) < 0) {
        not_known(health, "out of memory", now_us);
        return;
    }
    if (health->note[0] || !look_again(health, now_us)) {
        finish(health, now_us);
        return;
    }
    wait_us = health->found.look_again_us - gs_clock_wall_us();
    health->again_us = now_us + (wait_us > 0 ? wait_us : 0);
}

bool gs_health_step(struct gs_health *health, int64_t now_us)
{
    struct gs_error error;
    int rc;

    if (health->done)
        return true;
    if (health->again_us >= 0) {
        if (now_us < health->again_us)
            return false;
        start_probe(health, now_us);
        return health->done;
    }
    rc = gs_probe_step(&health->probe, now_us, &error);
    if (rc == 0)
        return false;
    if (rc < 0)
        snprintf(health->note, sizeof(health->note), "%s", error.text);
    /* A driver that hangs is judged; a probe that failed has nothing to be judged. */
    if (rc == 1
        || ((rc == -ETIMEDOUT || rc == -EBUSY) && health->probe.gpus.hung_call[0]))
        on_sample(health, now_us);
    else
        not_known(health, error.text, now_us);
    return health->done;
}

void gs_health_devices(struct gs_health *health, const char *devices)
{
    health->ask.devices = devices;
    if (!health->done || !health->judged)
        return;
    if (judge(health, health->looks > 1 ? &health->before : NULL) < 0)
        not_known(health, "out of memory", health->done_us);
}

int gs_health_fd(const struct gs_health *health)
{
    return health->probe.active ? health->probe.fd : -1;
}

void gs_health_wait(struct gs_health *health)
{
    while (!gs_health_step(health, gs_clock_now_us())) {
        struct pollfd ready = {.fd = gs_health_fd(health), .events = POLLIN};
        poll(&ready, 1, SLICE_MS);
    }
}

void gs_health_destroy(struct gs_health *health)
{
    if (!health)
        return;
    gs_probe_stop(&health->probe);
    gs_gpuverdict_free(&health->before);
    gs_gpuverdict_free(&health->found);
    free(health);
}
