/* probeline.c - GPU readings written as JSON; see probeline.h. probeparse.c reads them.
 */
#include <inttypes.h>
#include <stdio.h>

#include "json_private.h"
#include "probeline.h"
#include "probeline_private.h"

/* Codes that are not NVML's. */
static const struct {
    uint16_t code;
    const char *text;
} own[] = {
    {GS_GPU_NOT_ASKED, GS_CODE_TEXT_NOT_ASKED},
    {GS_GPU_HUNG, GS_CODE_TEXT_HUNG},
};

static void add_code_text(struct gs_strbuf *buf, uint16_t code)
{
    const char *name = gs_gpu_code_name(code);
    char number[32];

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (own[i].code == code)
            name = own[i].text;
    if (!*name) {
        snprintf(number, sizeof(number), GS_CODE_TEXT_OTHER "%u", code);
        name = number;
    }
    gs_json_string(buf, name);
}

static void add_code(struct gs_strbuf *buf, const char *key, uint16_t code)
{
    gs_json_key(buf, key);
    add_code_text(buf, code);
}

static void add_value(struct gs_strbuf *buf, const struct gs_gpu_value *value)
{
    if (value->code)
        add_code_text(buf, value->code);
    else
        gs_strbuf_add(buf, "%" PRIu64, value->value);
}

static void add_readings(struct gs_strbuf *buf, const struct gs_gpu *gpu)
{
    gs_json_key(buf, "readings");
    gs_strbuf_add(buf, "{");
    for (unsigned i = 0; i < GS_GPU_READINGS; i++) {
        const char *name = gs_gpu_reading_name((enum gs_gpu_reading)i);
        const struct gs_gpu_value *value = &gpu->values[i];
        if (value->code == GS_GPU_NOT_ASKED)
            continue;
        gs_json_key(buf, name);
        add_value(buf, value);
    }
    gs_strbuf_add(buf, "}");
}

static void add_peers(struct gs_strbuf *buf, const struct gs_gpus *gpus)
{
    gs_json_key(buf, gs_gpu_reading_name(GS_GPU_P2P_BROKEN));
    gs_strbuf_add(buf, "[");
    for (uint32_t i = 0; i < gpus->count && i < GS_GPU_MAX; i++) {
        gs_json_comma(buf);
        add_value(buf, &gpus->gpus[i].values[GS_GPU_P2P_BROKEN]);
    }
    gs_strbuf_add(buf, "]");
}

static void add_processes(struct gs_strbuf *buf, const struct gs_gpu *gpu)
{
    gs_json_key(buf, "processes");
    gs_strbuf_add(buf, "[");
    for (uint32_t i = 0; i < gpu->process_count && i < GS_GPU_PROCESSES; i++) {
        gs_json_comma(buf);
        gs_strbuf_add(buf, "{");
        gs_json_number(buf, "pid", gpu->processes[i].pid);
        if (gpu->processes[i].memory != UINT64_MAX)
            gs_json_number(buf, "memory", gpu->processes[i].memory);
        gs_strbuf_add(buf, "}");
    }
    gs_strbuf_add(buf, "]");
}

static void add_known(struct gs_strbuf *buf, const char *key, int64_t value)
{
    gs_json_key(buf, key);
    if (value < 0)
        gs_strbuf_add(buf, "null");
    else
        gs_strbuf_add(buf, "%" PRId64, value);
}

static void add_keys(struct gs_strbuf *buf,
                     const struct gs_probe_keys *keys,
                     const void *from)
{
    for (size_t i = 0; i < keys->count; i++) {
        const char *key = keys->row[i].key;
        const void *field = (const char *)from + keys->row[i].offset;
        switch (keys->row[i].kind) {
        case GS_PROBE_TEXT:
            gs_json_text(buf, key, field);
            break;
        case GS_PROBE_U32:
            gs_json_number(buf, key, *(const uint32_t *)field);
            break;
        case GS_PROBE_I64:
            add_known(buf, key, *(const int64_t *)field);
            break;
        case GS_PROBE_KNOWN:
            add_known(buf, key, *(const int32_t *)field);
            break;
        case GS_PROBE_CODE:
            add_code(buf, key, *(const uint16_t *)field);
            break;
        case GS_PROBE_FLAG:
            gs_json_flag(buf, key, *(const bool *)field);
            break;
        }
    }
}

void gs_gpu_write(struct gs_strbuf *buf, const struct gs_gpu *gpu, bool readings)
{
    add_keys(buf, &gs_probe_gpu_keys, gpu);
    if (!readings)
        return;
    add_readings(buf, gpu);
    add_processes(buf, gpu);
}

void gs_gpus_write(struct gs_strbuf *buf, const struct gs_gpus *gpus, bool complete)
{
    gs_json_flag(buf, "complete", complete);
    add_keys(buf, &gs_probe_node_keys, gpus);
    gs_json_number(buf, "count", gpus->count);
}

char *gs_gpu_line(const struct gs_gpu *gpu)
{
    struct gs_strbuf buf = {0};

    gs_strbuf_add(&buf, "{\"gpu\":{");
    gs_gpu_write(&buf, gpu, true);
    gs_strbuf_add(&buf, "}}");
    return gs_strbuf_take(&buf);
}

char *gs_gpus_line(const struct gs_gpus *gpus, bool complete)
{
    struct gs_strbuf buf = {0};

    gs_strbuf_add(&buf, "{\"node\":{");
    gs_gpus_write(&buf, gpus, complete);
    if (complete)
        add_peers(&buf, gpus);
    gs_strbuf_add(&buf, "}}");
    return gs_strbuf_take(&buf);
}
