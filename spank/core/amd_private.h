/* amd_private.h - between amd.c and amd_more.c. */
#ifndef GS_AMD_PRIVATE_H
#define GS_AMD_PRIVATE_H

#include "amd.h"
#include "gpusys_private.h"

/* One GPU being read. */
struct gs_amd_gpu {
    const char *root;
    char device[GS_SYS_PATH]; /* its folder in sysfs */
    struct gs_nvml_progress *progress;
    struct gs_gpu *out;
};

/* A file of a folder, announced first. Returns a code. */
uint16_t gs_amd_text(struct gs_amd_gpu *gpu,
                     const char *folder,
                     const char *file,
                     char ret_text[GS_SYS_TEXT]);

/* The same as a number; leading digits count ("16.0 GT/s PCIe" is 16), 0x is hex. */
uint16_t gs_amd_number(struct gs_amd_gpu *gpu,
                       const char *folder,
                       const char *file,
                       uint64_t *ret_number);

void gs_amd_set(struct gs_amd_gpu *gpu,
                enum gs_gpu_reading reading,
                uint16_t code,
                uint64_t value);

/* ECC counters and bad pages below device/ras, and processes of the compute driver. */
void gs_amd_read_ras(struct gs_amd_gpu *gpu);
void gs_amd_read_processes(struct gs_amd_gpu *gpu);

#endif
