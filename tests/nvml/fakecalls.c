/* fakecalls.c - NVML's calls over the state in fake.c. Prototypes are NVML's ABI, with
 * handles and structs as the header of this fake has them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define ENTER(gpu)                                                                     \
    do {                                                                               \
        int enter_code = fake_enter(gpu, __func__);                                    \
        if (enter_code)                                                                \
            return enter_code;                                                         \
    } while (0)

#define NODE_TEXT(call, key)                                                           \
    int call(char *text, unsigned size);                                               \
    int call(char *text, unsigned size)                                                \
    {                                                                                  \
        ENTER(NULL);                                                                   \
        return fake_copy(NULL, key, text, size);                                       \
    }

#define GPU_TEXT(call, key)                                                            \
    int call(struct fake_gpu *gpu, char *text, unsigned size);                         \
    int call(struct fake_gpu *gpu, char *text, unsigned size)                          \
    {                                                                                  \
        ENTER(gpu);                                                                    \
        return fake_copy(gpu, key, text, size);                                        \
    }

#define GPU_NUMBER(call, type, key)                                                    \
    int call(struct fake_gpu *gpu, type *ret);                                         \
    int call(struct fake_gpu *gpu, type *ret)                                          \
    {                                                                                  \
        uint64_t number = 0;                                                           \
        int code;                                                                      \
        ENTER(gpu);                                                                    \
        code = fake_number(gpu, key, &number);                                         \
        if (!code)                                                                     \
            *ret = (type)number;                                                       \
        return code;                                                                   \
    }

/* The argument picks the key: KEY.ARGUMENT */
#define GPU_CHOSEN(call, type, key)                                                    \
    int call(struct fake_gpu *gpu, unsigned which, type *ret);                         \
    int call(struct fake_gpu *gpu, unsigned which, type *ret)                          \
    {                                                                                  \
        char full[64];                                                                 \
        uint64_t number = 0;                                                           \
        int code;                                                                      \
        ENTER(gpu);                                                                    \
        snprintf(full, sizeof(full), "%s.%u", key, which);                             \
        code = fake_number(gpu, full, &number);                                        \
        if (!code)                                                                     \
            *ret = (type)number;                                                       \
        return code;                                                                   \
    }

#define GPU_PAIR(call, key)                                                            \
    int call(struct fake_gpu *gpu, unsigned *first, unsigned *second);                 \
    int call(struct fake_gpu *gpu, unsigned *first, unsigned *second)                  \
    {                                                                                  \
        uint64_t one = 0, two = 0;                                                     \
        ENTER(gpu);                                                                    \
        if (fake_number(gpu, key, &one) || fake_number(gpu, key ".pending", &two))     \
            return FAKE_NOT_SUPPORTED;                                                 \
        *first = (unsigned)one;                                                        \
        *second = (unsigned)two;                                                       \
        return 0;                                                                      \
    }

#define INIT(call, ...)                                                                \
    int call(__VA_ARGS__);                                                             \
    int call(__VA_ARGS__)                                                              \
    {                                                                                  \
        ENTER(NULL);                                                                   \
        return 0;                                                                      \
    }

INIT(nvmlInit_v2, void)
INIT(nvmlInit, void)
INIT(nvmlInitWithFlags, unsigned flags __attribute__((unused)))
INIT(nvmlShutdown, void)

NODE_TEXT(nvmlSystemGetDriverVersion, "driver")
NODE_TEXT(nvmlSystemGetNVMLVersion, "nvml")

GPU_TEXT(nvmlDeviceGetUUID, "uuid")
GPU_TEXT(nvmlDeviceGetName, "name")
GPU_TEXT(nvmlDeviceGetVbiosVersion, "vbios")
GPU_TEXT(nvmlDeviceGetSerial, "serial")

GPU_NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, unsigned, "retired_pending")
GPU_NUMBER(nvmlDeviceGetPowerUsage, unsigned, "power")
GPU_NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit")
GPU_NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, "power_default")
GPU_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "pcie_width")
GPU_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "pcie_width_max")
GPU_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "pcie_gen")
GPU_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "pcie_gen_max")
GPU_NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, "pcie_replays")
GPU_NUMBER(nvmlDeviceGetComputeMode, unsigned, "compute_mode")
GPU_NUMBER(nvmlDeviceGetPersistenceMode, unsigned, "persistence")
GPU_NUMBER(nvmlDeviceGetVirtualizationMode, unsigned, "virtualization")
GPU_NUMBER(nvmlDeviceGetMinorNumber, unsigned, "minor")
GPU_NUMBER(nvmlDeviceGetNumaNodeId, int, "numa_node")
GPU_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "clock_reasons")
GPU_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons,
           unsigned long long,
           "clock_reasons")

GPU_CHOSEN(nvmlDeviceGetTemperature, unsigned, "temperature")
GPU_CHOSEN(nvmlDeviceGetTemperatureThreshold, unsigned, "threshold")
GPU_CHOSEN(nvmlDeviceGetClockInfo, unsigned, "clock")
GPU_CHOSEN(nvmlDeviceGetMaxClockInfo, unsigned, "clock_max")
GPU_CHOSEN(nvmlDeviceGetNvLinkState, unsigned, "nvlink")
GPU_CHOSEN(nvmlDeviceGetNvLinkRemoteDeviceType, unsigned, "remote")

GPU_PAIR(nvmlDeviceGetEccMode, "ecc")
GPU_PAIR(nvmlDeviceGetMigMode, "mig")

int nvmlDeviceGetCount_v2(unsigned *ret);
int nvmlDeviceGetCount_v2(unsigned *ret)
{
    uint64_t count = 0;

    ENTER(NULL);
    fake_number(NULL, "count", &count);
    *ret = (unsigned)count;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct fake_gpu **ret);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct fake_gpu **ret)
{
    struct fake_gpu *gpu = fake_handle(index);

    if (!gpu)
        return FAKE_INVALID_ARGUMENT;
    ENTER(gpu);
    *ret = gpu;
    return 0;
}

int nvmlDeviceValidateInforom(struct fake_gpu *gpu);
int nvmlDeviceValidateInforom(struct fake_gpu *gpu)
{
    ENTER(gpu);
    return 0;
}

int nvmlDeviceGetTotalEccErrors(struct fake_gpu *gpu,
                                unsigned type,
                                unsigned counter,
                                unsigned long long *ret);
int nvmlDeviceGetTotalEccErrors(struct fake_gpu *gpu,
                                unsigned type,
                                unsigned counter,
                                unsigned long long *ret)
{
    uint64_t number = 0;
    char key[64];

    ENTER(gpu);
    snprintf(key, sizeof(key), "ecc_total.%u.%u", type, counter);
    if (fake_number(gpu, key, &number))
        return FAKE_NOT_SUPPORTED;
    *ret = number;
    return 0;
}

int nvmlDeviceGetMemoryErrorCounter(struct fake_gpu *gpu,
                                    unsigned type,
                                    unsigned counter,
                                    unsigned place,
                                    unsigned long long *ret);
int nvmlDeviceGetMemoryErrorCounter(struct fake_gpu *gpu,
                                    unsigned type,
                                    unsigned counter,
                                    unsigned place,
                                    unsigned long long *ret)
{
    uint64_t number = 0;
    char key[64];

    ENTER(gpu);
    snprintf(key, sizeof(key), "ecc_place.%u.%u.%u", type, counter, place);
    if (fake_number(gpu, key, &number))
        return FAKE_NOT_SUPPORTED;
    *ret = number;
    return 0;
}

int nvmlDeviceGetNvLinkErrorCounter(struct fake_gpu *gpu,
                                    unsigned link,
                                    unsigned counter,
                                    unsigned long long *ret);
int nvmlDeviceGetNvLinkErrorCounter(struct fake_gpu *gpu,
                                    unsigned link,
                                    unsigned counter,
                                    unsigned long long *ret)
{
    uint64_t number = 0;
    char key[64];

    ENTER(gpu);
    snprintf(key, sizeof(key), "nvlink_error.%u.%u", link, counter);
    if (fake_number(gpu, key, &number))
        return FAKE_NOT_SUPPORTED;
    *ret = number;
    return 0;
}

int nvmlDeviceGetRemappedRows(struct fake_gpu *gpu,
                              unsigned *corrected,
                              unsigned *uncorrected,
                              unsigned *pending,
                              unsigned *failed);
int nvmlDeviceGetRemappedRows(struct fake_gpu *gpu,
                              unsigned *corrected,
                              unsigned *uncorrected,
                              unsigned *pending,
                              unsigned *failed)
{
    const char *text;

    ENTER(gpu);
    text = fake_text(gpu, "remapped");
    return text
                   && sscanf(
                          text, "%u %u %u %u", corrected, uncorrected, pending, failed)
                          == 4
               ? 0
               : FAKE_NOT_SUPPORTED;
}

int nvmlDeviceGetP2PStatus(struct fake_gpu *gpu,
                           const struct fake_gpu *peer,
                           unsigned kind,
                           unsigned *ret);
int nvmlDeviceGetP2PStatus(struct fake_gpu *gpu,
                           const struct fake_gpu *peer,
                           unsigned kind,
                           unsigned *ret)
{
    uint64_t number = 0;
    char key[64];

    ENTER(gpu);
    snprintf(key, sizeof(key), "p2p.%u.%u", kind, fake_index(peer));
    if (fake_number(gpu, key, &number))
        return FAKE_NOT_SUPPORTED;
    *ret = (unsigned)number;
    return 0;
}
