/* probeline.h - a node's GPU readings as lines of JSON, written and read back.
 *
 * This is what gangstart-probe prints: {"gpu":{...}} for each GPU, then {"node":{...}}.
 * In "readings" a number is a value and a text is why there is none; what was not asked
 * is left out. What is known of a GPU only when all have been read stands on the node's
 * line, as "p2p_broken":[...] in the order of the GPUs. A reader of such lines trusts
 * nothing in them.
 */
#ifndef GS_PROBELINE_H
#define GS_PROBELINE_H

#include "error.h"
#include "gpu.h"

/* Longest line, without its end. */
#define GS_PROBE_LINE 16384

/* A GPU, and the node without its GPUs, as one line without end. complete: all of its
 * GPUs have been read. Text to be freed with gs_text_free(), NULL = no memory. */
char *gs_gpu_line(const struct gs_gpu *gpu);
char *gs_gpus_line(const struct gs_gpus *gpus, bool complete);

/* What a line told. */
enum gs_probe_line_kind {
    GS_PROBE_LINE_GPU,      /* one more in gpus */
    GS_PROBE_LINE_NODE,     /* gpus has the node's part, GPUs are still to come */
    GS_PROBE_LINE_COMPLETE, /* gpus has the node's part, and all GPUs have been read */
    GS_PROBE_LINE_ASKING,   /* hung_call and hung_gpu name what is being asked */
    GS_PROBE_LINE_ERROR     /* error has the prober's own sentence */
};

/* Reads one line into gpus, which began as gs_gpus_init() left it. Returns its kind, or
 * -EPROTO with a sentence; gpus->count GPUs are whole even then, and the node's part
 * may be half set. Unknown keys are passed over. */
int gs_probe_line_read(const char *line, struct gs_gpus *gpus, struct gs_error *error);

#endif
