/* gpu.h - what was read from a node's GPUs at one moment. Values only, no judgement.
 *
 * Every reading carries the code of its query, so that "could not be read" is never
 * mistaken for a value: 0 = value is valid, otherwise NVML's own return code (1..999),
 * GS_GPU_NOT_ASKED before it was tried.
 *
 * How to add a reading: one enumerator here, one row in gpu.c (its name and unit), one
 * row where it is read (nvml.c, amd.c).
 */
#ifndef GS_GPU_H
#define GS_GPU_H

#include <stdbool.h>
#include <stdint.h>

#define GS_GPU_MAX 64
#define GS_GPU_TEXT 96
#define GS_GPU_PROCESSES 64
#define GS_GPU_LINKS 18
#define GS_GPU_NOT_ASKED 1000
#define GS_GPU_HUNG 1001 /* the query did not return within its deadline */

/* Readings of one GPU; names and units: gs_gpu_reading_name(), gs_gpu_reading_unit().
 */
enum gs_gpu_reading {
    GS_GPU_RECOVERY_ACTION, /* field 230: 0 none, 1 reset, 2 reboot, 3 drain p2p ... */
    GS_GPU_ECC_MODE,        /* 1 on */
    GS_GPU_ECC_MODE_PENDING,
    GS_GPU_ECC_UNC_VOLATILE,
    GS_GPU_ECC_UNC_AGGREGATE,
    GS_GPU_ECC_COR_VOLATILE,
    GS_GPU_SRAM_UNC_VOLATILE,
    GS_GPU_SRAM_THRESHOLD,  /* 1 = RMA threshold exceeded */
    GS_GPU_REMAP_FAILED,    /* 1 yes */
    GS_GPU_REMAP_PENDING,   /* 1 yes */
    GS_GPU_REMAP_UNC,       /* rows */
    GS_GPU_UNREPAIRABLE,    /* 1 yes */
    GS_GPU_RETIRED_SBE,     /* pages */
    GS_GPU_RETIRED_DBE,     /* pages */
    GS_GPU_RETIRED_PENDING, /* 1 yes */
    GS_GPU_TEMPERATURE,     /* degrees Celsius */
    GS_GPU_TEMPERATURE_SLOWDOWN,
    GS_GPU_TEMPERATURE_MEMORY,
    GS_GPU_CLOCK_REASONS, /* bit mask of NVML's clocks event reasons */
    GS_GPU_CLOCK_SM,      /* MHz */
    GS_GPU_CLOCK_SM_MAX,  /* MHz */
    GS_GPU_POWER,         /* mW */
    GS_GPU_POWER_LIMIT,   /* mW, enforced */
    GS_GPU_POWER_DEFAULT, /* mW */
    GS_GPU_PCIE_WIDTH,    /* lanes */
    GS_GPU_PCIE_WIDTH_MAX,
    GS_GPU_PCIE_GEN,
    GS_GPU_PCIE_GEN_MAX,
    GS_GPU_PCIE_REPLAYS,
    GS_GPU_NVLINK_COUNT,  /* links the GPU has */
    GS_GPU_NVLINK_ACTIVE, /* links that are up */
    GS_GPU_NVLINK_ERRORS, /* replay, recovery and CRC errors, all links together */
    GS_GPU_FABRIC_STATE,  /* 0 not supported, 1 not started, 2 in progress, 3 done */
    GS_GPU_FABRIC_STATUS, /* NVML code of the registration */
    GS_GPU_FABRIC_HEALTH, /* bit mask */
    GS_GPU_UTILIZATION,   /* percent */
    GS_GPU_MEMORY_UTILIZATION, /* percent */
    GS_GPU_MEMORY_TOTAL,       /* bytes */
    GS_GPU_MEMORY_USED,        /* bytes, without what the driver reserves if it tells */
    GS_GPU_MIG_MODE,           /* 1 on */
    GS_GPU_MIG_MODE_PENDING,
    GS_GPU_COMPUTE_MODE,   /* 0 default, 2 prohibited, 3 exclusive process */
    GS_GPU_PERSISTENCE,    /* 1 on */
    GS_GPU_VIRTUALIZATION, /* 0 none, 1 passthrough, 2 vGPU */
    GS_GPU_MINOR,          /* of /dev/nvidiaN */
    GS_GPU_NUMA_MEMORY,    /* 1 = memory is a NUMA node of the host (GH200, GB200) */
    GS_GPU_INFOROM,        /* 1 = valid */
    GS_GPU_TEMPERATURE_MARGIN, /* degrees below the slowdown limit; 0 = at or past it,
                                  or the GPU says so though it is cool */
    GS_GPU_TEMPERATURE_MEMORY_MAX,
    GS_GPU_REMAP_BANKS_EMPTY, /* memory banks without a spare row left */
    GS_GPU_P2P_BROKEN,        /* peers of this node it cannot reach over NVLink; read
                                 only behind NVSwitches */
    GS_GPU_C2C_DOWN,          /* links to the CPU (GH200, GB200) that are down */
    GS_GPU_READINGS           /* how many there are */
};

struct gs_gpu_value {
    uint16_t code;
    uint64_t value;
};

struct gs_gpu_process {
    uint32_t pid;
    uint64_t memory; /* bytes, UINT64_MAX = not told */
};

/* One GPU. Texts are "" when they could not be read. */
struct gs_gpu {
    uint32_t index; /* in this process's view of NVML; match by uuid or pci */
    uint16_t code;  /* of getting a handle; the rest is not asked unless 0 */
    char uuid[GS_GPU_TEXT];
    char pci[GS_GPU_TEXT]; /* normalised: dddd:bb:dd.f, lower case */
    char name[GS_GPU_TEXT];
    char vbios[GS_GPU_TEXT];
    char serial[GS_GPU_TEXT];
    char fabric_cluster[GS_GPU_TEXT];
    uint32_t fabric_clique;
    struct gs_gpu_value values[GS_GPU_READINGS];
    uint16_t process_code;
    uint32_t process_count;
    struct gs_gpu_process processes[GS_GPU_PROCESSES];
    uint32_t process_total; /* there are; more than process_count if they did not fit */
};

/* A node's GPUs. */
struct gs_gpus {
    uint16_t init_code; /* GS_GPU_NOT_ASKED: no driver, so there was nothing to ask */
    uint16_t count_code;
    uint32_t count;     /* of gpus */
    int32_t pci_count;  /* NVIDIA display devices on the bus, -1 = not known */
    bool driver_loaded; /* /sys/module/nvidia is live */
    char driver[GS_GPU_TEXT];
    char nvml[GS_GPU_TEXT];
    char hung_call[GS_GPU_TEXT]; /* the query that did not return, "" = none */
    char hung_gpu[GS_GPU_TEXT]; /* its PCI address, "index N" if that was not known yet,
                                   "" = none in particular */
    int64_t taken_us;           /* wall clock */
    int64_t took_us;
    struct gs_gpu gpus[GS_GPU_MAX];
    char vendor[GS_GPU_TEXT]; /* whose driver was asked: "nvidia", "amd", "" = none */
    uint32_t told;            /* GPUs the driver counts; more than count if some were
                                 not read any more or did not fit */
};

/* Static texts: "recovery_action", "ecc_unc_volatile"; unit "MHz", "mW", "" ... Any
 * value out of range gives "". */
const char *gs_gpu_reading_name(enum gs_gpu_reading reading);
const char *gs_gpu_reading_unit(enum gs_gpu_reading reading);

/* "NVML_ERROR_GPU_IS_LOST" and so on; "" for a code NVML does not define. */
const char *gs_gpu_code_name(uint16_t code);
/* The reverse, -1 = no such name. */
int gs_gpu_code_of(const char *name);

/* An empty one: nothing asked. */
void gs_gpus_init(struct gs_gpus *gpus);

#endif
