/* nvml_links.c - NVLink: how many links there are, how many are up, how many errors
 * they had. Generations count errors in different places: the first that answers is
 * taken. And the links to the CPU (C2C) of GH200 and GB200. */
#include <string.h>

#include "nvml_private.h"

#define FIELD_LINK_COUNT 91
#define FIELD_C2C_COUNT 170
#define FIELD_C2C_STATUS 171 /* of the link in scope: 1 = up */
#define C2C_LINKS 16
#define FAMILY 7

/* Error counters by generation, per link (the field's scope). To add a generation, add
 * a row. 0 ends a row. */
static const uint32_t families[][FAMILY] = {
    /* replay, recovery, CRC */
    {161, 162, 163},
    /* malformed, overrun, received, remote, general, integrity, recovery */
    {206, 207, 208, 209, 210, 211, 215},
};

/* Kinds of nvmlDeviceGetNvLinkErrorCounter: replay, recovery, CRC of flits, of data. */
#define OLD_COUNTERS 4

/* Links by asking for one after the other, where the driver has no count. */
static void read_states(struct gs_nvml_gpu *gpu, uint32_t told, int told_code)
{
    typedef int (*state_fn)(void *, unsigned, unsigned *);
    state_fn get = (state_fn)gs_nvml_find(gpu->nvml, "nvmlDeviceGetNvLinkState");
    uint32_t limit = told_code ? GS_GPU_LINKS : told, count = 0, active = 0;
    int code = get ? 0 : GS_NVML_FUNCTION_NOT_FOUND;

    for (uint32_t link = 0; get && link < limit; link++) {
        unsigned up = 0;
        int own = get(gpu->handle, link, &up);
        if (own == GS_NVML_INVALID_ARGUMENT && told_code)
            break;
        /* Links that this board has not wired are no error while others answer. */
        if (own && own != GS_NVML_NOT_SUPPORTED) {
            code = own;
            break;
        }
        count += !own;
        active += !own && up == 1;
    }
    if (!code && !count && limit)
        code = GS_NVML_NOT_SUPPORTED;
    gs_nvml_set(gpu, GS_GPU_NVLINK_ACTIVE, code, active);
    if (told_code)
        gs_nvml_set(gpu, GS_GPU_NVLINK_COUNT, code ? code : 0, count);
    else
        gs_nvml_set(gpu, GS_GPU_NVLINK_COUNT, 0, told);
}

/* Sum over the links of one family; the code is 0 if any counter answered. */
static int sum_family(struct gs_nvml_gpu *gpu,
                      const uint32_t *ids,
                      uint32_t links,
                      uint64_t *ret_sum)
{
    struct gs_nvml_field values[FAMILY];
    int code = GS_NVML_NOT_SUPPORTED;
    uint32_t count = 0;

    while (count < FAMILY && ids[count])
        count++;
    for (uint32_t link = 0; link < links; link++) {
        memset(values, 0, sizeof(values));
        for (uint32_t i = 0; i < count; i++)
            values[i] = (struct gs_nvml_field){.id = ids[i], .scope = link};
        gs_nvml_fields(gpu, values, count);
        for (uint32_t i = 0; i < count; i++) {
            if (!values[i].code) {
                *ret_sum += gs_nvml_field_value(&values[i]);
                code = 0;
            } else if (code) {
                code = (int)values[i].code;
            }
        }
        /* What the first link has not, the others have not either. */
        if (code)
            return code;
    }
    return code;
}

static int sum_old(struct gs_nvml_gpu *gpu, uint32_t links, uint64_t *ret_sum)
{
    typedef int (*error_fn)(void *, unsigned, unsigned, unsigned long long *);
    error_fn get = (error_fn)gs_nvml_find(gpu->nvml, "nvmlDeviceGetNvLinkErrorCounter");
    int code = get ? GS_NVML_NOT_SUPPORTED : GS_NVML_FUNCTION_NOT_FOUND;

    for (uint32_t i = 0; get && i < links * OLD_COUNTERS; i++) {
        unsigned long long value = 0;
        int own = get(gpu->handle, i / OLD_COUNTERS, i % OLD_COUNTERS, &value);
        if (!own) {
            *ret_sum += value;
            code = 0;
        } else if (code) {
            code = own;
        }
    }
    return code;
}

static void read_c2c(struct gs_nvml_gpu *gpu)
{
    struct gs_nvml_field told = {.id = FIELD_C2C_COUNT}, links[C2C_LINKS];
    uint32_t count = 0, down = 0;
    int code;

    gs_nvml_fields(gpu, &told, 1);
    if (!told.code)
        count = gs_nvml_field_value(&told) < C2C_LINKS
                    ? (uint32_t)gs_nvml_field_value(&told)
                    : C2C_LINKS;
    memset(links, 0, sizeof(links));
    for (uint32_t i = 0; i < count; i++)
        links[i] = (struct gs_nvml_field){.id = FIELD_C2C_STATUS, .scope = i};
    /* None at all is what GPUs of an ordinary board say. */
    code = told.code ? (int)told.code : count ? 0 : GS_NVML_NOT_SUPPORTED;
    if (count)
        gs_nvml_fields(gpu, links, count);
    for (uint32_t i = 0; i < count && !code; i++) {
        code = (int)links[i].code;
        down += gs_nvml_field_value(&links[i]) != 1;
    }
    gs_nvml_set(gpu, GS_GPU_C2C_DOWN, code, down);
}

void gs_nvml_read_links(struct gs_nvml_gpu *gpu)
{
    struct gs_nvml_field told = {.id = FIELD_LINK_COUNT};
    const struct gs_gpu_value *count = &gpu->out->values[GS_GPU_NVLINK_COUNT];
    uint64_t links, sum = 0;
    int code = GS_NVML_NOT_SUPPORTED;

    read_c2c(gpu);
    gs_nvml_fields(gpu, &told, 1);
    links = gs_nvml_field_value(&told);
    if (links > GS_GPU_LINKS)
        links = GS_GPU_LINKS;
    read_states(gpu, (uint32_t)links, (int)told.code);
    if (count->code || !count->value) {
        gs_nvml_set(gpu, GS_GPU_NVLINK_ERRORS, count->code ? count->code : code, 0);
        return;
    }
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]) && code; i++) {
        sum = 0;
        code = sum_family(gpu, families[i], (uint32_t)count->value, &sum);
    }
    if (code) {
        sum = 0;
        code = sum_old(gpu, (uint32_t)count->value, &sum);
    }
    gs_nvml_set(gpu, GS_GPU_NVLINK_ERRORS, code, sum);
}
