/* nvml_structs.c - who a GPU is, and the readings that NVML returns in structs. Where a
 * driver does not know the newest struct, the older ones are tried in turn. */
#include <stdio.h>
#include <string.h>

#include "nvml_private.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* Of the PCI struct only two texts are read: the short address it begins with and,
 * since _v3, the long one behind five numbers. */
#define PCI_LONG 36
#define PCI_TEXT 32
#define PCI_ROOM 256

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct temperature_v1 {
    unsigned version, sensor;
    int celsius;
};

struct unrepairable_v1 {
    unsigned version, flag;
};

struct sram_status_v1 {
    unsigned version;
    unsigned long long counters[11];
    unsigned threshold_exceeded;
};

struct fabric_v1 {
    uint8_t cluster[16];
    uint32_t status, clique;
    uint8_t state;
};

struct fabric_v2 {
    unsigned version;
    uint8_t cluster[16];
    uint32_t status, clique;
    uint8_t state;
    uint32_t health;
};

struct fabric_v3 {
    unsigned version;
    uint8_t cluster[16];
    uint32_t status, clique;
    uint8_t state;
    uint32_t health;
    uint8_t summary;
};

/* Drivers newer than these declarations may write more than they should. */
union fabric_any {
    struct fabric_v1 v1;
    struct fabric_v2 v2;
    struct fabric_v3 v3;
    uint8_t room[1024]; /* cppcheck-suppress unusedStructMember */
};

int gs_nvml_struct(struct gs_nvml_gpu *gpu, const char *name, void *data)
{
    int (*get)(void *, void *) = (int (*)(void *, void *))gs_nvml_find(gpu->nvml, name);

    return get ? get(gpu->handle, data) : GS_NVML_FUNCTION_NOT_FOUND;
}

bool gs_nvml_try_older(int code)
{
    return code == GS_NVML_FUNCTION_NOT_FOUND || code == GS_NVML_VERSION_MISMATCH
           || code == GS_NVML_INVALID_ARGUMENT;
}

static void read_pci(struct gs_nvml_gpu *gpu)
{
    static const char *const names[] = {
        "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"};
    _Alignas(8) char pci[PCI_ROOM];
    int code = GS_NVML_FUNCTION_NOT_FOUND;

    for (size_t i = 0; i < COUNT(names) && code == GS_NVML_FUNCTION_NOT_FOUND; i++) {
        memset(pci, 0, sizeof(pci));
        code = gs_nvml_struct(gpu, names[i], pci);
    }
    if (code)
        return;
    pci[PCI_LONG + PCI_TEXT - 1] = '\0';
    if (!gs_pci_normal(pci + PCI_LONG, gpu->out->pci)
        && !gs_pci_normal(pci, gpu->out->pci))
        return;
    memcpy(gpu->nvml->pci, gpu->out->pci, sizeof(gpu->nvml->pci));
}

static void read_identity(struct gs_nvml_gpu *gpu)
{
    const struct {
        const char *name;
        char *to;
    } texts[] = {
        {"nvmlDeviceGetUUID", gpu->out->uuid},
        {"nvmlDeviceGetName", gpu->out->name},
        {"nvmlDeviceGetVbiosVersion", gpu->out->vbios},
        {"nvmlDeviceGetSerial", gpu->out->serial},
    };

    read_pci(gpu);
    for (size_t i = 0; i < COUNT(texts); i++) {
        char text[GS_GPU_TEXT + 1] = "";
        int (*get)(void *, char *, unsigned) =
            (int (*)(void *, char *, unsigned))gs_nvml_find(gpu->nvml, texts[i].name);
        if (get && get(gpu->handle, text, GS_GPU_TEXT) == GS_NVML_SUCCESS)
            gs_gpu_text(texts[i].to, text, GS_GPU_TEXT);
    }
}

static void read_temperature(struct gs_nvml_gpu *gpu)
{
    struct temperature_v1 now = {.version = GS_NVML_VERSION(struct temperature_v1, 1)};
    int code = gs_nvml_struct(gpu, "nvmlDeviceGetTemperatureV", &now);
    unsigned celsius = now.celsius > 0 ? (unsigned)now.celsius : 0;

    if (gs_nvml_try_older(code)) {
        int (*get)(void *, unsigned, unsigned *) =
            (int (*)(void *, unsigned, unsigned *))gs_nvml_find(
                gpu->nvml, "nvmlDeviceGetTemperature");
        code = get ? get(gpu->handle, 0, &celsius) : GS_NVML_FUNCTION_NOT_FOUND;
    }
    gs_nvml_set(gpu, GS_GPU_TEMPERATURE, code, celsius);
}

static void read_memory(struct gs_nvml_gpu *gpu)
{
    struct memory_v2 v2 = {.version = GS_NVML_VERSION(struct memory_v2, 2)};
    unsigned long long v1[3] = {0}; /* total, free, used */
    int code = gs_nvml_struct(gpu, "nvmlDeviceGetMemoryInfo_v2", &v2);
    /* Drivers disagree whether `used` holds what is reserved; this never does. */
    unsigned long long kept = v2.free + v2.reserved;
    unsigned long long used = v2.total > kept ? v2.total - kept : 0;

    if (gs_nvml_try_older(code)) {
        code = gs_nvml_struct(gpu, "nvmlDeviceGetMemoryInfo", v1);
        v2.total = v1[0];
        used = v1[2];
    }
    gs_nvml_set(gpu, GS_GPU_MEMORY_TOTAL, code, v2.total);
    gs_nvml_set(gpu, GS_GPU_MEMORY_USED, code, used);
}

static void read_remapped(struct gs_nvml_gpu *gpu)
{
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    typedef int (*get_fn)(void *, unsigned *, unsigned *, unsigned *, unsigned *);
    get_fn get = (get_fn)gs_nvml_find(gpu->nvml, "nvmlDeviceGetRemappedRows");
    int code = get ? get(gpu->handle, &corrected, &uncorrected, &pending, &failed)
                   : GS_NVML_FUNCTION_NOT_FOUND;

    gs_nvml_set(gpu, GS_GPU_REMAP_UNC, code, uncorrected);
    gs_nvml_set(gpu, GS_GPU_REMAP_PENDING, code, pending);
    gs_nvml_set(gpu, GS_GPU_REMAP_FAILED, code, failed);
}

/* Banks by how many of their spare rows are left. */
static void read_banks(struct gs_nvml_gpu *gpu)
{
    enum {
        MAX,
        HIGH,
        PARTIAL,
        LOW,
        NONE,
        GROUPS
    };
    unsigned banks[GROUPS] = {0};
    int code = gs_nvml_struct(gpu, "nvmlDeviceGetRowRemapperHistogram", banks);

    gs_nvml_set(gpu, GS_GPU_REMAP_BANKS_EMPTY, code, banks[NONE]);
}

static void read_memory_faults(struct gs_nvml_gpu *gpu)
{
    struct sram_status_v1 sram = {.version = GS_NVML_VERSION(struct sram_status_v1, 1)};
    struct unrepairable_v1 flag = {.version =
                                       GS_NVML_VERSION(struct unrepairable_v1, 1)};
    int code = gs_nvml_struct(gpu, "nvmlDeviceGetSramEccErrorStatus", &sram);

    gs_nvml_set(gpu, GS_GPU_SRAM_THRESHOLD, code, sram.threshold_exceeded);
    code = gs_nvml_struct(gpu, "nvmlDeviceGetUnrepairableMemoryFlag_v1", &flag);
    gs_nvml_set(gpu, GS_GPU_UNREPAIRABLE, code, flag.flag);
}

static void read_utilization(struct gs_nvml_gpu *gpu)
{
    struct {
        unsigned gpu, memory;
    } busy = {0};
    int code = gs_nvml_struct(gpu, "nvmlDeviceGetUtilizationRates", &busy);

    gs_nvml_set(gpu, GS_GPU_UTILIZATION, code, busy.gpu);
    gs_nvml_set(gpu, GS_GPU_MEMORY_UTILIZATION, code, busy.memory);
}

static void name_cluster(char ret_text[GS_GPU_TEXT], const uint8_t uuid[16])
{
    static const uint8_t none[16];
    size_t used = 0;

    if (memcmp(uuid, none, sizeof(none)) == 0)
        return;
    for (size_t i = 0; i < sizeof(none); i++) {
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        used += (size_t)snprintf(
            ret_text + used, GS_GPU_TEXT - used, "%s%02x", dash ? "-" : "", uuid[i]);
    }
}

static void read_fabric(struct gs_nvml_gpu *gpu)
{
    static const char call[] = "nvmlDeviceGetGpuFabricInfoV";
    union fabric_any any = {0};
    int code, health;

    any.v3.version = GS_NVML_VERSION(struct fabric_v3, 3);
    code = gs_nvml_struct(gpu, call, &any);
    if (gs_nvml_try_older(code)) {
        any = (union fabric_any){.v2.version = GS_NVML_VERSION(struct fabric_v2, 2)};
        code = gs_nvml_struct(gpu, call, &any);
    }
    health = code;
    if (gs_nvml_try_older(code)) {
        struct fabric_v1 old;
        any = (union fabric_any){0};
        code = gs_nvml_struct(gpu, "nvmlDeviceGetGpuFabricInfo", &any);
        old = any.v1;
        memcpy(any.v2.cluster, old.cluster, sizeof(old.cluster));
        any.v2.status = old.status;
        any.v2.clique = old.clique;
        any.v2.state = old.state;
        health = code ? code : GS_NVML_NOT_SUPPORTED;
    }
    gs_nvml_set(gpu, GS_GPU_FABRIC_STATE, code, any.v2.state);
    gs_nvml_set(gpu, GS_GPU_FABRIC_STATUS, code, any.v2.status);
    gs_nvml_set(gpu, GS_GPU_FABRIC_HEALTH, health, any.v2.health);
    if (code)
        return;
    name_cluster(gpu->out->fabric_cluster, any.v2.cluster);
    gpu->out->fabric_clique = any.v2.clique;
}

static void read_numa(struct gs_nvml_gpu *gpu)
{
    int node = -1, code = gs_nvml_struct(gpu, "nvmlDeviceGetNumaNodeId", &node);

    gs_nvml_set(gpu, GS_GPU_NUMA_MEMORY, code, node >= 0);
}

void gs_nvml_read_structs(struct gs_nvml_gpu *gpu)
{
    read_identity(gpu);
    read_temperature(gpu);
    read_memory(gpu);
    read_remapped(gpu);
    read_banks(gpu);
    read_memory_faults(gpu);
    read_utilization(gpu);
    read_fabric(gpu);
    read_numa(gpu);
}
