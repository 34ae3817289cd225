/* probeparse.c - lines of GPU readings read back; see probeline.h. The line may come
 * from a broken or foreign program: every length, number and count is checked. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "error_private.h"
#include "jsonread_private.h"
#include "number_private.h"
#include "probeline.h"
#include "probeline_private.h"

#define KEY 48

static bool get_code(struct gs_json_reader *reader, uint16_t *ret_code)
{
    char text[GS_GPU_TEXT];
    const size_t start = strlen(GS_CODE_TEXT_OTHER);
    uint64_t number;
    int code;

    if (!gs_json_get_text(reader, text, sizeof(text)))
        return false;
    code = gs_gpu_code_of(text);
    if (strcmp(text, GS_CODE_TEXT_NOT_ASKED) == 0)
        code = GS_GPU_NOT_ASKED;
    if (strcmp(text, GS_CODE_TEXT_HUNG) == 0)
        code = GS_GPU_HUNG;
    if (code < 0 && strncmp(text, GS_CODE_TEXT_OTHER, start) == 0
        && gs_number_read(text + start, strlen(text + start), 999, &number))
        code = (int)number;
    if (code < 0)
        reader->bad = true;
    else
        *ret_code = (uint16_t)code;
    return code >= 0;
}

/* Texts end up in reports and on terminals. */
static void clean(char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7e)
            *text = '?';
}

static void get_field(struct gs_json_reader *reader,
                      enum gs_probe_kind kind,
                      void *field)
{
    static const uint64_t most[] = {
        [GS_PROBE_U32] = UINT32_MAX,
        [GS_PROBE_I64] = INT64_MAX,
        [GS_PROBE_KNOWN] = INT32_MAX,
    };
    uint64_t number = 0;
    bool null = kind == GS_PROBE_KNOWN && gs_json_kind(reader) == 'n';

    if (null) {
        *(int32_t *)field = -1;
        gs_json_skip(reader);
    } else if (kind == GS_PROBE_TEXT) {
        if (gs_json_get_text(reader, field, GS_GPU_TEXT))
            clean(field);
        else
            *(char *)field = '\0';
    } else if (kind == GS_PROBE_CODE) {
        get_code(reader, field);
    } else if (kind == GS_PROBE_FLAG) {
        gs_json_get_flag(reader, field);
    } else if (gs_json_get_number(reader, most[kind], &number)) {
        if (kind == GS_PROBE_I64)
            *(int64_t *)field = (int64_t)number;
        else
            *(uint32_t *)field = (uint32_t)number;
    }
}

/* Whether key is one of the table's; its value is then read into the struct. */
static bool get_key(struct gs_json_reader *reader,
                    const char *key,
                    const struct gs_probe_keys *keys,
                    void *into)
{
    for (size_t i = 0; i < keys->count; i++) {
        const struct gs_probe_key *row = &keys->row[i];
        if (strcmp(row->key, key) != 0)
            continue;
        get_field(reader, row->kind, (char *)into + row->offset);
        return true;
    }
    return false;
}

static void get_value(struct gs_json_reader *reader, struct gs_gpu_value *value)
{
    value->code = 0;
    value->value = 0;
    if (gs_json_kind(reader) == '"')
        get_code(reader, &value->code);
    else
        gs_json_get_number(reader, UINT64_MAX, &value->value);
}

static void get_reading(struct gs_json_reader *reader,
                        const char *key,
                        struct gs_gpu *gpu)
{
    for (unsigned i = 0; i < GS_GPU_READINGS; i++) {
        if (strcmp(gs_gpu_reading_name((enum gs_gpu_reading)i), key) != 0)
            continue;
        get_value(reader, &gpu->values[i]);
        return;
    }
    gs_json_skip(reader);
}

/* A list that is longer than there were GPUs is not of this node. */
static void get_peers(struct gs_json_reader *reader, struct gs_gpus *gpus)
{
    uint32_t i = 0;

    gs_json_enter(reader, '[');
    while (gs_json_next(reader)) {
        if (i >= gpus->count) {
            reader->bad = true;
            return;
        }
        get_value(reader, &gpus->gpus[i++].values[GS_GPU_P2P_BROKEN]);
    }
}

static void get_process(struct gs_json_reader *reader, struct gs_gpu *gpu)
{
    struct gs_gpu_process process = {.memory = UINT64_MAX};
    uint64_t pid = 0;
    char key[KEY];

    gs_json_enter(reader, '{');
    while (gs_json_next_key(reader, key, sizeof(key))) {
        if (strcmp(key, "pid") == 0)
            gs_json_get_number(reader, UINT32_MAX, &pid);
        else if (strcmp(key, "memory") == 0 && gs_json_kind(reader) == '0')
            gs_json_get_number(reader, UINT64_MAX, &process.memory);
        else
            gs_json_skip(reader);
    }
    process.pid = (uint32_t)pid;
    if (gpu->process_count < GS_GPU_PROCESSES)
        gpu->processes[gpu->process_count++] = process;
}

static void get_gpu(struct gs_json_reader *reader, struct gs_gpu *gpu)
{
    char key[KEY];

    gs_json_enter(reader, '{');
    while (gs_json_next_key(reader, key, sizeof(key))) {
        if (get_key(reader, key, &gs_probe_gpu_keys, gpu))
            continue;
        if (strcmp(key, "readings") == 0) {
            gs_json_enter(reader, '{');
            while (gs_json_next_key(reader, key, sizeof(key)))
                get_reading(reader, key, gpu);
        } else if (strcmp(key, "processes") == 0) {
            gs_json_enter(reader, '[');
            while (gs_json_next(reader))
                get_process(reader, gpu);
        } else {
            gs_json_skip(reader);
        }
    }
}

int gs_gpu_parse(struct gs_json_reader *reader, struct gs_gpus *gpus)
{
    if (gpus->count >= GS_GPU_MAX) {
        reader->bad = true;
        return -EPROTO;
    }
    get_gpu(reader, &gpus->gpus[gpus->count]);
    return GS_PROBE_LINE_GPU;
}

int gs_gpus_parse(struct gs_json_reader *reader, struct gs_gpus *gpus)
{
    bool complete = false;
    char key[KEY];

    gs_json_enter(reader, '{');
    while (gs_json_next_key(reader, key, sizeof(key)))
        if (strcmp(key, "complete") == 0)
            gs_json_get_flag(reader, &complete);
        else if (strcmp(key, gs_gpu_reading_name(GS_GPU_P2P_BROKEN)) == 0)
            get_peers(reader, gpus);
        else if (!get_key(reader, key, &gs_probe_node_keys, gpus))
            gs_json_skip(reader);
    return complete ? GS_PROBE_LINE_COMPLETE : GS_PROBE_LINE_NODE;
}

static int read_asking(struct gs_json_reader *reader, struct gs_gpus *gpus)
{
    char key[KEY];

    get_field(reader, GS_PROBE_TEXT, gpus->hung_call);
    while (gs_json_next_key(reader, key, sizeof(key)))
        if (strcmp(key, "gpu") == 0)
            get_field(reader, GS_PROBE_TEXT, gpus->hung_gpu);
        else
            gs_json_skip(reader);
    return GS_PROBE_LINE_ASKING;
}

int gs_probe_line_read(const char *line, struct gs_gpus *gpus, struct gs_error *error)
{
    static const struct {
        const char *key;
        int (*read)(struct gs_json_reader *, struct gs_gpus *);
    } kinds[] = {
        {"gpu", gs_gpu_parse}, {"node", gs_gpus_parse}, {"asking", read_asking}};
    struct gs_json_reader reader = {.at = line};
    char key[KEY], said[GS_ERROR_SIZE], begin[61];
    int kind = -EPROTO;

    gs_json_enter(&reader, '{');
    if (gs_json_next_key(&reader, key, sizeof(key))) {
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
            if (strcmp(kinds[i].key, key) == 0)
                kind = kinds[i].read(&reader, gpus);
        if (strcmp(key, "error") == 0
            && gs_json_get_text(&reader, said, sizeof(said))) {
            clean(said);
            gs_error_set(error,
                         EPROTO,
                         "%s",
                         said[0] ? said : "gangstart-probe: ended without a reason");
            kind = GS_PROBE_LINE_ERROR;
        }
    }
    /* read_asking() has closed the object already. */
    if (kind != GS_PROBE_LINE_ASKING)
        while (gs_json_next_key(&reader, key, sizeof(key)))
            gs_json_skip(&reader);
    if (kind >= 0 && gs_json_at_end(&reader)) {
        gpus->count += kind == GS_PROBE_LINE_GPU;
        return kind;
    }
    snprintf(begin, sizeof(begin), "%s", line);
    clean(begin);
    return gs_error_set(error,
                        EPROTO,
                        "gangstart-probe: not a line of it, or one cut short: "
                        "'%s'; is the program named by probe= ours?",
                        begin);
}
