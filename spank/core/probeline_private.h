/* probeline_private.h - the keys that probeline.c writes and probeparse.c reads. To put
 * one more field of gpu.h on the line, add a row to probekeys.c. */
#ifndef GS_PROBELINE_PRIVATE_H
#define GS_PROBELINE_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu.h"
#include "jsonread_private.h"
#include "strbuf_private.h"

/* Texts of a code that is none of NVML's names; a number follows OTHER. */
#define GS_CODE_TEXT_NOT_ASKED "not asked"
#define GS_CODE_TEXT_HUNG "hung"
#define GS_CODE_TEXT_OTHER "NVML_ERROR_"

enum gs_probe_kind {
    GS_PROBE_TEXT,  /* char[GS_GPU_TEXT] */
    GS_PROBE_U32,   /* uint32_t */
    GS_PROBE_I64,   /* int64_t, not negative */
    GS_PROBE_KNOWN, /* int32_t, null when -1 */
    GS_PROBE_CODE,  /* uint16_t, by name */
    GS_PROBE_FLAG   /* bool */
};

/* A key and the field of a struct it is for. */
struct gs_probe_key {
    const char *key;
    enum gs_probe_kind kind;
    size_t offset;
};

struct gs_probe_keys {
    const struct gs_probe_key *row;
    size_t count;
};

extern const struct gs_probe_keys gs_probe_gpu_keys;  /* of struct gs_gpu */
extern const struct gs_probe_keys gs_probe_node_keys; /* of struct gs_gpus */

/* The members of a GPU's and of the node's object, without its braces. */
void gs_gpu_write(struct gs_strbuf *buf, const struct gs_gpu *gpu, bool readings);
void gs_gpus_write(struct gs_strbuf *buf, const struct gs_gpus *gpus, bool complete);

/* The objects read back: a GPU into the place behind the last one, without counting it,
 * and the node's part. enum gs_probe_line_kind, or -EPROTO or a bad reader. */
int gs_gpu_parse(struct gs_json_reader *reader, struct gs_gpus *gpus);
int gs_gpus_parse(struct gs_json_reader *reader, struct gs_gpus *gpus);

#endif
