/* fakestructs.c - NVML's calls that fill structs, fields and process lists. The layouts
 * are NVML's, written down here once more, apart from those of the code under test. */
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

#define CALL(call)                                                                     \
    int call(struct fake_gpu *gpu, uint8_t *out);                                      \
    int call(struct fake_gpu *gpu, uint8_t *out)

/* Writes at a byte offset: the layout is spelled out, not compiled. */
static void put(uint8_t *out, size_t at, uint64_t value, size_t size)
{
    memcpy(out + at, &value, size);
}

static unsigned version_of(const uint8_t *out)
{
    unsigned version;

    memcpy(&version, out, sizeof(version));
    return version;
}

static uint64_t get(const struct fake_gpu *gpu, const char *key)
{
    uint64_t number = 0;

    fake_number(gpu, key, &number);
    return number;
}

static int fill_pci(const struct fake_gpu *gpu, uint8_t *out)
{
    unsigned domain, bus, device;
    const char *text = fake_text(gpu, "pci");

    if (!text || sscanf(text, "%x:%x:%x", &domain, &bus, &device) != 3)
        return FAKE_NOT_SUPPORTED;
    snprintf((char *)out,
             16,
             "%04x:%02X:%02X.0",
             domain & 0xffff,
             bus & 0xff,
             device & 0x1f);
    put(out, 16, domain, 4);
    put(out, 20, bus, 4);
    put(out, 24, device, 4);
    return 0;
}

CALL(nvmlDeviceGetPciInfo_v3)
{
    ENTER(gpu);
    if (fill_pci(gpu, out))
        return FAKE_NOT_SUPPORTED;
    return fake_copy(gpu, "pci", (char *)out + 36, 32);
}

CALL(nvmlDeviceGetPciInfo_v2)
{
    ENTER(gpu);
    return fill_pci(gpu, out);
}

CALL(nvmlDeviceGetTemperatureV)
{
    uint64_t celsius = 0;

    ENTER(gpu);
    if (version_of(out) != 0x0100000c)
        return FAKE_VERSION_MISMATCH;
    if (fake_number(gpu, "temperature.0", &celsius))
        return FAKE_NOT_SUPPORTED;
    put(out, 8, celsius, 4);
    return 0;
}

CALL(nvmlDeviceGetMarginTemperature)
{
    uint64_t celsius = 0;

    ENTER(gpu);
    if (version_of(out) != 0x01000008)
        return FAKE_VERSION_MISMATCH;
    if (fake_number(gpu, "margin", &celsius))
        return FAKE_NOT_SUPPORTED;
    put(out, 4, celsius, 4);
    return 0;
}

/* "640 1 2 3 4": banks by how many spare rows are left, all of them to none. */
CALL(nvmlDeviceGetRowRemapperHistogram)
{
    unsigned banks[5];
    const char *text;

    ENTER(gpu);
    text = fake_text(gpu, "banks");
    if (!text
        || sscanf(text,
                  "%u %u %u %u %u",
                  &banks[0],
                  &banks[1],
                  &banks[2],
                  &banks[3],
                  &banks[4])
               != 5)
        return FAKE_NOT_SUPPORTED;
    for (size_t i = 0; i < 5; i++)
        put(out, i * 4, banks[i], 4);
    return 0;
}

CALL(nvmlDeviceGetMemoryInfo_v2)
{
    ENTER(gpu);
    if (version_of(out) != 0x02000028)
        return FAKE_VERSION_MISMATCH;
    if (!fake_text(gpu, "memory.total"))
        return FAKE_NOT_SUPPORTED;
    put(out, 8, get(gpu, "memory.total"), 8);
    put(out, 16, get(gpu, "memory.reserved"), 8);
    put(out, 24, get(gpu, "memory.free"), 8);
    put(out, 32, get(gpu, "memory.used"), 8);
    return 0;
}

CALL(nvmlDeviceGetMemoryInfo)
{
    ENTER(gpu);
    if (!fake_text(gpu, "memory.total"))
        return FAKE_NOT_SUPPORTED;
    put(out, 0, get(gpu, "memory.total"), 8);
    put(out, 8, get(gpu, "memory.free"), 8);
    put(out, 16, get(gpu, "memory.used"), 8);
    return 0;
}

CALL(nvmlDeviceGetSramEccErrorStatus)
{
    ENTER(gpu);
    if (version_of(out) != 0x01000068)
        return FAKE_VERSION_MISMATCH;
    if (!fake_text(gpu, "sram_threshold"))
        return FAKE_NOT_SUPPORTED;
    put(out, 96, get(gpu, "sram_threshold"), 4);
    return 0;
}

CALL(nvmlDeviceGetUnrepairableMemoryFlag_v1)
{
    ENTER(gpu);
    if (version_of(out) != 0x01000008)
        return FAKE_VERSION_MISMATCH;
    if (!fake_text(gpu, "unrepairable"))
        return FAKE_NOT_SUPPORTED;
    put(out, 4, get(gpu, "unrepairable"), 4);
    return 0;
}

CALL(nvmlDeviceGetUtilizationRates)
{
    ENTER(gpu);
    if (!fake_text(gpu, "utilization"))
        return FAKE_NOT_SUPPORTED;
    put(out, 0, get(gpu, "utilization"), 4);
    put(out, 4, get(gpu, "memory_utilization"), 4);
    return 0;
}

/* The part that all versions share, `at` bytes into them. */
static int fill_fabric(const struct fake_gpu *gpu, uint8_t *out, size_t at)
{
    if (!fake_text(gpu, "fabric.state"))
        return FAKE_NOT_SUPPORTED;
    for (size_t i = 0; i < 16; i++)
        put(out, at + i, get(gpu, "fabric.cluster") + i, 1);
    put(out, at + 16, get(gpu, "fabric.status"), 4);
    put(out, at + 20, get(gpu, "fabric.clique"), 4);
    put(out, at + 24, get(gpu, "fabric.state"), 1);
    return 0;
}

CALL(nvmlDeviceGetGpuFabricInfoV)
{
    uint64_t newest = 3;

    ENTER(gpu);
    fake_number(gpu, "fabric_version", &newest);
    if ((version_of(out) >> 24) > newest)
        return FAKE_VERSION_MISMATCH;
    if (version_of(out) != 0x03000028 && version_of(out) != 0x02000024)
        return FAKE_VERSION_MISMATCH;
    put(out, 32, get(gpu, "fabric.health"), 4);
    return fill_fabric(gpu, out, 4);
}

CALL(nvmlDeviceGetGpuFabricInfo)
{
    ENTER(gpu);
    return fill_fabric(gpu, out, 0);
}

/* One field of 40 bytes: id, scope, time, latency, type, code, value. */
static void fill_field(const struct fake_gpu *gpu, uint8_t *out)
{
    static const size_t sizes[] = {8, 4, 8, 8, 8, 4, 2};
    const char *text;
    unsigned id, scope, type;
    unsigned long long value;
    double real;
    char key[64];

    memcpy(&id, out, 4);
    memcpy(&scope, out + 4, 4);
    snprintf(key, sizeof(key), "field.%u.%u", id, scope);
    text = fake_text(gpu, key);
    snprintf(key, sizeof(key), "field.%u", id);
    if (!text && !scope)
        text = fake_text(gpu, key);
    /* Junk where the type does not reach, as real drivers leave it. */
    memset(out + 32, 0xa5, 8);
    put(out, 28, FAKE_NOT_SUPPORTED, 4);
    if (text && strncmp(text, "code:", 5) == 0) {
        put(out, 28, strtoull(text + 5, NULL, 10), 4);
        return;
    }
    if (!text || !strchr(text, ':'))
        return;
    type = (unsigned)strtoul(text, NULL, 10);
    value = strtoull(strchr(text, ':') + 1, NULL, 10);
    put(out, 24, type, 4);
    put(out, 28, 0, 4);
    real = (double)value;
    if (type == 0)
        memcpy(out + 32, &real, 8);
    else
        put(out, 32, value, type < 7 ? sizes[type] : 8);
}

int nvmlDeviceGetFieldValues(struct fake_gpu *gpu, int count, uint8_t *fields);
int nvmlDeviceGetFieldValues(struct fake_gpu *gpu, int count, uint8_t *fields)
{
    const char *unknown;

    ENTER(gpu);
    /* An older driver refuses the whole request for one field it does not know. */
    unknown = fake_text(gpu, "unknown_field");
    for (int i = 0; unknown && i < count; i++) {
        unsigned id;
        memcpy(&id, fields + i * 40, 4);
        if (id == strtoul(unknown, NULL, 10))
            return FAKE_INVALID_ARGUMENT;
    }
    for (int i = 0; i < count; i++)
        fill_field(gpu, fields + i * 40);
    return 0;
}

/* "12:1048576 13:" into slots of a size. */
static int fill_processes(const struct fake_gpu *gpu,
                          const char *key,
                          unsigned *count,
                          uint8_t *out,
                          size_t size)
{
    const char *text = fake_text(gpu, key), *at;
    unsigned there = 0, room = out ? *count : 0;
    char *end;

    if (!text)
        return FAKE_NOT_SUPPORTED;
    for (at = text; *at; there++) {
        uint64_t memory = UINT64_MAX, pid = strtoull(at, &end, 10);
        if (*end == ':' && end[1] >= '0' && end[1] <= '9')
            memory = strtoull(end + 1, &end, 10);
        at = end + strcspn(end, " ");
        at += *at == ' ';
        if (there >= room)
            continue;
        memset(out + there * size, 0, size);
        put(out, there * size, pid, 4);
        put(out, there * size + 8, memory, 8);
    }
    *count = there;
    return there > room ? FAKE_INSUFFICIENT_SIZE : 0;
}

#define PROCESSES(call, key, size)                                                     \
    int call(struct fake_gpu *gpu, unsigned *count, uint8_t *out);                     \
    int call(struct fake_gpu *gpu, unsigned *count, uint8_t *out)                      \
    {                                                                                  \
        ENTER(gpu);                                                                    \
        return fill_processes(gpu, key, count, out, size);                             \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "processes", 24)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "processes", 24)
PROCESSES(nvmlDeviceGetComputeRunningProcesses, "processes", 16)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", 24)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps", 24)
