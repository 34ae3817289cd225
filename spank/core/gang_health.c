/* gang_health.c - what the nodes' GPUs mean for the decision; see gang.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gang_private.h"
#include "jsonread_private.h"
#include "verdict.h"

#define EXIT_UNFIT 69

enum gs_gang_health gs_gang_health_mode(const struct gs_spec *spec)
{
    if (spec->health == GS_HEALTH_OFF)
        return GS_GANG_HEALTH_OFF;
    if (spec->health == GS_HEALTH_RECORD)
        return GS_GANG_HEALTH_RECORD;
    return spec->require == GS_REQUIRE_STRICT ? GS_GANG_HEALTH_STRICT
                                              : GS_GANG_HEALTH_REQUIRE;
}

void gs_nodehealth_free(struct gs_nodehealth *health)
{
    if (!health)
        return;
    free(health->record);
    free(health);
}

/* The record as text; one that is no JSON is not kept. */
static char *keep_record(const struct gs_healthmsg *msg)
{
    char *record = malloc((size_t)msg->record_size + 1);
    struct gs_json_reader reader = {.at = record};

    if (!record)
        return NULL;
    memcpy(record, msg->record, msg->record_size);
    record[msg->record_size] = '\0';
    if (gs_json_skip(&reader) && gs_json_at_end(&reader))
        return record;
    free(record);
    return NULL;
}

int gs_gang_health(struct gs_gang *gang, const struct gs_healthmsg *msg, int64_t now_us)
{
    struct gs_nodehealth *health;
    struct gs_node *node;

    if (msg->node_index >= gang->node_count)
        return -EINVAL;
    node = &gang->nodes[msg->node_index];
    if (node->health)
        return 0;
    health = calloc(1, sizeof(*health));
    if (!health)
        return -ENOMEM;
    health->verdict = msg->verdict;
    health->none = msg->none;
    health->shared_gpu = msg->shared_gpu;
    memcpy(health->counts, msg->counts, sizeof(health->counts));
    health->took_us = msg->took_us;
    health->came_us = now_us;
    health->alike = msg->alike;
    snprintf(health->why, sizeof(health->why), "%s", msg->why);
    snprintf(health->binding, sizeof(health->binding), "%s", msg->binding);
    health->record = keep_record(msg);
    node->health = health;
    gang->health_count++;
    if (gang->unfit_us < 0 && gs_gang_unfit(gang, node))
        gang->unfit_us = now_us;
    return 0;
}

bool gs_gang_unfit(const struct gs_gang *gang, const struct gs_node *node)
{
    if (gang->health < GS_GANG_HEALTH_REQUIRE)
        return false;
    if (!node->health) /* at the end of T that is "not known" */
        return gang->health == GS_GANG_HEALTH_STRICT;
    return node->health->shared_gpu || node->health->verdict == GS_FAIL
           || (gang->health == GS_GANG_HEALTH_STRICT
               && node->health->verdict == GS_UNKNOWN);
}

/* A node that came late has T for its GPUs, too, where they decide about the start: it
 * must not escape by being late. */
static int64_t last_moment(const struct gs_gang *gang)
{
    int64_t last_us = gang->deadline_us;

    for (uint32_t i = 0; gang->health >= GS_GANG_HEALTH_REQUIRE && i < gang->node_count;
         i++) {
        const struct gs_node *node = &gang->nodes[i];
        if (!node->health && node->hello_us + gang->timeout_us > last_us)
            last_us = node->hello_us + gang->timeout_us;
    }
    return last_us;
}

bool gs_gang_health_tick(struct gs_gang *gang, bool ready, int64_t now_us)
{
    bool all = gang->health_count == gang->node_count, over;

    if (gang->health == GS_GANG_HEALTH_OFF)
        return true;
    if (ready && gang->ready_us < 0)
        gang->ready_us = now_us;
    over = gang->deadline_us >= 0 && now_us >= gang->deadline_us;
    if (over && ready && !all) {
        gang->health_until_us = last_moment(gang);
        over = now_us >= gang->health_until_us;
    }
    /* The others may be bad, too: all that answer at once are named together. */
    if (gang->unfit_us >= 0 && (all || over || now_us >= gang->unfit_us + GS_SETTLE_US))
        gs_gang_decide(gang, GS_REFUSED, GS_REFUSAL_HEALTH, EXIT_UNFIT, now_us);
    else if (ready && over && !all && gang->health == GS_GANG_HEALTH_STRICT)
        gs_gang_decide(gang, GS_REFUSED, GS_REFUSAL_HEALTH, EXIT_UNFIT, now_us);
    /* What is not known by then keeps nobody from starting. */
    return gang->unfit_us < 0 && (all || over);
}
