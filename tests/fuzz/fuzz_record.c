/* fuzz_record.c - records of GPUs that lie in the spool or come in a frame.
 *
 * Whatever is taken has as many GPUs as fit, and one GPU compared with itself has not
 * changed; what is refused has a sentence and leaves nothing. */
#include "fuzz.h"
#include "gpudiff.h"
#include "health.h"

static void compare_with_itself(const struct gs_gpus *gpus)
{
    const struct gs_gpudiff_facts facts = {.boot_us = -1};
    struct gs_gpudiffs diffs = {0};

    MUST(gs_gpudiff_compare(gpus, gpus, &facts, &diffs) == 0);
    for (uint32_t i = 0; i < diffs.count; i++)
        /* Two that claim one address may be taken for each other. */
        MUST(gpus->count > 1 || diffs.diffs[i].kind != GS_GPUDIFF_CHANGE);
    gs_gpudiffs_free(&diffs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gs_gpus gpus;
    struct gs_error error = {""};
    char *text = fuzz_text(data, size);

    if (gs_health_read(text, &gpus, &error) == 0) {
        MUST(gpus.count <= GS_GPU_MAX);
        compare_with_itself(&gpus);
    } else {
        MUST(error.text[0] && gpus.count == 0);
    }
    free(text);
    return 0;
}
