/* gpucheck.h - the catalogue of GPU checks: what each looks at, from where on it
 * matters and what is to be done then.
 *
 * How to add a check: 1. an entry in enum gs_check; 2. a row in CHECKS of gpucheck.c,
 * with a rule of gpucheckrule.c; 3. a row in docs/man/gangstart.conf.5; 4. a row in
 * tests/core/test_gpurule.py and one in tests/nvml/test_matrix.py. Policy and judgement
 * follow.
 */
#ifndef GS_GPUCHECK_H
#define GS_GPUCHECK_H

#include <stdbool.h>
#include <stdint.h>

/* What a hit of a check counts as. INFO is recorded and stays ok. */
enum gs_severity {
    GS_SEVERITY_OFF,
    GS_SEVERITY_INFO,
    GS_SEVERITY_WARN,
    GS_SEVERITY_FAIL,
    GS_SEVERITIES /* how many there are */
};

enum gs_check {
    /* the node */
    GS_CHECK_INIT,
    GS_CHECK_DRIVER,
    GS_CHECK_HUNG,
    GS_CHECK_COUNT,
    GS_CHECK_BUS,
    GS_CHECK_STEP_GPU,
    GS_CHECK_SXID,
    /* whether a GPU answers */
    GS_CHECK_HANDLE,
    GS_CHECK_LOST,
    GS_CHECK_RESET,
    GS_CHECK_QUERY,
    GS_CHECK_SANE,
    /* what a GPU says */
    GS_CHECK_RECOVERY,
    GS_CHECK_RECOVERY_PEER,
    GS_CHECK_XID,
    GS_CHECK_ECC_MODE,
    GS_CHECK_ECC_PENDING,
    GS_CHECK_ECC_UNC,
    GS_CHECK_ECC_HISTORY,
    GS_CHECK_SRAM_UNC,
    GS_CHECK_SRAM_THRESHOLD,
    GS_CHECK_ECC_COR,
    GS_CHECK_ECC_COR_ODD,
    GS_CHECK_REMAP_FAILED,
    GS_CHECK_REMAP_PENDING,
    GS_CHECK_REMAP_ROWS,
    GS_CHECK_REMAP_BANKS,
    GS_CHECK_UNREPAIRABLE,
    GS_CHECK_RETIRED,
    GS_CHECK_RETIRED_DBE,
    GS_CHECK_RETIRED_PENDING,
    GS_CHECK_TEMP_IDLE,
    GS_CHECK_TEMP_HOT,
    GS_CHECK_TEMP_MARGIN,
    GS_CHECK_TEMP_MEMORY,
    GS_CHECK_CLOCK_HW,
    GS_CHECK_CLOCK_HW_BUSY,
    GS_CHECK_CLOCK_SW,
    GS_CHECK_CLOCK_LOCKED,
    GS_CHECK_POWER_LIMIT,
    GS_CHECK_PCIE_WIDTH,
    GS_CHECK_PCIE_GEN,
    GS_CHECK_NVLINK,
    GS_CHECK_P2P,
    GS_CHECK_C2C,
    GS_CHECK_FABRIC,
    GS_CHECK_FABRIC_BAD,
    GS_CHECK_FABRIC_SLOW,
    GS_CHECK_PROCESS,
    GS_CHECK_MEMORY,
    GS_CHECK_MEMORY_HELD,
    GS_CHECK_GHOST,
    GS_CHECK_PERSISTENCE,
    GS_CHECK_MIG_PENDING,
    GS_CHECK_COMPUTE_MODE,
    GS_CHECK_EXCLUSIVE,
    GS_CHECK_INFOROM,
    /* GPUs of one job beside each other */
    GS_CHECK_ODD_MODEL,
    GS_CHECK_ODD_DRIVER,
    GS_CHECK_ODD_VBIOS,
    GS_CHECK_ODD_MEMORY,
    GS_CHECK_ODD_POWER_LIMIT,
    GS_CHECK_ODD_PCIE,
    GS_CHECK_ODD_NVLINK,
    GS_CHECK_ODD_FABRIC,
    GS_CHECKS /* how many there are */
};

#define GS_CHECK_MAX 80 /* room for one entry per check */

/* A check and its defaults. Static texts, none is NULL. */
struct gs_check_info {
    const char *id;    /* "remap_failed", the key in gangstart.conf */
    const char *code;  /* the finding in one word, "REMAP_FAILURE" */
    const char *title; /* what it looks at */
    enum gs_severity severity;
    uint64_t limit;     /* with unit "": there is nothing to set */
    const char *unit;   /* of limit */
    uint32_t grace_s;   /* a hit has to last as long */
    uint32_t retries;   /* and to be seen as often again */
    bool node_wide;     /* not of one GPU, so no section of a GPU model can set it */
    bool at_end;        /* when the job has ended, the node should be drained for it */
    const char *source; /* where the rule comes from */
    const char *action; /* what to do about a hit */
};

/* NULL: out of range. */
const struct gs_check_info *gs_check_get(enum gs_check check);

/* The check of an id, -1 = there is none. */
int gs_check_find(const char *id);

/* "off", "info", "warn", "fail"; static, "" when out of range. */
const char *gs_severity_name(enum gs_severity severity);

#endif
