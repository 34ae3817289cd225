/* gpucode.c - what NVML's return codes mean for a verdict, and which values can be.
 *
 * A code depends on who asks: in a container or as a user much is forbidden that is a
 * fault when root is refused it on the host. A code that is not in the table is
 * unknown.
 */
#include <stdio.h>
#include <string.h>

#include "gpurule_private.h"

/* SKIP reads as GS_OK: there is nothing to judge. */
#define SKIP GS_OK

static const struct {
    uint16_t code;
    enum gs_verdict host, guest;
} CODES[] = {
    {0, GS_OK, GS_OK},
    {1,
     GS_UNKNOWN,
     GS_UNKNOWN},    /* uninitialized: what every call says after init fails */
    {2, SKIP, SKIP}, /* invalid argument: also a link it has not got */
    {3, SKIP, SKIP}, /* not supported */
    {GS_NVML_NO_PERMISSION, GS_FAIL, SKIP},
    {5, SKIP, SKIP}, /* already initialized */
    {GS_NVML_NOT_FOUND, GS_UNKNOWN, GS_UNKNOWN},
    {7, GS_UNKNOWN, GS_UNKNOWN}, /* insufficient size: the list did not fit */
    {8, GS_FAIL, GS_FAIL},       /* insufficient power: a cable */
    {GS_NVML_DRIVER_NOT_LOADED, GS_FAIL, GS_UNKNOWN},
    {10, SKIP, SKIP},       /* timeout of a wait for events */
    {11, GS_FAIL, GS_FAIL}, /* irq issue */
    {GS_NVML_LIBRARY_NOT_FOUND, GS_FAIL, GS_UNKNOWN},
    {13, SKIP, SKIP},       /* function not found: an older driver */
    {14, GS_WARN, GS_WARN}, /* corrupted inforom */
    {GS_NVML_GPU_IS_LOST, GS_FAIL, GS_FAIL},
    {GS_NVML_RESET_REQUIRED, GS_FAIL, GS_FAIL},
    {17, GS_FAIL, SKIP}, /* blocked by the operating system */
    {GS_NVML_MISMATCH, GS_FAIL, GS_UNKNOWN},
    {19, GS_WARN, GS_WARN}, /* in use */
    {20, GS_WARN, GS_WARN}, /* memory */
    {21, GS_WARN, GS_WARN}, /* no data */
    {22, SKIP, SKIP},       /* vgpu ecc not supported */
    {23, GS_WARN, GS_WARN}, /* insufficient resources */
    {24, SKIP, SKIP},       /* frequency not supported */
    {25, SKIP, SKIP},       /* argument version mismatch: an older driver */
    {26, SKIP, SKIP},       /* deprecated: a newer driver */
    {27, GS_WARN, GS_WARN}, /* not ready */
    {GS_NVML_GPU_NOT_FOUND, GS_FAIL, GS_UNKNOWN},
    {29, GS_WARN, GS_WARN}, /* invalid state */
    {30, SKIP, SKIP},       /* reset type not supported */
    {GS_NVML_UNKNOWN, GS_FAIL, GS_UNKNOWN},
    {GS_GPU_NOT_ASKED, SKIP, SKIP},
    {GS_GPU_HUNG, GS_FAIL, GS_FAIL},
};

/* The most a reading can be. What is not here can be anything. */
static const struct {
    enum gs_gpu_reading reading;
    uint64_t most;
} SANE[] = {
    {GS_GPU_TEMPERATURE, 150},
    {GS_GPU_TEMPERATURE_SLOWDOWN, 150},
    {GS_GPU_TEMPERATURE_MEMORY, 150},
    {GS_GPU_TEMPERATURE_MEMORY_MAX, 150},
    {GS_GPU_UTILIZATION, 100},
    {GS_GPU_MEMORY_UTILIZATION, 100},
    {GS_GPU_CLOCK_SM, 10000},
    {GS_GPU_CLOCK_SM_MAX, 10000},
    {GS_GPU_POWER, 10000000},
    {GS_GPU_POWER_LIMIT, 10000000},
    {GS_GPU_POWER_DEFAULT, 10000000},
    {GS_GPU_PCIE_WIDTH, 32},
    {GS_GPU_PCIE_WIDTH_MAX, 32},
    {GS_GPU_PCIE_GEN, 10},
    {GS_GPU_PCIE_GEN_MAX, 10},
    {GS_GPU_MEMORY_TOTAL, 1ULL << 50},
    {GS_GPU_MEMORY_USED, 1ULL << 50},
    {GS_GPU_ECC_UNC_VOLATILE, INT64_MAX},
    {GS_GPU_ECC_COR_VOLATILE, INT64_MAX},
};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum gs_verdict gs_gpu_code_verdict(uint16_t code, bool host)
{
    for (size_t i = 0; i < COUNT(CODES); i++) {
        if (CODES[i].code == code)
            return host ? CODES[i].host : CODES[i].guest;
    }
    return GS_UNKNOWN;
}

bool gs_gpu_sane(enum gs_gpu_reading reading, uint64_t value)
{
    for (size_t i = 0; i < COUNT(SANE); i++) {
        if (SANE[i].reading == reading)
            return value <= SANE[i].most;
    }
    return true;
}

uint16_t gs_gpu_reading_code(const struct gs_gpu *gpu, enum gs_gpu_reading reading)
{
    const struct gs_gpu_value *value = &gpu->values[reading];

    if (value->code == 0 && !gs_gpu_sane(reading, value->value))
        return GS_GPU_NOT_ASKED;
    return value->code;
}

uint64_t gs_gpu_value_or(const struct gs_gpu *gpu,
                         enum gs_gpu_reading reading,
                         uint64_t fallback)
{
    return gs_gpu_reading_code(gpu, reading) == 0 ? gpu->values[reading].value
                                                  : fallback;
}

/* Units that are told otherwise in a sentence: divided, and under another name. */
static const struct {
    const char *unit, *says;
    unsigned long long by;
} SAID[] = {
    {"bytes", "MiB", GS_MIB},
    {"mW", "W", 1000},
    {"errors", "", 1}, /* the sentence says which */
};

void gs_gpu_value_text(const struct gs_gpu *gpu,
                       enum gs_gpu_reading reading,
                       char out[GS_FINDING_TEXT])
{
    gs_reading_text(reading, gpu->values[reading].value, out);
}

void gs_reading_text(enum gs_gpu_reading reading,
                     uint64_t value,
                     char out[GS_FINDING_TEXT])
{
    const char *unit = gs_gpu_reading_unit(reading);

    for (size_t i = 0; i < COUNT(SAID); i++) {
        if (strcmp(unit, SAID[i].unit) == 0) {
            value /= SAID[i].by;
            unit = SAID[i].says;
            break;
        }
    }
    snprintf(out,
             GS_FINDING_TEXT,
             "%llu%s%s",
             (unsigned long long)value,
             *unit ? " " : "",
             unit);
}

void gs_gpu_code_text(uint16_t code, char out[GS_FINDING_TEXT])
{
    const char *name = gs_gpu_code_name(code);

    if (code == GS_GPU_HUNG)
        name = "no answer in time";
    else if (code == GS_GPU_NOT_ASKED)
        name = "not read";
    if (*name)
        snprintf(out, GS_FINDING_TEXT, "%s", name);
    else
        snprintf(out, GS_FINDING_TEXT, "NVML code %u", code);
}
