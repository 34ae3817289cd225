/* fuzz_probeline.c - lines that gangstart-probe, or what stands in its place, prints.
 *
 * What was taken is within bounds, can be shown, and is read again from what is written
 * of it; a line that was refused leaves the GPUs before it whole. */
#include "fuzz.h"
#include "hostlist.h"
#include "probeline.h"

static void shown(const char *text)
{
    MUST(memchr(text, '\0', GS_GPU_TEXT));
    for (; *text; text++)
        MUST((unsigned char)*text >= 0x20 && (unsigned char)*text < 0x7f);
}

static void bounded(const struct gs_gpu *gpu)
{
    shown(gpu->uuid);
    shown(gpu->pci);
    shown(gpu->name);
    shown(gpu->vbios);
    shown(gpu->serial);
    shown(gpu->fabric_cluster);
    MUST(gpu->process_count <= GS_GPU_PROCESSES && gpu->code <= GS_GPU_HUNG);
    for (unsigned i = 0; i < GS_GPU_READINGS; i++)
        MUST(gpu->values[i].code == 0
             || (gpu->values[i].code <= GS_GPU_HUNG && gpu->values[i].value == 0));
}

/* Written, read, written: the same line. */
static void again(const struct gs_gpus *gpus, int kind)
{
    static struct gs_gpus other;
    bool of_gpu = kind == GS_PROBE_LINE_GPU, complete = kind == GS_PROBE_LINE_COMPLETE;
    uint32_t last = gpus->count - of_gpu;
    struct gs_error error = {""};
    char *once, *twice;

    once = of_gpu ? gs_gpu_line(&gpus->gpus[last]) : gs_gpus_line(gpus, complete);
    MUST(once && strlen(once) < GS_PROBE_LINE);
    gs_gpus_init(&other);
    other.count = last;
    MUST(gs_probe_line_read(once, &other, &error) == kind);
    twice = of_gpu ? gs_gpu_line(&other.gpus[last]) : gs_gpus_line(&other, complete);
    MUST(twice && strcmp(once, twice) == 0);
    gs_text_free(once);
    gs_text_free(twice);
}

static void refused(const struct gs_error *error)
{
    MUST(error->text[0]);
    for (const char *c = error->text; *c; c++)
        MUST((unsigned char)*c >= 0x20 && *c != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gs_gpus gpus;
    struct gs_error error = {""};
    char *text = fuzz_text(data, size), *line = text, *end;

    gs_gpus_init(&gpus);
    for (; line; line = end) {
        uint32_t count = gpus.count;
        int kind;

        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        kind = gs_probe_line_read(line, &gpus, &error);
        MUST(gpus.count == count + (kind == GS_PROBE_LINE_GPU));
        MUST(gpus.count <= GS_GPU_MAX);
        if (kind < 0 || kind == GS_PROBE_LINE_ERROR) {
            refused(&error);
            break;
        }
        if (kind == GS_PROBE_LINE_GPU)
            bounded(&gpus.gpus[count]);
        shown(gpus.hung_call);
        shown(gpus.hung_gpu);
        shown(gpus.driver);
        if (kind != GS_PROBE_LINE_ASKING)
            again(&gpus, kind);
    }
    for (uint32_t i = 0; i < gpus.count; i++)
        bounded(&gpus.gpus[i]);
    free(text);
    return 0;
}
