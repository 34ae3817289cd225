/* agent_health.c - the node's GPUs, looked at beside everything else the agent does.
 *
 * What was found is told once, when all tasks of the node have arrived: only then is it
 * known which GPUs are the step's, and without them nobody starts anyway. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent_private.h"
#include "clock_private.h"
#include "envplan.h"
#include "error_private.h"
#include "hostlist.h"
#include "visible.h"

#define SECOND 1000000
#define SAMPLE_NODES 512   /* in larger steps samples stay on their node */
#define RECORD_MAX 60000   /* of a frame's GS_BODY_MAX */
#define REQUIRE_US 3000000 /* health=require: a second look at what is bad */
#define NO_RECORD "{}"

/* The probe gives up in time for its answer to count before T is over. */
static int64_t whole_us(const struct gs_agent *agent, const struct gs_policy *policy)
{
    int64_t policy_us = (int64_t)policy->probe_s * SECOND;
    int64_t t_us = (int64_t)agent->conf.spec.timeout_s * (SECOND / 10) * 8;

    return policy_us < t_us ? policy_us : t_us;
}

static void start_look(struct gs_agent *agent, int64_t now_us)
{
    struct gs_agenthealth *health = &agent->health;
    struct gs_health_ask ask = {
        .stage = GS_STAGE_START,
        .policy = health->policy,
        .devices = health->devices[0] ? health->devices : NULL,
    };

    ask.probe.program = agent->conf.probe_path[0] ? agent->conf.probe_path : NULL;
    ask.probe.whole_us = ask.total_us = whole_us(agent, health->policy);
    if (agent->conf.spec.health == GS_HEALTH_REQUIRE)
        ask.patience_us = REQUIRE_US;
    gs_health_destroy(health->look);
    health->look = gs_health_start(&ask, now_us);
}

void gs_agent_health_begin(struct gs_agent *agent, int64_t now_us)
{
    struct gs_agenthealth *health = &agent->health;
    struct gs_error error;

    if (agent->conf.spec.health == GS_HEALTH_OFF)
        return;
    health->policy = calloc(1, sizeof(*health->policy));
    if (!health->policy)
        return;
    gs_policy_init(health->policy);
    if (agent->conf.policy_path[0]
        && gs_policy_load(health->policy,
                          agent->conf.policy_path,
                          agent->conf.policy_optional,
                          &error)
               < 0) {
        health->look = gs_health_failed(GS_STAGE_START, error.text, now_us);
        return;
    }
    start_look(agent, now_us);
}

int gs_agent_health_fd(const struct gs_agent *agent)
{
    return agent->health.look ? gs_health_fd(agent->health.look) : -1;
}

/* Adds what Slurm calls a task's GPUs to the step's, each once. */
static void add_devices(struct gs_agenthealth *health, const char *list)
{
    size_t used = strlen(health->devices);

    while (*list) {
        size_t size = strcspn(list, ",");
        char one[GS_GPU_TEXT + 2], all[sizeof(health->devices) + 2];
        snprintf(one, sizeof(one), ",%.*s,", (int)size, list);
        snprintf(all, sizeof(all), ",%s,", health->devices);
        if (strcmp(one, "," GS_NO_DEVICES ",") == 0)
            health->without = true;
        else if (size && size < GS_GPU_TEXT && !strstr(all, one)
                 && used + size + 2 < sizeof(health->devices))
            used += (size_t)snprintf(health->devices + used,
                                     sizeof(health->devices) - used,
                                     "%s%.*s",
                                     used ? "," : "",
                                     (int)size,
                                     list);
        list += size + (list[size] == ',');
    }
}

/* One slot's texts, copied out of the tasks' reach. */
struct taken {
    char granted[GS_SLOT_DEVICES], visible[GS_SLOT_DEVICES];
    uint64_t open;
    bool has_visible;
};

static struct taken take_slot(const struct gs_agent *agent, uint32_t local)
{
    const struct gs_slot *slot = &agent->conf.page->shared->slots[local];
    struct taken taken = {.open = atomic_load(&slot->open)};

    gs_copy_clean(taken.granted, slot->granted, sizeof(taken.granted));
    gs_copy_clean(taken.visible, slot->visible_devices, sizeof(taken.visible));
    taken.has_visible = atomic_load(&slot->visible) != GS_NO_RANK;
    return taken;
}

/* GPUs that a task may open, in CUDA's order (CUDA_DEVICE_ORDER=PCI_BUS_ID), then those
 * of them that CUDA_VISIBLE_DEVICES leaves. */
static uint32_t find_visible(const struct gs_gpus *gpus,
                             const struct taken *taken,
                             const char *ret_uuid[GS_GPU_MAX])
{
    const char *may[GS_GPU_MAX];
    uint32_t index[GS_VISIBLE_MAX], count = 0;
    int seen;

    for (uint32_t i = 0; i < gpus->count; i++) {
        const struct gs_gpu_value *minor = &gpus->gpus[i].values[GS_GPU_MINOR];
        bool open = !taken->open || minor->code || minor->value > 63
                    || taken->open >> minor->value & 1;
        if (open && gpus->gpus[i].uuid[0])
            may[count++] = gpus->gpus[i].uuid;
    }
    seen =
        gs_visible_index(taken->has_visible ? taken->visible : NULL, count, may, index);
    for (int i = 0; i < seen && i < GS_GPU_MAX; i++)
        ret_uuid[i] = may[index[i]];
    return seen > 0 ? (uint32_t)seen : 0;
}

/* Do two tasks of this node use one GPU? The answer as a sentence, "" = no. */
static void check_binding(const struct gs_agent *agent, char ret_text[GS_TEXT_SIZE])
{
    uint32_t slots = agent->conf.page->slot_count;
    const char *(*uuid)[GS_GPU_MAX] = calloc(slots, sizeof(*uuid));
    struct gs_taskgpus *tasks = calloc(slots, sizeof(*tasks));

    ret_text[0] = '\0';
    for (uint32_t i = 0; uuid && tasks && i < slots; i++) {
        struct taken taken = take_slot(agent, i);
        tasks[i].local_rank = i;
        tasks[i].uuid = uuid[i];
        tasks[i].count = find_visible(&agent->health.look->gpus, &taken, uuid[i]);
    }
    if (uuid && tasks)
        gs_gpubind_shared(tasks, slots, agent->ranks, ret_text, GS_TEXT_SIZE);
    free(uuid);
    free(tasks);
}

static void add_record(struct gs_buffer *body,
                       struct gs_healthmsg *msg,
                       const struct gs_agent *agent)
{
    bool small = agent->conf.hello.node_count <= SAMPLE_NODES;
    char *record = gs_health_record(agent->health.look,
                                    small ? GS_RECORD_SAMPLE : GS_RECORD_BRIEF);

    if (record && strlen(record) > RECORD_MAX && small) {
        gs_text_free(record);
        record = gs_health_record(agent->health.look, GS_RECORD_BRIEF);
    }
    if (record && strlen(record) > RECORD_MAX) {
        gs_text_free(record);
        record = NULL;
    }
    msg->record = (const uint8_t *)(record ? record : NO_RECORD);
    msg->record_size = (uint32_t)strlen((const char *)msg->record);
    gs_healthmsg_encode(body, msg);
    gs_text_free(record);
}

/* Slurm gives GPUs, and none to this step: they are not its business. */
static bool is_without(const struct gs_agent *agent)
{
    return agent->health.without && !agent->health.devices[0];
}

static int tell(struct gs_agent *agent)
{
    const struct gs_health *look = agent->health.look;
    struct gs_healthmsg msg = {
        .node_index = agent->conf.hello.node_index,
        .verdict = (uint8_t)(look ? look->verdict : GS_UNKNOWN),
        .none = look && look->none,
    };
    char *why = look && !is_without(agent) ? gs_health_why(look) : NULL;
    struct gs_buffer body = {0};
    int rc;

    if (is_without(agent)) {
        msg.verdict = GS_OK;
        msg.none = true;
    }
    snprintf(msg.why, sizeof(msg.why), "%s", why ? why : look ? "" : "out of memory");
    gs_text_free(why);
    if (look) {
        if (!is_without(agent))
            memcpy(msg.counts, look->counts, sizeof(msg.counts));
        msg.took_us = (uint32_t)(look->done_us - look->begun_us);
        msg.alike = gs_gpurule_alike(&look->gpus);
        check_binding(agent, msg.binding);
        msg.shared_gpu = msg.binding[0] != '\0';
        add_record(&body, &msg, agent);
    } else {
        msg.record = (const uint8_t *)NO_RECORD;
        msg.record_size = 2;
        gs_healthmsg_encode(&body, &msg);
    }
    rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_HEALTH, &body);
    gs_wire_free(&body);
    return rc;
}

/* The whole record stays on the node, for what comes after the job. */
static void keep(struct gs_agent *agent)
{
    struct gs_spoolfile file;
    char *record;

    if (!agent->conf.spool_dir[0] || !agent->health.look || agent->health.look->none)
        return;
    record = gs_health_record(agent->health.look, GS_RECORD_ALL);
    if (!record
        || gs_spoolfile_begin(&file, agent->conf.spool_dir, GS_SAMPLE_FILE, NULL))
        goto out;
    fchmod(file.fd, 0644);
    if (gs_spoolfile_write(&file, (const uint8_t *)record, strlen(record)) == 0)
        gs_spoolfile_commit(&file);
    else
        gs_spoolfile_cancel(&file);
out:
    gs_text_free(record);
}

/* The step's GPUs as its tasks know them; false: they do not. */
static bool find_devices(struct gs_agent *agent)
{
    for (uint32_t i = 0; i < agent->conf.page->slot_count; i++) {
        struct taken taken = take_slot(agent, i);
        add_devices(&agent->health, taken.granted);
    }
    return agent->health.devices[0];
}

static bool all_arrived(const struct gs_agent *agent)
{
    for (uint32_t i = 0; i < agent->conf.page->slot_count; i++)
        if (!agent->arrival_sent[i])
            return false;
    return true;
}

int gs_agent_health_step(struct gs_agent *agent, int64_t now_us)
{
    struct gs_agenthealth *health = &agent->health;

    if (agent->conf.spec.health == GS_HEALTH_OFF || health->sent)
        return 0;
    if (health->look && !gs_health_step(health->look, now_us))
        return 0;
    if (!agent->joined || agent->decided_us || !all_arrived(agent))
        return 0;
    if (!health->devices[0] && find_devices(agent) && health->look
        && health->look->none) {
        start_look(agent, now_us); /* Slurm gives GPUs that the bus does not have */
        return 0;
    }
    if (!health->kept) {
        health->kept = true;
        if (health->look && health->devices[0])
            gs_health_devices(health->look, health->devices);
        keep(agent);
    }
    health->sent = true;
    return tell(agent);
}

void gs_agent_health_end(struct gs_agent *agent)
{
    gs_health_destroy(agent->health.look);
    agent->health.look = NULL;
}
