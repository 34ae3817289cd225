/* gpudiff.h - what changed on a node's GPUs between two samples, as from before a job
 * to after it.
 *
 * Pure: the same samples and log give the same answer. GPUs are matched by UUID, else
 * by PCI address, never by index, which others renumber. What a GPU had before the job
 * is not judged, only what came; what cannot be compared is unknown, never unchanged.
 *
 * How to add a difference: a row in ROWS of gpudiff.c and one in tests/core/
 * test_gpudiff.py.
 */
#ifndef GS_GPUDIFF_H
#define GS_GPUDIFF_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"
#include "gpurule.h"
#include "verdict.h"
#include "xid.h"

enum gs_gpudiff_kind {
    GS_GPUDIFF_CHANGE,  /* a reading has another value */
    GS_GPUDIFF_RESTART, /* a counter went down: it began anew, so it is not judged */
    GS_GPUDIFF_UNREAD,  /* it was read before and cannot be now, or the other way round
                         */
    GS_GPUDIFF_GONE,    /* the GPU was there before */
    GS_GPUDIFF_NEW,     /* the GPU was not there before */
    GS_GPUDIFF_XID,     /* a fault in the kernel log, newer than the first sample */
    GS_GPUDIFF_KINDS    /* how many there are */
};

struct gs_gpudiff {
    const char *id; /* of its row: "ecc_unc", ...; "gone", "new", "unread", "xid",
                       "sxid", "driver"; static */
    enum gs_gpudiff_kind kind;
    enum gs_verdict verdict; /* ok: only told */
    char uuid[GS_GPU_TEXT];  /* "" = of the node, or not known */
    char pci[GS_GPU_TEXT];
    uint64_t before, after; /* values of the reading; an Xid's number is after */
    char reason[GS_FINDING_REASON]; /* one sentence that names the GPU */
};

struct gs_gpudiffs {
    enum gs_verdict verdict; /* the worst */
    uint32_t count, size;
    struct gs_gpudiff *diffs;
};

/* What the samples cannot tell. xids: the log read with the second sample, NULL = it
 * could not be; boot_us: wall clock at boot, -1 = not known. host: both samples were
 * taken as root outside of containers. */
struct gs_gpudiff_facts {
    const struct gs_xidlog *xids;
    int64_t boot_us;
    bool host;
};

/* 0 and *ret for gs_gpudiffs_free(), or -ENOMEM and untouched. */
int gs_gpudiff_compare(const struct gs_gpus *before,
                       const struct gs_gpus *after,
                       const struct gs_gpudiff_facts *facts,
                       struct gs_gpudiffs *ret);

/* NULL and zeroed ones are fine. */
void gs_gpudiffs_free(struct gs_gpudiffs *diffs);

/* The id of row n of the table of readings, NULL = there are no more. Static. */
const char *gs_gpudiff_id(uint32_t n);

/* "change", "restart", "unread", "gone", "new", "xid"; "" when out of range. */
const char *gs_gpudiff_kind_name(enum gs_gpudiff_kind kind);

#endif
