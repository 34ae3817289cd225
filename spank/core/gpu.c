/* gpu.c - names of GPU readings and of NVML's return codes; see gpu.h. Tables only. */
#include <string.h>

#include "gpu.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const struct {
    const char *name, *unit;
} readings[GS_GPU_READINGS] = {
    [GS_GPU_RECOVERY_ACTION] = {"recovery_action", ""},
    [GS_GPU_ECC_MODE] = {"ecc_mode", ""},
    [GS_GPU_ECC_MODE_PENDING] = {"ecc_mode_pending", ""},
    [GS_GPU_ECC_UNC_VOLATILE] = {"ecc_unc_volatile", "errors"},
    [GS_GPU_ECC_UNC_AGGREGATE] = {"ecc_unc_aggregate", "errors"},
    [GS_GPU_ECC_COR_VOLATILE] = {"ecc_cor_volatile", "errors"},
    [GS_GPU_SRAM_UNC_VOLATILE] = {"sram_unc_volatile", "errors"},
    [GS_GPU_SRAM_THRESHOLD] = {"sram_threshold", ""},
    [GS_GPU_REMAP_FAILED] = {"remap_failed", ""},
    [GS_GPU_REMAP_PENDING] = {"remap_pending", ""},
    [GS_GPU_REMAP_UNC] = {"remap_unc", "rows"},
    [GS_GPU_UNREPAIRABLE] = {"unrepairable", ""},
    [GS_GPU_RETIRED_SBE] = {"retired_sbe", "pages"},
    [GS_GPU_RETIRED_DBE] = {"retired_dbe", "pages"},
    [GS_GPU_RETIRED_PENDING] = {"retired_pending", ""},
    [GS_GPU_TEMPERATURE] = {"temperature", "C"},
    [GS_GPU_TEMPERATURE_SLOWDOWN] = {"temperature_slowdown", "C"},
    [GS_GPU_TEMPERATURE_MEMORY] = {"temperature_memory", "C"},
    [GS_GPU_CLOCK_REASONS] = {"clock_reasons", ""},
    [GS_GPU_CLOCK_SM] = {"clock_sm", "MHz"},
    [GS_GPU_CLOCK_SM_MAX] = {"clock_sm_max", "MHz"},
    [GS_GPU_POWER] = {"power", "mW"},
    [GS_GPU_POWER_LIMIT] = {"power_limit", "mW"},
    [GS_GPU_POWER_DEFAULT] = {"power_default", "mW"},
    [GS_GPU_PCIE_WIDTH] = {"pcie_width", "lanes"},
    [GS_GPU_PCIE_WIDTH_MAX] = {"pcie_width_max", "lanes"},
    [GS_GPU_PCIE_GEN] = {"pcie_gen", ""},
    [GS_GPU_PCIE_GEN_MAX] = {"pcie_gen_max", ""},
    [GS_GPU_PCIE_REPLAYS] = {"pcie_replays", ""},
    [GS_GPU_NVLINK_COUNT] = {"nvlink_count", "links"},
    [GS_GPU_NVLINK_ACTIVE] = {"nvlink_active", "links"},
    [GS_GPU_NVLINK_ERRORS] = {"nvlink_errors", "errors"},
    [GS_GPU_FABRIC_STATE] = {"fabric_state", ""},
    [GS_GPU_FABRIC_STATUS] = {"fabric_status", ""},
    [GS_GPU_FABRIC_HEALTH] = {"fabric_health", ""},
    [GS_GPU_UTILIZATION] = {"utilization", "%"},
    [GS_GPU_MEMORY_UTILIZATION] = {"memory_utilization", "%"},
    [GS_GPU_MEMORY_TOTAL] = {"memory_total", "bytes"},
    [GS_GPU_MEMORY_USED] = {"memory_used", "bytes"},
    [GS_GPU_MIG_MODE] = {"mig_mode", ""},
    [GS_GPU_MIG_MODE_PENDING] = {"mig_mode_pending", ""},
    [GS_GPU_COMPUTE_MODE] = {"compute_mode", ""},
    [GS_GPU_PERSISTENCE] = {"persistence", ""},
    [GS_GPU_VIRTUALIZATION] = {"virtualization", ""},
    [GS_GPU_MINOR] = {"minor", ""},
    [GS_GPU_NUMA_MEMORY] = {"numa_memory", ""},
    [GS_GPU_INFOROM] = {"inforom", ""},
    [GS_GPU_TEMPERATURE_MARGIN] = {"temperature_margin", "C"},
    [GS_GPU_TEMPERATURE_MEMORY_MAX] = {"temperature_memory_max", "C"},
    [GS_GPU_REMAP_BANKS_EMPTY] = {"remap_banks_empty", "banks"},
    [GS_GPU_P2P_BROKEN] = {"p2p_broken", "peers"},
    [GS_GPU_C2C_DOWN] = {"c2c_down", "links"},
};

static const struct {
    uint16_t code;
    const char *name;
} codes[] = {
    {0, "NVML_SUCCESS"},
    {1, "NVML_ERROR_UNINITIALIZED"},
    {2, "NVML_ERROR_INVALID_ARGUMENT"},
    {3, "NVML_ERROR_NOT_SUPPORTED"},
    {4, "NVML_ERROR_NO_PERMISSION"},
    {5, "NVML_ERROR_ALREADY_INITIALIZED"},
    {6, "NVML_ERROR_NOT_FOUND"},
    {7, "NVML_ERROR_INSUFFICIENT_SIZE"},
    {8, "NVML_ERROR_INSUFFICIENT_POWER"},
    {9, "NVML_ERROR_DRIVER_NOT_LOADED"},
    {10, "NVML_ERROR_TIMEOUT"},
    {11, "NVML_ERROR_IRQ_ISSUE"},
    {12, "NVML_ERROR_LIBRARY_NOT_FOUND"},
    {13, "NVML_ERROR_FUNCTION_NOT_FOUND"},
    {14, "NVML_ERROR_CORRUPTED_INFOROM"},
    {15, "NVML_ERROR_GPU_IS_LOST"},
    {16, "NVML_ERROR_RESET_REQUIRED"},
    {17, "NVML_ERROR_OPERATING_SYSTEM"},
    {18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"},
    {19, "NVML_ERROR_IN_USE"},
    {20, "NVML_ERROR_MEMORY"},
    {21, "NVML_ERROR_NO_DATA"},
    {22, "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED"},
    {23, "NVML_ERROR_INSUFFICIENT_RESOURCES"},
    {24, "NVML_ERROR_FREQ_NOT_SUPPORTED"},
    {25, "NVML_ERROR_ARGUMENT_VERSION_MISMATCH"},
    {26, "NVML_ERROR_DEPRECATED"},
    {27, "NVML_ERROR_NOT_READY"},
    {28, "NVML_ERROR_GPU_NOT_FOUND"},
    {29, "NVML_ERROR_INVALID_STATE"},
    {30, "NVML_ERROR_RESET_TYPE_NOT_SUPPORTED"},
    {999, "NVML_ERROR_UNKNOWN"},
};

const char *gs_gpu_reading_name(enum gs_gpu_reading reading)
{
    return (unsigned)reading < GS_GPU_READINGS ? readings[reading].name : "";
}

const char *gs_gpu_reading_unit(enum gs_gpu_reading reading)
{
    return (unsigned)reading < GS_GPU_READINGS ? readings[reading].unit : "";
}

const char *gs_gpu_code_name(uint16_t code)
{
    for (size_t i = 0; i < COUNT(codes); i++)
        if (codes[i].code == code)
            return codes[i].name;
    return "";
}

int gs_gpu_code_of(const char *name)
{
    for (size_t i = 0; i < COUNT(codes); i++)
        if (strcmp(codes[i].name, name) == 0)
            return codes[i].code;
    return -1;
}

void gs_gpus_init(struct gs_gpus *gpus)
{
    memset(gpus, 0, sizeof(*gpus));
    gpus->init_code = GS_GPU_NOT_ASKED;
    gpus->count_code = GS_GPU_NOT_ASKED;
    gpus->pci_count = -1;
    for (uint32_t i = 0; i < GS_GPU_MAX; i++) {
        gpus->gpus[i].code = GS_GPU_NOT_ASKED;
        gpus->gpus[i].process_code = GS_GPU_NOT_ASKED;
        for (uint32_t r = 0; r < GS_GPU_READINGS; r++)
            gpus->gpus[i].values[r].code = GS_GPU_NOT_ASKED;
    }
}
