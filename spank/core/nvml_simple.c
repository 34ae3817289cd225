/* nvml_simple.c - NVML's plain getters and field values: one row per reading. To read
 * one more, add a row. */
#include <stdint.h>
#include <string.h>

#include "nvml_private.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

void gs_nvml_set(struct gs_nvml_gpu *gpu,
                 enum gs_gpu_reading reading,
                 int code,
                 uint64_t value)
{
    struct gs_gpu_value *to;

    if (reading >= GS_GPU_READINGS)
        return;
    to = &gpu->out->values[reading];
    to->code = gs_nvml_code(code);
    to->value = to->code ? 0 : value;
}

/* get(handle, unsigned *) */
static const struct {
    enum gs_gpu_reading reading;
    const char *name;
} uints[] = {
    {GS_GPU_RETIRED_PENDING, "nvmlDeviceGetRetiredPagesPendingStatus"},
    {GS_GPU_POWER, "nvmlDeviceGetPowerUsage"},
    {GS_GPU_POWER_LIMIT, "nvmlDeviceGetEnforcedPowerLimit"},
    {GS_GPU_POWER_DEFAULT, "nvmlDeviceGetPowerManagementDefaultLimit"},
    {GS_GPU_PCIE_WIDTH, "nvmlDeviceGetCurrPcieLinkWidth"},
    {GS_GPU_PCIE_WIDTH_MAX, "nvmlDeviceGetMaxPcieLinkWidth"},
    {GS_GPU_PCIE_GEN, "nvmlDeviceGetCurrPcieLinkGeneration"},
    {GS_GPU_PCIE_GEN_MAX, "nvmlDeviceGetMaxPcieLinkGeneration"},
    {GS_GPU_PCIE_REPLAYS, "nvmlDeviceGetPcieReplayCounter"},
    {GS_GPU_COMPUTE_MODE, "nvmlDeviceGetComputeMode"},
    {GS_GPU_PERSISTENCE, "nvmlDeviceGetPersistenceMode"},
    {GS_GPU_VIRTUALIZATION, "nvmlDeviceGetVirtualizationMode"},
    {GS_GPU_MINOR, "nvmlDeviceGetMinorNumber"},
};

/* get(handle, unsigned which, unsigned *) */
static const struct {
    enum gs_gpu_reading reading;
    const char *name;
    unsigned which;
} chosen[] = {
    {GS_GPU_TEMPERATURE_SLOWDOWN, "nvmlDeviceGetTemperatureThreshold", 1},
    {GS_GPU_TEMPERATURE_MEMORY_MAX, "nvmlDeviceGetTemperatureThreshold", 2},
    {GS_GPU_CLOCK_SM, "nvmlDeviceGetClockInfo", 1},
    {GS_GPU_CLOCK_SM_MAX, "nvmlDeviceGetMaxClockInfo", 1},
};

/* get(handle, unsigned *, unsigned *) */
static const struct {
    enum gs_gpu_reading first, second;
    const char *name;
} pairs[] = {
    {GS_GPU_ECC_MODE, GS_GPU_ECC_MODE_PENDING, "nvmlDeviceGetEccMode"},
    {GS_GPU_MIG_MODE, GS_GPU_MIG_MODE_PENDING, "nvmlDeviceGetMigMode"},
};

/* get(handle, type, counter, unsigned long long *) */
static const struct {
    enum gs_gpu_reading reading;
    unsigned type, counter; /* 1 uncorrected; 1 aggregate */
} ecc_totals[] = {
    {GS_GPU_ECC_UNC_VOLATILE, 1, 0},
    {GS_GPU_ECC_UNC_AGGREGATE, 1, 1},
    {GS_GPU_ECC_COR_VOLATILE, 0, 0},
};

static const struct {
    enum gs_gpu_reading reading;
    uint32_t id;
} fields[] = {
    {GS_GPU_RECOVERY_ACTION, 230},
    {GS_GPU_RETIRED_SBE, 29},
    {GS_GPU_RETIRED_DBE, 30},
    {GS_GPU_TEMPERATURE_MEMORY, 82},
};

static void read_uints(struct gs_nvml_gpu *gpu)
{
    for (size_t i = 0; i < COUNT(uints); i++) {
        unsigned value = 0;
        int (*get)(void *, unsigned *) =
            (int (*)(void *, unsigned *))gs_nvml_find(gpu->nvml, uints[i].name);
        int code = get ? get(gpu->handle, &value) : GS_NVML_FUNCTION_NOT_FOUND;
        gs_nvml_set(gpu, uints[i].reading, code, value);
    }
    for (size_t i = 0; i < COUNT(chosen); i++) {
        unsigned value = 0;
        int (*get)(void *, unsigned, unsigned *) =
            (int (*)(void *, unsigned, unsigned *))gs_nvml_find(gpu->nvml,
                                                                chosen[i].name);
        int code = get ? get(gpu->handle, chosen[i].which, &value)
                       : GS_NVML_FUNCTION_NOT_FOUND;
        gs_nvml_set(gpu, chosen[i].reading, code, value);
    }
    for (size_t i = 0; i < COUNT(pairs); i++) {
        unsigned first = 0, second = 0;
        int (*get)(void *, unsigned *, unsigned *) =
            (int (*)(void *, unsigned *, unsigned *))gs_nvml_find(gpu->nvml,
                                                                  pairs[i].name);
        int code = get ? get(gpu->handle, &first, &second) : GS_NVML_FUNCTION_NOT_FOUND;
        gs_nvml_set(gpu, pairs[i].first, code, first);
        gs_nvml_set(gpu, pairs[i].second, code, second);
    }
}

static void read_ecc(struct gs_nvml_gpu *gpu)
{
    typedef int (*total_fn)(void *, unsigned, unsigned, unsigned long long *);
    typedef int (*place_fn)(void *, unsigned, unsigned, unsigned, unsigned long long *);
    unsigned long long value;
    place_fn place;
    int code;

    for (size_t i = 0; i < COUNT(ecc_totals); i++) {
        total_fn get = (total_fn)gs_nvml_find(gpu->nvml, "nvmlDeviceGetTotalEccErrors");
        value = 0;
        code = get ? get(gpu->handle, ecc_totals[i].type, ecc_totals[i].counter, &value)
                   : GS_NVML_FUNCTION_NOT_FOUND;
        gs_nvml_set(gpu, ecc_totals[i].reading, code, value);
    }
    value = 0;
    place = (place_fn)gs_nvml_find(gpu->nvml, "nvmlDeviceGetMemoryErrorCounter");
    /* uncorrected, volatile, in SRAM */
    code = place ? place(gpu->handle, 1, 0, 7, &value) : GS_NVML_FUNCTION_NOT_FOUND;
    gs_nvml_set(gpu, GS_GPU_SRAM_UNC_VOLATILE, code, value);
}

uint64_t gs_nvml_field_value(const struct gs_nvml_field *field)
{
    switch (field->type) {
    case 0:
        return field->value.real > 0 && field->value.real < 1.8e19
                   ? (uint64_t)field->value.real
                   : 0;
    case 1:
        return field->value.uint;
    case 2:
        return field->value.ulong;
    case 3:
        return field->value.ullong;
    case 4:
        return field->value.sllong > 0 ? (uint64_t)field->value.sllong : 0;
    case 5:
        return field->value.sint > 0 ? (uint64_t)field->value.sint : 0;
    case 6:
        return field->value.ushort;
    default:
        return 0;
    }
}

static bool known_type(uint32_t type)
{
    return type <= 6;
}

void gs_nvml_fields(struct gs_nvml_gpu *gpu,
                    struct gs_nvml_field *values,
                    uint32_t count)
{
    typedef int (*get_fn)(void *, int, struct gs_nvml_field *);
    get_fn get = (get_fn)gs_nvml_find(gpu->nvml, "nvmlDeviceGetFieldValues");
    int code = get ? get(gpu->handle, (int)count, values) : GS_NVML_FUNCTION_NOT_FOUND;

    /* Older drivers refuse the whole request for one field they do not know. */
    for (uint32_t i = 0; get && code == GS_NVML_INVALID_ARGUMENT && i < count; i++) {
        int own = get(gpu->handle, 1, &values[i]);
        if (own)
            values[i].code = gs_nvml_code(own);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (code && code != GS_NVML_INVALID_ARGUMENT)
            values[i].code = gs_nvml_code(code);
        else if (!values[i].code && !known_type(values[i].type))
            values[i].code = GS_NVML_UNKNOWN;
    }
}

static void read_fields(struct gs_nvml_gpu *gpu)
{
    struct gs_nvml_field values[COUNT(fields)] = {0};

    for (size_t i = 0; i < COUNT(fields); i++)
        values[i].id = fields[i].id;
    gs_nvml_fields(gpu, values, COUNT(fields));
    for (size_t i = 0; i < COUNT(fields); i++)
        gs_nvml_set(gpu,
                    fields[i].reading,
                    (int)values[i].code,
                    gs_nvml_field_value(&values[i]));
}

static void read_reasons(struct gs_nvml_gpu *gpu)
{
    static const char *const names[] = {"nvmlDeviceGetCurrentClocksEventReasons",
                                        "nvmlDeviceGetCurrentClocksThrottleReasons"};
    int (*get)(void *, unsigned long long *) = NULL;
    unsigned long long mask = 0;
    int code;

    for (size_t i = 0; i < COUNT(names) && !get; i++)
        get = (int (*)(void *, unsigned long long *))gs_nvml_find(gpu->nvml, names[i]);
    code = get ? get(gpu->handle, &mask) : GS_NVML_FUNCTION_NOT_FOUND;
    gs_nvml_set(gpu, GS_GPU_CLOCK_REASONS, code, mask);
}

struct margin_v1 {
    unsigned version;
    int celsius;
};

/* How far the threshold of slowing down is; 0 = reached, or not known. */
static unsigned margin_by_threshold(const struct gs_gpu *gpu)
{
    const struct gs_gpu_value *now = &gpu->values[GS_GPU_TEMPERATURE];
    const struct gs_gpu_value *slow = &gpu->values[GS_GPU_TEMPERATURE_SLOWDOWN];
    const unsigned most = 150; /* what is more is no temperature */

    if (now->code || slow->code || slow->value > most || slow->value <= now->value)
        return 0;
    return (unsigned)(slow->value - now->value);
}

/* Some H100 say 0 or less at any temperature, so that has to be seen from the threshold
 * as well. Fields 193-196 are no way to it: they are thresholds on the margin's own
 * scale, not temperatures. */
static void read_margin(struct gs_nvml_gpu *gpu)
{
    struct margin_v1 margin = {.version = GS_NVML_VERSION(struct margin_v1, 1)};
    int code = gs_nvml_struct(gpu, "nvmlDeviceGetMarginTemperature", &margin);
    unsigned other = margin_by_threshold(gpu->out);

    if (code == 0 && margin.celsius > 0)
        other = (unsigned)margin.celsius;
    else if (other && (gs_nvml_try_older(code) || code == GS_NVML_NOT_SUPPORTED))
        code = 0;
    gs_nvml_set(gpu, GS_GPU_TEMPERATURE_MARGIN, code, other);
}

static void read_inforom(struct gs_nvml_gpu *gpu)
{
    int (*validate)(void *);
    int code;

    if (!gpu->nvml->inforom)
        return;
    validate = (int (*)(void *))gs_nvml_find(gpu->nvml, "nvmlDeviceValidateInforom");
    code = validate ? validate(gpu->handle) : GS_NVML_FUNCTION_NOT_FOUND;
    /* "Corrupted" is an answer, not a failure to answer. */
    if (code == GS_NVML_CORRUPTED_INFOROM)
        gs_nvml_set(gpu, GS_GPU_INFOROM, GS_NVML_SUCCESS, 0);
    else
        gs_nvml_set(gpu, GS_GPU_INFOROM, code, 1);
}

void gs_nvml_read_simple(struct gs_nvml_gpu *gpu)
{
    read_fields(gpu);
    read_ecc(gpu);
    read_uints(gpu);
    read_margin(gpu);
    read_reasons(gpu);
    read_inforom(gpu);
}
