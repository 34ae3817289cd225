/* gpuodd.c - compare the GPUs of a job with each other and name those that differ.
 *
 * How to add a comparison: a row in TRAITS, with its check in gpucheck.c. What could
 * not be read takes no part: an unknown value is not a different one.
 */
#include <stdio.h>
#include <string.h>

#include "gpurule_private.h"

/* One GPU among those compared. */
struct item {
    const struct gs_gpunode *node;
    const struct gs_gpu *gpu;
};

typedef void (*trait_text)(struct item item, char out[GS_FINDING_TEXT]);

static void model(struct item item, char out[GS_FINDING_TEXT])
{
    snprintf(out, GS_FINDING_TEXT, "%s", item.gpu->name);
}

static void driver(struct item item, char out[GS_FINDING_TEXT])
{
    snprintf(out, GS_FINDING_TEXT, "%s", item.node->gpus->driver);
}

static void vbios(struct item item, char out[GS_FINDING_TEXT])
{
    snprintf(out, GS_FINDING_TEXT, "%s", item.gpu->vbios);
}

static void reading_text(struct item item,
                         enum gs_gpu_reading reading,
                         char out[GS_FINDING_TEXT])
{
    out[0] = '\0';
    if (gs_gpu_reading_code(item.gpu, reading) == 0)
        gs_gpu_value_text(item.gpu, reading, out);
}

static void memory(struct item item, char out[GS_FINDING_TEXT])
{
    reading_text(item, GS_GPU_MEMORY_TOTAL, out);
}

static void power_limit(struct item item, char out[GS_FINDING_TEXT])
{
    reading_text(item, GS_GPU_POWER_LIMIT, out);
}

static void pcie(struct item item, char out[GS_FINDING_TEXT])
{
    reading_text(item, GS_GPU_PCIE_WIDTH, out);
}

static void nvlink(struct item item, char out[GS_FINDING_TEXT])
{
    out[0] = '\0';
    /* MIG switches them off. */
    if (gs_gpu_value_or(item.gpu, GS_GPU_MIG_MODE, 0) == 0)
        reading_text(item, GS_GPU_NVLINK_ACTIVE, out);
}

static void fabric(struct item item, char out[GS_FINDING_TEXT])
{
    out[0] = '\0';
    if (item.gpu->fabric_cluster[0])
        snprintf(out,
                 GS_FINDING_TEXT,
                 "%.60s clique %u",
                 item.gpu->fabric_cluster,
                 item.gpu->fabric_clique);
}

static const struct {
    enum gs_check check;
    trait_text text;
    bool per_node;   /* the same for all GPUs of a node */
    bool same_model; /* different models may differ */
    const char *name;
} TRAITS[] = {
    {GS_CHECK_ODD_MODEL, model, false, false, "model"},
    {GS_CHECK_ODD_DRIVER, driver, true, false, "driver"},
    {GS_CHECK_ODD_VBIOS, vbios, false, true, "VBIOS"},
    {GS_CHECK_ODD_MEMORY, memory, false, true, "memory"},
    {GS_CHECK_ODD_POWER_LIMIT, power_limit, false, true, "power limit"},
    {GS_CHECK_ODD_PCIE, pcie, false, true, "PCIe width"},
    {GS_CHECK_ODD_NVLINK, nvlink, false, true, "NVLinks"},
    {GS_CHECK_ODD_FABRIC, fabric, false, true, "NVLink fabric"},
};

/* All GPUs of a job that answer, walked node by node. */
struct walk {
    const struct gs_judge *judge;
    const struct gs_gpunode *nodes;
    uint32_t count, node, gpu;
    bool per_node;
};

static bool next_item(struct walk *walk, struct item *ret_item)
{
    for (; walk->node < walk->count; walk->node++, walk->gpu = 0) {
        const struct gs_gpus *gpus = walk->nodes[walk->node].gpus;

        while (walk->gpu < gpus->count && walk->gpu < GS_GPU_MAX) {
            const struct gs_gpu *gpu = &gpus->gpus[walk->gpu++];

            if (gpu->code != 0 || !gs_judge_of_step(walk->judge->context, gpu))
                continue;
            *ret_item = (struct item){&walk->nodes[walk->node], gpu};
            if (walk->per_node)
                walk->gpu = GS_GPU_MAX;
            return true;
        }
    }
    return false;
}

struct tally {
    uint32_t all, same;
};

/* Of the GPUs that are compared with this one: how many are there, how many are alike.
 */
static struct tally count_like(struct walk walk, unsigned row, struct item item)
{
    char mine[GS_FINDING_TEXT], theirs[GS_FINDING_TEXT];
    struct tally tally = {0, 0};
    struct item other;
    uint32_t weight;

    TRAITS[row].text(item, mine);
    while (next_item(&walk, &other)) {
        TRAITS[row].text(other, theirs);
        if (!theirs[0]
            || (TRAITS[row].same_model && strcmp(item.gpu->name, other.gpu->name) != 0))
            continue;
        weight = other.node->count ? other.node->count : 1;
        tally.all += weight;
        tally.same += strcmp(mine, theirs) == 0 ? weight : 0;
    }
    return tally;
}

/* The value that most of them have and this one has not, if there is one. */
static bool find_majority(struct walk walk,
                          unsigned row,
                          struct item item,
                          struct gs_hit *hit,
                          struct tally *ret_tally)
{
    char mine[GS_FINDING_TEXT], theirs[GS_FINDING_TEXT];
    struct walk all = walk;
    struct item other;

    TRAITS[row].text(item, mine);
    while (next_item(&walk, &other)) {
        struct tally tally;

        TRAITS[row].text(other, theirs);
        if (!theirs[0] || strcmp(mine, theirs) == 0
            || (TRAITS[row].same_model && strcmp(item.gpu->name, other.gpu->name) != 0))
            continue;
        tally = count_like(all, row, other);
        if (tally.same * 2 <= tally.all)
            continue;
        memcpy(hit->value, mine, sizeof(mine));
        memcpy(hit->limit, theirs, sizeof(theirs));
        *ret_tally = tally;
        return true;
    }
    return false;
}

/* Adds what a row has found: another value than most, or that there is no majority. */
static void add_odd(struct gs_judge *judge,
                    unsigned row,
                    struct tally tally,
                    struct gs_hit *hit,
                    bool majority)
{
    char says[160];

    snprintf(says,
             sizeof(says),
             majority
                 ? "%s {v} while %u of %u %s have {l}"
                 : "the %s differs and no value has a majority: {v} on %u of %u %s",
             TRAITS[row].name,
             tally.same,
             tally.all,
             TRAITS[row].per_node ? "nodes" : "GPUs");
    gs_hit_say(hit, says);
    gs_judge_add(judge, hit);
}

/* No majority: says how the first value stands to all, once per model. */
static void judge_groups(struct gs_judge *judge,
                         struct walk walk,
                         unsigned row,
                         struct item item,
                         struct tally tally)
{
    struct gs_hit hit = {.check = TRAITS[row].check, .most = GS_FAIL};
    struct walk before = walk;
    struct item first;

    while (next_item(&before, &first)) {
        char text[GS_FINDING_TEXT];

        TRAITS[row].text(first, text);
        if (text[0]
            && (!TRAITS[row].same_model
                || strcmp(first.gpu->name, item.gpu->name) == 0))
            break;
    }
    if (first.gpu != item.gpu || first.node != item.node)
        return;
    TRAITS[row].text(item, hit.value);
    add_odd(judge, row, tally, &hit, false);
}

static void judge_item(struct gs_judge *judge,
                       struct walk walk,
                       unsigned row,
                       struct item item)
{
    struct gs_hit hit = {
        .check = TRAITS[row].check,
        .most = GS_FAIL,
        .gpu = item.gpu,
        .node = item.node->name,
    };
    struct tally tally = count_like(walk, row, item);

    if (tally.same == tally.all || tally.same * 2 > tally.all)
        return;
    if (!find_majority(walk, row, item, &hit, &tally)) {
        judge_groups(judge, walk, row, item, tally);
        return;
    }
    add_odd(judge, row, tally, &hit, true);
}

void gs_judge_odd(struct gs_judge *judge,
                  const struct gs_gpunode *nodes,
                  uint32_t count)
{
    for (unsigned row = 0; row < sizeof(TRAITS) / sizeof(TRAITS[0]); row++) {
        struct walk start = {judge, nodes, count, 0, 0, TRAITS[row].per_node};
        struct walk walk = start;
        char text[GS_FINDING_TEXT];
        struct item item;

        while (next_item(&walk, &item)) {
            TRAITS[row].text(item, text);
            if (text[0])
                judge_item(judge, start, row, item);
        }
    }
}

/* FNV-1a over all that is compared. */
uint64_t gs_gpurule_alike(const struct gs_gpus *gpus)
{
    struct gs_gpunode node = {NULL, gpus, 1};
    uint64_t hash = 14695981039346656037ULL;

    for (uint32_t i = 0; i < gpus->count && i < GS_GPU_MAX; i++) {
        for (unsigned row = 0; row < sizeof(TRAITS) / sizeof(TRAITS[0]); row++) {
            char text[GS_FINDING_TEXT];
            TRAITS[row].text((struct item){&node, &gpus->gpus[i]}, text);
            for (const char *c = text;; c++) {
                hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
                if (!*c)
                    break;
            }
        }
    }
    return hash;
}
