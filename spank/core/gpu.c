/* gpu.c - names of GPU readings and of NVML's return codes; see gpu.h.
 *
 * Pure tables; what is out of range has no name.
 */
#include <string.h>

#include "gpu.h"

#define NVML_UNKNOWN 999

static const struct {
    const char *name, *unit;
} READINGS[GS_GPU_READINGS] = {
    [GS_GPU_RECOVERY_ACTION] = {"recovery_action", ""},
    [GS_GPU_ECC_MODE] = {"ecc_mode", ""},
    [GS_GPU_ECC_MODE_PENDING] = {"ecc_mode_pending", ""},
    [GS_GPU_ECC_UNC_VOLATILE] = {"ecc_unc_volatile", ""},
    [GS_GPU_ECC_UNC_AGGREGATE] = {"ecc_unc_aggregate", ""},
    [GS_GPU_ECC_COR_VOLATILE] = {"ecc_cor_volatile", ""},
    [GS_GPU_SRAM_UNC_VOLATILE] = {"sram_unc_volatile", ""},
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
    [GS_GPU_NVLINK_ERRORS] = {"nvlink_errors", ""},
    [GS_GPU_FABRIC_STATE] = {"fabric_state", ""},
    [GS_GPU_FABRIC_STATUS] = {"fabric_status", ""},
    [GS_GPU_FABRIC_HEALTH] = {"fabric_health", ""},
    [GS_GPU_UTILIZATION] = {"utilization", "%"},
    [GS_GPU_MEMORY_UTILIZATION] = {"memory_utilization", "%"},
    [GS_GPU_MEMORY_TOTAL] = {"memory_total", "B"},
    [GS_GPU_MEMORY_USED] = {"memory_used", "B"},
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

static const char *const CODES[] = {
    "NVML_SUCCESS",
    "NVML_ERROR_UNINITIALIZED",
    "NVML_ERROR_INVALID_ARGUMENT",
    "NVML_ERROR_NOT_SUPPORTED",
    "NVML_ERROR_NO_PERMISSION",
    "NVML_ERROR_ALREADY_INITIALIZED",
    "NVML_ERROR_NOT_FOUND",
    "NVML_ERROR_INSUFFICIENT_SIZE",
    "NVML_ERROR_INSUFFICIENT_POWER",
    "NVML_ERROR_DRIVER_NOT_LOADED",
    "NVML_ERROR_TIMEOUT",
    "NVML_ERROR_IRQ_ISSUE",
    "NVML_ERROR_LIBRARY_NOT_FOUND",
    "NVML_ERROR_FUNCTION_NOT_FOUND",
    "NVML_ERROR_CORRUPTED_INFOROM",
    "NVML_ERROR_GPU_IS_LOST",
    "NVML_ERROR_RESET_REQUIRED",
    "NVML_ERROR_OPERATING_SYSTEM",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    "NVML_ERROR_IN_USE",
    "NVML_ERROR_MEMORY",
    "NVML_ERROR_NO_DATA",
    "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED",
    "NVML_ERROR_INSUFFICIENT_RESOURCES",
    "NVML_ERROR_FREQ_NOT_SUPPORTED",
    "NVML_ERROR_ARGUMENT_VERSION_MISMATCH",
    "NVML_ERROR_DEPRECATED",
    "NVML_ERROR_NOT_READY",
    "NVML_ERROR_GPU_NOT_FOUND",
    "NVML_ERROR_INVALID_STATE",
    "NVML_ERROR_RESET_TYPE_NOT_SUPPORTED",
};
#define CODE_COUNT (sizeof(CODES) / sizeof(CODES[0]))
static const char UNKNOWN[] = "NVML_ERROR_UNKNOWN";

const char *gs_gpu_reading_name(enum gs_gpu_reading reading)
{
    return (unsigned)reading < GS_GPU_READINGS ? READINGS[reading].name : "";
}

const char *gs_gpu_reading_unit(enum gs_gpu_reading reading)
{
    return (unsigned)reading < GS_GPU_READINGS ? READINGS[reading].unit : "";
}

const char *gs_gpu_code_name(uint16_t code)
{
    if (code == NVML_UNKNOWN)
        return UNKNOWN;
    return code < CODE_COUNT ? CODES[code] : "";
}

int gs_gpu_code_of(const char *name)
{
    if (strcmp(name, UNKNOWN) == 0)
        return NVML_UNKNOWN;
    for (unsigned i = 0; i < CODE_COUNT; i++) {
        if (strcmp(name, CODES[i]) == 0)
            return (int)i;
    }
    return -1;
}

void gs_gpus_init(struct gs_gpus *gpus)
{
    memset(gpus, 0, sizeof(*gpus));
    gpus->init_code = GS_GPU_NOT_ASKED;
    gpus->count_code = GS_GPU_NOT_ASKED;
    gpus->pci_count = -1;
    for (unsigned i = 0; i < GS_GPU_MAX; i++) {
        struct gs_gpu *gpu = &gpus->gpus[i];

        gpu->index = i;
        gpu->code = GS_GPU_NOT_ASKED;
        gpu->process_code = GS_GPU_NOT_ASKED;
        for (unsigned r = 0; r < GS_GPU_READINGS; r++)
            gpu->values[r].code = GS_GPU_NOT_ASKED;
    }
}
