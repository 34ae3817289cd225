/* gpudiff_private.h - a comparison in the making, for C only. */
#ifndef GS_GPUDIFF_PRIVATE_H
#define GS_GPUDIFF_PRIVATE_H

#include "gpudiff.h"
#include "gpurule_private.h"

struct gs_diffing {
    const struct gs_gpus *before, *after;
    const struct gs_gpudiff_facts *facts;
    struct gs_gpudiffs out;
    bool failed; /* no memory */
};

/* Adds a difference; hit is used for its gpu, pci and sentence. */
void gs_diff_add(struct gs_diffing *diffing,
                 const struct gs_gpudiff *diff,
                 const struct gs_hit *hit);

/* Every row of the table, and which readings cannot be compared. */
void gs_diff_readings(struct gs_diffing *diffing,
                      const struct gs_gpu *before,
                      const struct gs_gpu *after);

#endif
