/* amd.h - reads a node's AMD GPUs from sysfs, without any library.
 *
 * Same readings, same structs, same codes as NVML's, so that one set of rules judges
 * both: a file that is not there is NVML_ERROR_NOT_SUPPORTED, one that may not be read
 * NVML_ERROR_NO_PERMISSION, one whose device does not answer NVML_ERROR_GPU_IS_LOST,
 * any other failure NVML_ERROR_UNKNOWN. Reading may block in the driver: see nvml.h.
 */
#ifndef GS_AMD_H
#define GS_AMD_H

#include "gpu.h"
#include "nvml.h"

/* Fills the node's part of ret_gpus: GPUs on the bus, driver, told. root: what stands
 * in for / before /sys, NULL = "". */
void gs_amd_open(const char *root, struct gs_gpus *ret_gpus);

/* Reads GPU number `index` of gpus->told (ascending PCI address) and counts it. */
void gs_amd_read(const char *root,
                 uint32_t index,
                 struct gs_nvml_progress *progress,
                 struct gs_gpus *gpus);

/* Both. Returns 0. */
int gs_amd_sample(const char *root,
                  struct gs_nvml_progress *progress,
                  struct gs_gpus *ret);

#endif
