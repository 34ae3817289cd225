/* gangodd.c - see gangodd.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gangodd.h"
#include "health.h"

/* Nodes with the same kind of GPUs; the first of them stands for all. */
struct kind {
    uint64_t alike;
    uint32_t count;
    const struct gs_node *node;
};

static uint32_t find_kinds(const struct gs_gang *gang, struct kind kinds[])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < gang->node_count; i++) {
        const struct gs_node *node = &gang->nodes[i];
        uint32_t k = 0;
        if (!node->health || !node->health->record || node->health->none)
            continue;
        while (k < count && kinds[k].alike != node->health->alike)
            k++;
        if (k == GS_GANGODD_KINDS)
            continue;
        if (k == count)
            kinds[count++] = (struct kind){node->health->alike, 0, node};
        kinds[k].count++;
    }
    return count;
}

static void name_kind(const struct kind *kind, char ret_name[GS_FINDING_TEXT])
{
    if (kind->count == 1)
        snprintf(ret_name, GS_FINDING_TEXT, "%.60s", kind->node->name);
    else
        snprintf(ret_name,
                 GS_FINDING_TEXT,
                 "%.60s and %u more node%s",
                 kind->node->name,
                 kind->count - 1,
                 kind->count == 2 ? "" : "s");
}

int gs_gangodd_compare(const struct gs_gang *gang,
                       const struct gs_policy *policy,
                       struct gs_gpuverdict *ret_found)
{
    struct kind kinds[GS_GANGODD_KINDS];
    char names[GS_GANGODD_KINDS][GS_FINDING_TEXT];
    struct gs_gpunode nodes[GS_GANGODD_KINDS];
    uint32_t count = find_kinds(gang, kinds), used = 0;
    struct gs_gpus *gpus = count > 1 ? calloc(count, sizeof(*gpus)) : NULL;
    int rc;

    memset(ret_found, 0, sizeof(*ret_found));
    ret_found->worst = -1;
    if (count < 2)
        return 0;
    if (!gpus)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        if (gs_health_read(kinds[i].node->health->record, &gpus[used], NULL) < 0)
            continue;
        name_kind(&kinds[i], names[used]);
        nodes[used] = (struct gs_gpunode){names[used], &gpus[used], kinds[i].count};
        used++;
    }
    rc = used > 1 ? gs_gpurule_odd(nodes, used, policy, ret_found) : 0;
    free(gpus);
    return rc;
}
