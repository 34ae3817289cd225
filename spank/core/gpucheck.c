/* gpucheck.c - the table of GPU checks; see gpucheck.h for how to add one.
 *
 * Each row: id, code, what it looks at; its defaults; where the rule comes from and
 * what to do; the rule, the readings it needs, when it does not apply, the sentence. A
 * limit is the last value that is fine, unless the sentence says otherwise.
 */
#include <string.h>

#include "gpurule_private.h"

#define DEFAULT(severity, limit, unit, grace, retries)                                 \
    GS_SEVERITY_##severity, limit, unit, grace, retries
#define NODE true, false
#define GPU false, false
#define GPU_AT_END false, true
#define NEEDS(...)                                                                     \
    sizeof((enum gs_gpu_reading[]){__VA_ARGS__}) / sizeof(enum gs_gpu_reading),        \
    {                                                                                  \
        __VA_ARGS__                                                                    \
    }
#define MADE_ELSEWHERE NULL, 0, {0}, 0, ""

#define RESET "reset the GPU (nvidia-smi --gpu-reset) or reboot the node"
#define REBOOT "reboot the node; if it recurs, have the GPU looked at"
#define REPLACE "have the GPU replaced"
#define LOOK "look at nvidia-smi -q of this GPU"

/* A table reads better with few lines per row. */
/* clang-format off */
static const struct gs_check_row CHECKS[GS_CHECKS] = {
    [GS_CHECK_INIT] = {{"init", "NVML_INIT_FAILED", "NVML starts", DEFAULT(FAIL, 0, "", 0, 0), NODE,
        "nvml.h",
        "look at nvidia-smi and the kernel log; load the driver or reboot"},
        MADE_ELSEWHERE},
    [GS_CHECK_DRIVER] =
        {{"driver", "DRIVER_LIB_MISMATCH", "driver and library are of one version",
        DEFAULT(FAIL, 0, "", 0, 0), NODE, "nvml.h",
        "drain the node and reboot it: the driver was upgraded while it was loaded"},
        MADE_ELSEWHERE},
    [GS_CHECK_HUNG] = {{"hung", "DRIVER_UNRESPONSIVE", "the driver answers in time",
        DEFAULT(FAIL, 0, "", 0, 0), NODE, "DCGM",
        "drain the node and reboot it; do not start more NVML programs there"},
        MADE_ELSEWHERE},
    [GS_CHECK_COUNT] =
        {{"count", "GPU_COUNT", "as many GPUs as gres.conf says", DEFAULT(FAIL, 0, "", 0, 1), NODE,
        "GCM, Azure", "look for the missing GPU in lspci and the kernel log; reboot the node"},
        MADE_ELSEWHERE},
    [GS_CHECK_BUS] = {{"bus", "GPU_LOST", "the driver has every GPU of the PCI bus",
        DEFAULT(FAIL, 0, "", 0, 1), NODE, "nvidia-resiliency-ext",
        "reboot the node; if the GPU stays away, have it looked at"},
        MADE_ELSEWHERE},
    [GS_CHECK_STEP_GPU] = {{"step_gpu", "GPU_LOST", "every GPU of the step is there",
        DEFAULT(FAIL, 0, "", 0, 1), NODE, "Slurm",
        "look for the GPU in nvidia-smi -L; reboot the node if it is gone"},
        MADE_ELSEWHERE},
    [GS_CHECK_SXID] = {{"sxid", "NVSWITCH_ERROR", "NVSwitch faults (SXid)",
        DEFAULT(FAIL, 0, "", 0, 0), NODE, "imbue cluster-health",
        "reboot the node; if it recurs, have the NVSwitch looked at"},
        MADE_ELSEWHERE},
    [GS_CHECK_HANDLE] = {{"handle", "QUERY_FAILED", "the GPU can be opened",
        DEFAULT(FAIL, 0, "", 0, 1), GPU, "nvml.h, gpud", REBOOT},
        MADE_ELSEWHERE},
    [GS_CHECK_LOST] = {{"lost", "GPU_LOST", "the GPU is on the bus", DEFAULT(FAIL, 0, "", 0, 0),
        GPU, "nvml.h (Xid 79)", REBOOT},
        MADE_ELSEWHERE},
    [GS_CHECK_RESET] = {{"reset", "RESET_REQUIRED", "no query asks for a reset",
        DEFAULT(FAIL, 0, "", 0, 0), GPU, "nvml.h", RESET},
        MADE_ELSEWHERE},
    [GS_CHECK_QUERY] = {{"query", "QUERY_FAILED", "queries are answered",
        DEFAULT(FAIL, 0, "", 0, 3), GPU, "nvml.h, gpud", LOOK},
        MADE_ELSEWHERE},
    [GS_CHECK_SANE] = {{"sane", "QUERY_FAILED", "values can be true", DEFAULT(WARN, 0, "", 0, 1),
        GPU, "nvml.h", LOOK},
        MADE_ELSEWHERE},
    [GS_CHECK_RECOVERY] = {{"recovery", "RESET_REQUIRED", "the driver asks for no recovery",
        DEFAULT(FAIL, 0, "", 0, 1), GPU_AT_END,
        "nvidia-resiliency-ext, DCGM",
        "do what the driver asks for: " RESET},
        gs_rule_recovery, NEEDS(GS_GPU_RECOVERY_ACTION), 0, "the driver asks to {v}"},
    [GS_CHECK_RECOVERY_PEER] = {{"recovery_peer", "RECOVERY_PEER",
        "the driver asks for no recovery of its peers",
        DEFAULT(WARN, 0, "", 0, 1), GPU, "DCGM",
        "look for the peer with a fault: NVLink, IMEX"},
        gs_rule_recovery_peer, NEEDS(GS_GPU_RECOVERY_ACTION), 0, "the driver asks to {v}"},
    [GS_CHECK_XID] = {{"xid", "GPU_XID", "faults in the kernel log (Xid)",
        DEFAULT(FAIL, 0, "", 0, 0), GPU, "NVIDIA Xid catalogue",
        "look the Xid up in NVIDIA's catalogue"},
        MADE_ELSEWHERE},
    [GS_CHECK_ECC_MODE] = {{"ecc_mode", "ECC_OFF", "ECC is on", DEFAULT(WARN, 0, "", 0, 0), GPU,
        "imbue cluster-health", "nvidia-smi -e 1, then reset the GPU"},
        gs_rule_ecc_off, NEEDS(GS_GPU_ECC_MODE), 0, "ECC is off"},
    [GS_CHECK_ECC_PENDING] = {{"ecc_pending", "ECC_PENDING", "no change of ECC waits for a reset",
        DEFAULT(WARN, 0, "", 0, 0), GPU_AT_END, "nvml.h", RESET},
        gs_rule_differ, NEEDS(GS_GPU_ECC_MODE, GS_GPU_ECC_MODE_PENDING), 0,
        "ECC mode is {v} and becomes {l} at the next reset"},
    [GS_CHECK_ECC_UNC] =
        {{"ecc_unc", "ECC_UNCORRECTED", "uncorrectable ECC errors since the driver was loaded",
        DEFAULT(FAIL, 0, "errors", 0, 1), GPU_AT_END, "GCM, DCGM, AWS", RESET},
        gs_rule_above, NEEDS(GS_GPU_ECC_UNC_VOLATILE), 0,
        "{v} uncorrectable ECC errors since the driver was loaded, more than {l}"},
    [GS_CHECK_ECC_HISTORY] = {{"ecc_history", "ECC_HISTORY", "uncorrectable ECC errors ever",
        DEFAULT(INFO, 0, "errors", 0, 0), GPU, "gpud",
        "nothing: such rows are replaced; watch it grow"},
        gs_rule_above, NEEDS(GS_GPU_ECC_UNC_AGGREGATE), 0,
        "{v} uncorrectable ECC errors in its life, more than {l}"},
    [GS_CHECK_SRAM_UNC] =
        {{"sram_unc", "ECC_UNCORRECTED", "uncorrectable SRAM errors since the driver was loaded",
        DEFAULT(FAIL, 0, "errors", 0, 1), GPU_AT_END, "Azure", RESET},
        gs_rule_above, NEEDS(GS_GPU_SRAM_UNC_VOLATILE), 0,
        "{v} uncorrectable SRAM errors since the driver was loaded, more than {l}"},
    [GS_CHECK_SRAM_THRESHOLD] =
        {{"sram_threshold", "SRAM_THRESHOLD", "SRAM errors are below the limit for replacement",
        DEFAULT(FAIL, 0, "", 0, 1), GPU, "DCGM", REPLACE},
        gs_rule_set, NEEDS(GS_GPU_SRAM_THRESHOLD), 0,
        "SRAM errors are beyond the limit for replacement"},
    [GS_CHECK_ECC_COR] =
        {{"ecc_cor", "ECC_CORRECTED_RATE", "corrected ECC errors since the driver was loaded",
        DEFAULT(WARN, 20000000, "errors", 0, 0), GPU, "Azure, GCM",
        "watch it; a reset lets rows be replaced"},
        gs_rule_above, NEEDS(GS_GPU_ECC_COR_VOLATILE), 0,
        "{v} corrected ECC errors since the driver was loaded, more than {l}"},
    [GS_CHECK_ECC_COR_ODD] = {{"ecc_cor_odd", "ECC_CORRECTED_RATE",
        "corrected ECC errors are as rare as on the other GPUs",
        DEFAULT(WARN, 1000000, "errors", 0, 0), GPU, "DCGM",
        "watch it; a reset lets rows be replaced"},
        gs_rule_ecc_odd, NEEDS(GS_GPU_ECC_COR_VOLATILE), 0,
        "{v} corrected ECC errors while no other GPU of the node has more than {l}"},
    [GS_CHECK_REMAP_FAILED] =
        {{"remap_failed", "REMAP_FAILURE", "bad memory rows could be replaced",
        DEFAULT(FAIL, 0, "", 0, 1), GPU, "GCM, DCGM, Azure, gpud", REPLACE},
        gs_rule_set, NEEDS(GS_GPU_REMAP_FAILED), 0, "a bad memory row could not be replaced"},
    [GS_CHECK_REMAP_PENDING] =
        {{"remap_pending", "REMAP_PENDING", "no replacement of memory rows waits for a reset",
        DEFAULT(WARN, 0, "", 0, 0), GPU_AT_END, "NVIDIA Xid catalogue (63)", RESET},
        gs_rule_set, NEEDS(GS_GPU_REMAP_PENDING), 0,
        "bad memory rows are replaced at the next reset"},
    [GS_CHECK_REMAP_ROWS] =
        {{"remap_rows", "REMAP_MANY", "few memory rows were replaced",
        DEFAULT(WARN, 511, "rows", 0, 0), GPU, "DCGM", "plan to have the GPU replaced"},
        gs_rule_above, NEEDS(GS_GPU_REMAP_UNC), 0,
        "{v} of its memory were replaced after uncorrectable errors, more than {l}"},
    [GS_CHECK_REMAP_BANKS] =
        {{"remap_banks", "REMAP_MANY", "every memory bank has spare rows",
        DEFAULT(WARN, 0, "banks", 0, 0), GPU, "nvml.h", "plan to have the GPU replaced"},
        gs_rule_above, NEEDS(GS_GPU_REMAP_BANKS_EMPTY), 0,
        "{v} of its memory have no spare row left, more than {l}"},
    [GS_CHECK_UNREPAIRABLE] = {{"unrepairable", "REMAP_FAILURE", "no unrepairable memory",
        DEFAULT(FAIL, 0, "", 0, 1), GPU, "DCGM", REPLACE},
        gs_rule_set, NEEDS(GS_GPU_UNREPAIRABLE), 0, "its memory is unrepairable"},
    [GS_CHECK_RETIRED] = {{"retired", "PAGES_RETIRED", "few memory pages are retired",
        DEFAULT(FAIL, 62, "pages", 0, 1), GPU, "DCGM", REPLACE},
        gs_rule_retired, NEEDS(GS_GPU_RETIRED_SBE, GS_GPU_RETIRED_DBE), 0,
        "{v} memory pages are retired, more than {l}"},
    [GS_CHECK_RETIRED_DBE] =
        {{"retired_dbe", "PAGES_RETIRED", "few memory pages are retired for double-bit errors",
        DEFAULT(FAIL, 15, "pages", 0, 1), GPU, "DCGM", REPLACE},
        gs_rule_above, NEEDS(GS_GPU_RETIRED_DBE), 0,
        "{v} of memory are retired for double-bit errors, more than {l}"},
    [GS_CHECK_RETIRED_PENDING] =
        {{"retired_pending", "PAGES_PENDING", "no retirement of pages waits for a reset",
        DEFAULT(WARN, 0, "", 0, 0), GPU_AT_END, "DCGM", RESET},
        gs_rule_set, NEEDS(GS_GPU_RETIRED_PENDING), 0,
        "bad memory pages are retired at the next reset"},
    [GS_CHECK_TEMP_IDLE] =
        {{"temp_idle", "HOT", "an idle GPU is cool", DEFAULT(WARN, 60, "C", 30, 3), GPU, "Modal",
        "look at fans, cooling and the room"},
        gs_rule_above, NEEDS(GS_GPU_TEMPERATURE), GS_UNLESS_GPU_BUSY,
        "{v} while idle, more than {l}"},
    [GS_CHECK_TEMP_HOT] =
        {{"temp_hot", "HOT", "below the temperature that slows it down",
        DEFAULT(FAIL, 0, "", 60, 3), GPU, "gpud", "look at fans, cooling and the room"},
        gs_rule_above_reading, NEEDS(GS_GPU_TEMPERATURE, GS_GPU_TEMPERATURE_SLOWDOWN), 0,
        "{v}, and from {l} on it slows down"},
    [GS_CHECK_TEMP_MARGIN] =
        {{"temp_margin", "HOT", "far from the temperature that slows it down",
        DEFAULT(WARN, 5, "C", 30, 3), GPU, "gpud", "look at fans, cooling and the room"},
        gs_rule_margin, NEEDS(GS_GPU_TEMPERATURE_MARGIN), 0,
        "{v} below the temperature that slows it down, not more than {l}"},
    [GS_CHECK_TEMP_MEMORY] =
        {{"temp_memory", "HOT", "memory is not too hot", DEFAULT(WARN, 0, "", 30, 3), GPU, "nvml.h",
        "look at fans, cooling and the room"},
        gs_rule_above_reading, NEEDS(GS_GPU_TEMPERATURE_MEMORY, GS_GPU_TEMPERATURE_MEMORY_MAX),
        0, "its memory has {v}, at most {l} are allowed"},
    [GS_CHECK_CLOCK_HW] =
        {{"clock_hw", "THROTTLED", "the hardware slows no idle GPU down",
        DEFAULT(FAIL, 0, "", 30, 3), GPU, "Azure", "look at power supply, cooling and cables"},
        gs_rule_clock_hw, NEEDS(GS_GPU_CLOCK_REASONS), GS_UNLESS_GPU_BUSY,
        "it is slowed down while idle: {v}"},
    [GS_CHECK_CLOCK_HW_BUSY] =
        {{"clock_hw_busy", "THROTTLED", "the hardware slows no working GPU down",
        DEFAULT(WARN, 0, "", 30, 3), GPU, "gpud", "look at power supply, cooling and cables"},
        gs_rule_clock_hw, NEEDS(GS_GPU_CLOCK_REASONS), GS_UNLESS_GPU_IDLE,
        "it is slowed down: {v}"},
    [GS_CHECK_CLOCK_SW] =
        {{"clock_sw", "THROTTLED", "heat slows no GPU down", DEFAULT(WARN, 0, "", 30, 3), GPU,
        "Azure", "look at fans, cooling and the room"},
        gs_rule_clock_sw, NEEDS(GS_GPU_CLOCK_REASONS), 0, "it is slowed down: {v}"},
    [GS_CHECK_CLOCK_LOCKED] =
        {{"clock_locked", "CLOCK_LOCKED", "clocks are not set low", DEFAULT(WARN, 80, "%", 10, 1),
        GPU, "GCM", "nvidia-smi -rac; nvidia-smi -rgc"},
        gs_rule_clock_locked, NEEDS(GS_GPU_CLOCK_REASONS, GS_GPU_CLOCK_SM, GS_GPU_CLOCK_SM_MAX),
        GS_UNLESS_GPU_IDLE, "somebody has set its clock: {v} of {l}"},
    [GS_CHECK_POWER_LIMIT] = {{"power_limit", "POWER_CAPPED", "the power limit is the default",
        DEFAULT(WARN, 90, "%", 0, 0), GPU, "Azure",
        "nvidia-smi -pl, unless the site wants the cap"},
        gs_rule_below_percent, NEEDS(GS_GPU_POWER_LIMIT, GS_GPU_POWER_DEFAULT), 0,
        "its power limit is {v}, its default {l}"},
    [GS_CHECK_PCIE_WIDTH] =
        {{"pcie_width", "PCIE_WIDTH",
        "all PCIe lanes (limit: lanes expected, 0 = what the GPU can)",
        DEFAULT(FAIL, 0, "lanes", 0, 1), GPU, "NVIDIA",
        "reseat the GPU or its riser; if the board has fewer lanes, set the limit"},
        gs_rule_below_best, NEEDS(GS_GPU_PCIE_WIDTH, GS_GPU_PCIE_WIDTH_MAX), GS_UNLESS_GUEST,
        "{v} of PCIe, {l} expected"},
    [GS_CHECK_PCIE_GEN] =
        {{"pcie_gen", "PCIE_GEN",
        "full PCIe speed under load (limit: generation expected, 0 = what the GPU "
        "can)",
        DEFAULT(WARN, 0, "generation", 10, 2), GPU, "NVIDIA",
        "reseat the GPU or its riser; if the board is older, set the limit"},
        gs_rule_below_best, NEEDS(GS_GPU_PCIE_GEN, GS_GPU_PCIE_GEN_MAX),
        GS_UNLESS_GPU_IDLE | GS_UNLESS_GUEST, "PCIe generation {v} under load, {l} expected"},
    [GS_CHECK_NVLINK] =
        {{"nvlink", "NVLINK_DOWN",
        "all NVLinks are up (limit: links expected, 0 = by model and peers)",
        DEFAULT(FAIL, 0, "links", 0, 1), GPU, "nvidia-resiliency-ext, nccl",
        "reset the GPUs and the fabric manager; if the board has fewer links, set "
        "the limit"},
        gs_rule_nvlink, NEEDS(GS_GPU_NVLINK_ACTIVE), GS_UNLESS_MIG,
        "{v} of NVLink are up, {l} expected"},
    [GS_CHECK_P2P] = {{"p2p", "NVLINK_DOWN", "every peer of the node is reached over NVLink",
        DEFAULT(FAIL, 0, "peers", 0, 1), GPU, "gpud",
        "restart the fabric manager, then reset the GPUs"},
        gs_rule_above, NEEDS(GS_GPU_P2P_BROKEN), GS_UNLESS_MIG | GS_UNLESS_GUEST,
        "{v} of its node cannot be reached over NVLink, more than {l}"},
    [GS_CHECK_C2C] = {{"c2c", "C2C_DOWN", "the link to the CPU is up", DEFAULT(FAIL, 0, "", 0, 1),
        GPU, "nvml.h", REBOOT},
        gs_rule_set, NEEDS(GS_GPU_C2C_DOWN), 0, "{v} to the CPU are down"},
    [GS_CHECK_FABRIC] =
        {{"fabric", "FABRIC_MANAGER", "the NVLink fabric is set up", DEFAULT(FAIL, 0, "", 60, 5),
        GPU, "nvml.h", "look at nvidia-fabricmanager or nvidia-imex on this node"},
        gs_rule_fabric, NEEDS(GS_GPU_FABRIC_STATE), GS_UNLESS_MIG,
        "the NVLink fabric is not set up: {v}"},
    [GS_CHECK_FABRIC_BAD] =
        {{"fabric_bad", "FABRIC_MANAGER", "the NVLink fabric is sound", DEFAULT(FAIL, 0, "", 0, 1),
        GPU, "nvml.h", "look at nvidia-fabricmanager or nvidia-imex and the switches"},
        gs_rule_fabric_bad, NEEDS(GS_GPU_FABRIC_HEALTH), GS_UNLESS_MIG,
        "in the NVLink fabric {v}"},
    [GS_CHECK_FABRIC_SLOW] =
        {{"fabric_slow", "FABRIC_DEGRADED", "the NVLink fabric is at full strength",
        DEFAULT(WARN, 0, "", 10, 1), GPU, "nvml.h",
        "look at nvidia-fabricmanager or nvidia-imex and the switches"},
        gs_rule_fabric_slow, NEEDS(GS_GPU_FABRIC_HEALTH), GS_UNLESS_MIG,
        "in the NVLink fabric {v}"},
    [GS_CHECK_PROCESS] = {{"process", "GPU_LEFTOVER", "no process of an ended job is left",
        DEFAULT(FAIL, 0, "", 15, 3), GPU, "GCM",
        "end these processes, or reboot the node if they cannot be ended"},
        gs_rule_process, 0, {0}, GS_UNLESS_NODE_BUSY, "processes of no running job are on it: {v}"},
    [GS_CHECK_MEMORY] = {{"memory", "GPU_LEFTOVER", "memory is free when no job runs",
        DEFAULT(WARN, 500, "MiB", 15, 3), GPU, "GCM",
        "look for the process that holds it; reset the GPU if there is none"},
        gs_rule_above_mib, NEEDS(GS_GPU_MEMORY_USED), GS_UNLESS_NODE_BUSY | GS_UNLESS_NUMA,
        "{v} of memory are in use and no job runs, more than {l}"},
    [GS_CHECK_MEMORY_HELD] = {{"memory_held", "GPU_LEFTOVER", "no memory is held by nobody",
        DEFAULT(FAIL, 2048, "MiB", 15, 3), GPU_AT_END, "GCM", RESET},
        gs_rule_held, NEEDS(GS_GPU_MEMORY_USED),
        GS_UNLESS_NODE_BUSY | GS_UNLESS_NUMA | GS_UNLESS_GUEST,
        "{v} of memory are in use by no process at all, more than {l}"},
    [GS_CHECK_GHOST] =
        {{"ghost", "GHOST_LOAD", "no load without a process", DEFAULT(WARN, 95, "%", 15, 3), GPU,
        "lium-io", "create and destroy a CUDA context on it, or reset it"},
        gs_rule_ghost, NEEDS(GS_GPU_UTILIZATION, GS_GPU_MEMORY_USED),
        GS_UNLESS_NUMA | GS_UNLESS_GUEST,
        "it is {v} busy with no process and no memory in use"},
    [GS_CHECK_PERSISTENCE] =
        {{"persistence", "PERSISTENCE_OFF", "persistence mode is on", DEFAULT(WARN, 0, "", 0, 0),
        GPU, "AWS", "start nvidia-persistenced, or nvidia-smi -pm 1"},
        gs_rule_clear, NEEDS(GS_GPU_PERSISTENCE), GS_UNLESS_GUEST,
        "persistence mode is off, so every first program waits for the driver"},
    [GS_CHECK_MIG_PENDING] = {{"mig_pending", "MIG_PENDING", "no change of MIG waits for a reset",
        DEFAULT(FAIL, 0, "", 0, 1), GPU_AT_END, "nvml.h", RESET},
        gs_rule_differ, NEEDS(GS_GPU_MIG_MODE, GS_GPU_MIG_MODE_PENDING), 0,
        "MIG mode is {v} and becomes {l} at the next reset"},
    [GS_CHECK_COMPUTE_MODE] =
        {{"compute_mode", "COMPUTE_PROHIBITED", "programs may use it", DEFAULT(FAIL, 0, "", 0, 1),
        GPU, "nvml.h", "nvidia-smi -c DEFAULT"},
        gs_rule_prohibited, NEEDS(GS_GPU_COMPUTE_MODE), 0,
        "its compute mode is prohibited: no program can use it"},
    [GS_CHECK_EXCLUSIVE] = {{"exclusive", "COMPUTE_EXCLUSIVE", "several programs may use it",
        DEFAULT(INFO, 0, "", 0, 0), GPU, "nvml.h",
        "nothing, unless tasks share GPUs: nvidia-smi -c DEFAULT"},
        gs_rule_exclusive, NEEDS(GS_GPU_COMPUTE_MODE), 0,
        "its compute mode is exclusive: one program at a time"},
    [GS_CHECK_INFOROM] = {{"inforom", "INFOROM", "its InfoROM is sound", DEFAULT(WARN, 0, "", 0, 1),
        GPU, "DCGM", "update the VBIOS; if it stays, have the GPU looked at"},
        gs_rule_clear, NEEDS(GS_GPU_INFOROM), 0, "its InfoROM is corrupted"},
    [GS_CHECK_ODD_MODEL] =
        {{"odd_model", "GPU_MIX", "GPUs of a job are of one model", DEFAULT(WARN, 0, "", 0, 0),
        NODE, "GCM", "ask for one type: --gpus=TYPE:N"},
        MADE_ELSEWHERE},
    [GS_CHECK_ODD_DRIVER] =
        {{"odd_driver", "GPU_MIX", "GPUs of a job have one driver", DEFAULT(WARN, 0, "", 0, 0),
        NODE, "GCM", "bring the nodes to one driver"},
        MADE_ELSEWHERE},
    [GS_CHECK_ODD_VBIOS] =
        {{"odd_vbios", "GPU_MIX", "GPUs of a job have one VBIOS", DEFAULT(WARN, 0, "", 0, 0), NODE,
        "GCM", "bring the GPUs to one VBIOS"},
        MADE_ELSEWHERE},
    [GS_CHECK_ODD_MEMORY] = {{"odd_memory", "GPU_MIX", "GPUs of a job have the same memory",
        DEFAULT(WARN, 0, "", 0, 0), NODE, "GCM", LOOK},
        MADE_ELSEWHERE},
    [GS_CHECK_ODD_POWER_LIMIT] =
        {{"odd_power_limit", "GPU_MIX", "GPUs of a job have one power limit",
        DEFAULT(WARN, 0, "", 0, 0), NODE, "Azure",
        "nvidia-smi -pl: the slowest GPU sets the pace of all"},
        MADE_ELSEWHERE},
    [GS_CHECK_ODD_PCIE] =
        {{"odd_pcie", "GPU_MIX", "GPUs of a job have the same PCIe width",
        DEFAULT(WARN, 0, "", 0, 0), NODE, "NVIDIA", "reseat the GPU or its riser"},
        MADE_ELSEWHERE},
    [GS_CHECK_ODD_NVLINK] = {{"odd_nvlink", "GPU_MIX", "GPUs of a job have as many NVLinks up",
        DEFAULT(WARN, 0, "", 0, 0), NODE, "nvidia-resiliency-ext",
        "reset the GPUs and the fabric manager"},
        MADE_ELSEWHERE},
    [GS_CHECK_ODD_FABRIC] =
        {{"odd_fabric", "FABRIC_SPLIT", "GPUs of a job are in one NVLink fabric",
        DEFAULT(INFO, 0, "", 0, 0), NODE, "nvml.h",
        "nothing, unless the job was to fit into one NVLink domain"},
        MADE_ELSEWHERE},
};
/* clang-format on */

static const char *const SEVERITIES[GS_SEVERITIES] = {"off", "info", "warn", "fail"};

const struct gs_check_row *gs_check_row(enum gs_check check)
{
    return (unsigned)check < GS_CHECKS ? &CHECKS[check] : NULL;
}

const struct gs_check_info *gs_check_get(enum gs_check check)
{
    return (unsigned)check < GS_CHECKS ? &CHECKS[check].info : NULL;
}

int gs_check_find(const char *id)
{
    for (int i = 0; i < (int)GS_CHECKS; i++) {
        if (strcmp(CHECKS[i].info.id, id) == 0)
            return i;
    }
    return -1;
}

const char *gs_severity_name(enum gs_severity severity)
{
    return (unsigned)severity < GS_SEVERITIES ? SEVERITIES[severity] : "";
}
