/* gpusys_private.h - what sysfs tells about GPUs, and how a reader says where it is. */
#ifndef GS_GPUSYS_PRIVATE_H
#define GS_GPUSYS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu.h"
#include "nvml.h"

/* Room of a path below the root, and of a value in sysfs. */
#define GS_SYS_PATH 512
#define GS_SYS_TEXT 256

/* Notes in progress what is about to be asked, and of which GPU ("" = none); writes the
 * line if there is a descriptor for it. */
void gs_progress_tell(struct gs_nvml_progress *progress,
                      const char *call,
                      const char *gpu);

/* Copies printable ASCII; any other byte becomes '?', trailing blanks go. */
void gs_gpu_text(char ret_text[GS_GPU_TEXT], const char *text, size_t size);

/* "00000000:1A:00.0" or "0000:1a:00.0" as "0000:1a:00.0"; false = no PCI address. */
bool gs_pci_normal(const char *text, char ret_pci[GS_GPU_TEXT]);

/* First bytes of a file, terminated, trailing line ends dropped. 0 or -errno. */
int gs_sys_read(const char *path, char *ret_text, size_t size);

/* Whether a kernel module is loaded and live. */
bool gs_sys_module(const char *root, const char *name);

/* One vendor's GPUs on the bus. */
struct gs_bus {
    int32_t count;                     /* -1 = the bus cannot be read */
    char pci[GS_GPU_MAX][GS_GPU_TEXT]; /* the first ones, ascending */
};

/* Looks through root/sys/bus/pci/devices. vendor: "0x10de" (NVIDIA), "0x1002" (AMD). */
void gs_bus_read(const char *root, const char *vendor, struct gs_bus *ret_bus);

/* Whether there is an accelerator of another vendor than NVIDIA and AMD, and whose. */
bool gs_bus_other(const char *root, char ret_vendor[GS_GPU_TEXT]);

#endif
