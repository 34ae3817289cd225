/* amd.c - an AMD GPU's readings that are one file each; see amd.h. To read one more,
 * add a row. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amd_private.h"
#include "clock_private.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define VENDOR "0x1002"

/* Files of the device's folder. */
static const struct {
    enum gs_gpu_reading reading;
    const char *file;
} plain[] = {
    {GS_GPU_UTILIZATION, "gpu_busy_percent"},
    {GS_GPU_MEMORY_UTILIZATION, "mem_busy_percent"},
    {GS_GPU_MEMORY_TOTAL, "mem_info_vram_total"},
    {GS_GPU_MEMORY_USED, "mem_info_vram_used"},
    {GS_GPU_PCIE_WIDTH, "current_link_width"},
    {GS_GPU_PCIE_WIDTH_MAX, "max_link_width"},
    {GS_GPU_PCIE_REPLAYS, "pcie_replay_count"},
};

/* Files of its hwmon folder; fallback = the name in other generations. */
static const struct {
    enum gs_gpu_reading reading;
    const char *file, *fallback;
    uint64_t divisor;
} sensors[] = {
    {GS_GPU_TEMPERATURE, "temp2_input", "temp1_input", 1000},
    {GS_GPU_TEMPERATURE_SLOWDOWN, "temp2_crit", "temp1_crit", 1000},
    {GS_GPU_TEMPERATURE_MEMORY, "temp3_input", NULL, 1000},
    {GS_GPU_POWER, "power1_average", "power1_input", 1000},
    {GS_GPU_POWER_LIMIT, "power1_cap", NULL, 1000},
    {GS_GPU_POWER_DEFAULT, "power1_cap_default", NULL, 1000},
    {GS_GPU_CLOCK_SM, "freq1_input", NULL, 1000000},
};

/* PCIe speeds in GT/s; the generation is the row's number plus one. */
static const uint64_t speeds[] = {2, 5, 8, 16, 32, 64};

static uint16_t code_of(int rc)
{
    static const struct {
        int error;
        uint16_t code;
    } codes[] = {{0, 0},
                 {ENOENT, 3},
                 {EOPNOTSUPP, 3},
                 {EINVAL, 3},
                 {EACCES, 4},
                 {EPERM, 4},
                 {ENODEV, 15},
                 {EIO, 15}};

    for (size_t i = 0; i < COUNT(codes); i++)
        if (codes[i].error == -rc)
            return codes[i].code;
    return 999;
}

uint16_t gs_amd_text(struct gs_amd_gpu *gpu,
                     const char *folder,
                     const char *file,
                     char ret_text[GS_SYS_TEXT])
{
    char path[2 * GS_SYS_PATH];

    gs_progress_tell(gpu->progress, file, gpu->out->pci);
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    return code_of(gs_sys_read(path, ret_text, GS_SYS_TEXT));
}

uint16_t gs_amd_number(struct gs_amd_gpu *gpu,
                       const char *folder,
                       const char *file,
                       uint64_t *ret_number)
{
    char text[GS_SYS_TEXT], *end;
    uint16_t code = gs_amd_text(gpu, folder, file, text);
    uint64_t number;

    if (code)
        return code;
    errno = 0;
    number = strtoull(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    /* Temperatures below zero read as 0. */
    if (text[0] == '-')
        number = 0;
    if (end == text || errno)
        return 999;
    *ret_number = number;
    return 0;
}

void gs_amd_set(struct gs_amd_gpu *gpu,
                enum gs_gpu_reading reading,
                uint16_t code,
                uint64_t value)
{
    gpu->out->values[reading].code = code;
    gpu->out->values[reading].value = code ? 0 : value;
}

static void read_plain(struct gs_amd_gpu *gpu)
{
    for (size_t i = 0; i < COUNT(plain); i++) {
        uint64_t value = 0;
        uint16_t code = gs_amd_number(gpu, gpu->device, plain[i].file, &value);
        gs_amd_set(gpu, plain[i].reading, code, value);
    }
}

static void read_speed(struct gs_amd_gpu *gpu,
                       enum gs_gpu_reading reading,
                       const char *file)
{
    uint64_t speed = 0, generation = 0;
    uint16_t code = gs_amd_number(gpu, gpu->device, file, &speed);

    for (size_t i = 0; i < COUNT(speeds); i++)
        if (speeds[i] == speed)
            generation = i + 1;
    gs_amd_set(gpu, reading, !code && !generation ? 999 : code, generation);
}

/* The only folder below device/hwmon. */
static bool find_hwmon(const struct gs_amd_gpu *gpu, char ret_path[2 * GS_SYS_PATH])
{
    char path[GS_SYS_PATH + 8];
    struct dirent *entry;
    bool found = false;
    DIR *folder;

    snprintf(path, sizeof(path), "%s/hwmon", gpu->device);
    folder = opendir(path);
    if (!folder)
        return false;
    while (!found && (entry = readdir(folder))) {
        if (strncmp(entry->d_name, "hwmon", 5) != 0)
            continue;
        snprintf(ret_path, 2 * (size_t)GS_SYS_PATH, "%s/%.255s", path, entry->d_name);
        found = true;
    }
    closedir(folder);
    return found;
}

static void read_sensors(struct gs_amd_gpu *gpu)
{
    char hwmon[2 * GS_SYS_PATH];
    bool found = find_hwmon(gpu, hwmon);

    for (size_t i = 0; i < COUNT(sensors); i++) {
        uint64_t value = 0;
        uint16_t code = found ? gs_amd_number(gpu, hwmon, sensors[i].file, &value) : 3;
        if (found && code == 3 && sensors[i].fallback)
            code = gs_amd_number(gpu, hwmon, sensors[i].fallback, &value);
        gs_amd_set(gpu, sensors[i].reading, code, value / sensors[i].divisor);
    }
}

static void read_identity(struct gs_amd_gpu *gpu)
{
    const struct {
        const char *file;
        char *to;
    } texts[] = {
        {"unique_id", gpu->out->uuid},
        {"product_name", gpu->out->name},
        {"vbios_version", gpu->out->vbios},
        {"serial_number", gpu->out->serial},
    };
    char text[GS_SYS_TEXT];

    for (size_t i = 0; i < COUNT(texts); i++)
        if (!gs_amd_text(gpu, gpu->device, texts[i].file, text))
            gs_gpu_text(texts[i].to, text, sizeof(text));
}

void gs_amd_open(const char *root, struct gs_gpus *ret_gpus)
{
    char path[GS_SYS_PATH], text[GS_SYS_TEXT];
    struct gs_bus bus;

    root = root ? root : "";
    gs_gpus_init(ret_gpus);
    ret_gpus->taken_us = gs_clock_wall_us();
    gs_bus_read(root, VENDOR, &bus);
    ret_gpus->pci_count = bus.count;
    ret_gpus->driver_loaded = gs_sys_module(root, "amdgpu");
    if (!ret_gpus->driver_loaded)
        return;
    gs_gpu_text(ret_gpus->vendor, "amd", GS_GPU_TEXT);
    snprintf(path, sizeof(path), "%s/sys/module/amdgpu/version", root);
    if (gs_sys_read(path, text, sizeof(text)) == 0)
        gs_gpu_text(ret_gpus->driver, text, sizeof(text));
    ret_gpus->init_code = 0;
    ret_gpus->count_code = bus.count < 0 ? 999 : 0;
    ret_gpus->told = bus.count < 0 ? 0 : (uint32_t)bus.count;
}

void gs_amd_read(const char *root,
                 uint32_t index,
                 struct gs_nvml_progress *progress,
                 struct gs_gpus *gpus)
{
    struct gs_amd_gpu gpu = {.root = root ? root : "", .progress = progress};
    char text[GS_SYS_TEXT];
    struct gs_bus bus;

    if (index >= gpus->told || index >= GS_GPU_MAX)
        return;
    gpu.out = &gpus->gpus[index];
    gpu.out->index = index;
    gpus->count = index + 1;
    gs_bus_read(gpu.root, VENDOR, &bus);
    /* 28: it was there a moment ago. */
    gpu.out->code = bus.count > 0 && index < (uint32_t)bus.count ? 0 : 28;
    if (gpu.out->code)
        return;
    memcpy(gpu.out->pci, bus.pci[index], sizeof(gpu.out->pci));
    snprintf(gpu.device,
             sizeof(gpu.device),
             "%s/sys/bus/pci/devices/%s",
             gpu.root,
             gpu.out->pci);
    /* Only what the driver has bound has its files. */
    gpu.out->code = gs_amd_text(&gpu, gpu.device, "mem_info_vram_total", text);
    if (gpu.out->code)
        return;
    read_identity(&gpu);
    read_plain(&gpu);
    read_speed(&gpu, GS_GPU_PCIE_GEN, "current_link_speed");
    read_speed(&gpu, GS_GPU_PCIE_GEN_MAX, "max_link_speed");
    read_sensors(&gpu);
    gs_amd_read_ras(&gpu);
    gs_amd_read_processes(&gpu);
    gpus->took_us = gs_clock_wall_us() - gpus->taken_us;
}

int gs_amd_sample(const char *root,
                  struct gs_nvml_progress *progress,
                  struct gs_gpus *ret)
{
    gs_amd_open(root, ret);
    for (uint32_t i = 0; i < ret->told; i++)
        gs_amd_read(root, i, progress, ret);
    ret->took_us = gs_clock_wall_us() - ret->taken_us;
    return 0;
}
