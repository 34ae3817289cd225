/* nvml.h - reads a node's NVIDIA GPUs through the driver's own library.
 *
 * The library is opened at run time and may be absent. Any of its calls may hang for
 * minutes in a driver whose GPU has died, out of reach of signals: ask only in a
 * process that somebody else watches and can do without (gangstart-probe, see probe.h).
 */
#ifndef GS_NVML_H
#define GS_NVML_H

#include "gpu.h"

/* What is being asked at this moment. A reader writes it before each query; one that
 * lies in shared memory can be read by a watcher. */
struct gs_nvml_progress {
    int out;                /* gets a line of JSON per query; -1 = none */
    uint32_t queries;       /* so far */
    char call[GS_GPU_TEXT]; /* "nvmlDeviceGetEccMode" */
    char gpu[GS_GPU_TEXT];  /* PCI address, "index N" before it is known, "" = none */
};

/* Where to ask; NULL or 0 is the ordinary answer. */
struct gs_nvml_source {
    const char *library; /* NULL: libnvidia-ml.so.1 of the dynamic linker's path */
    const char *root;    /* what stands in for / before /sys and /proc; NULL: "" */
    bool inforom;        /* also validate the InfoROM: root only, takes seconds */
};

struct gs_nvml;

/* Opens the library, initialises it and fills the node's part of ret_gpus: whether the
 * driver is loaded, versions, how many GPUs there are. Without a driver nothing is
 * asked: init_code stays GS_GPU_NOT_ASKED and told is 0. Returns 0, *ret_nvml to be
 * closed, or -ENOMEM. */
int gs_nvml_open(const struct gs_nvml_source *source,
                 struct gs_nvml_progress *progress,
                 struct gs_gpus *ret_gpus,
                 struct gs_nvml **ret_nvml);

/* Reads GPU number `index` of gpus->told into gpus->gpus[index] and counts it. GPUs are
 * read in ascending order; an index out of range does nothing. */
void gs_nvml_read(struct gs_nvml *nvml, uint32_t index, struct gs_gpus *gpus);

/* After the last gs_nvml_read(): asks which GPUs reach each other, for which all of
 * them have to be open. It sets one reading of GPUs that were read; done apart, a GPU
 * that hangs costs no reading of the others. */
void gs_nvml_read_peers(struct gs_nvml *nvml, struct gs_gpus *gpus);

/* Shuts the library down. NULL is allowed. */
void gs_nvml_close(struct gs_nvml *nvml);

/* All of the above. Returns 0 or -ENOMEM; what could not be read has its code. */
int gs_nvml_sample(const struct gs_nvml_source *source,
                   struct gs_nvml_progress *progress,
                   struct gs_gpus *ret);

#endif
