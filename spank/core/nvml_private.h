/* nvml_private.h - the parts of NVML's ABI that are used here, declared by ourselves.
 *
 * Handles are opaque pointers, enums are unsigned ints, every call returns a code. A
 * struct with a version carries (size | number << 24) in its first word.
 */
#ifndef GS_NVML_PRIVATE_H
#define GS_NVML_PRIVATE_H

#include "gpusys_private.h"

enum {
    GS_NVML_SUCCESS = 0,
    GS_NVML_INVALID_ARGUMENT = 2,
    GS_NVML_NOT_SUPPORTED = 3,
    GS_NVML_INSUFFICIENT_SIZE = 7,
    GS_NVML_LIBRARY_NOT_FOUND = 12,
    GS_NVML_FUNCTION_NOT_FOUND = 13,
    GS_NVML_CORRUPTED_INFOROM = 14,
    GS_NVML_VERSION_MISMATCH = 25,
    GS_NVML_UNKNOWN = 999
};

#define GS_NVML_VERSION(type, number) ((unsigned)sizeof(type) | (number) << 24)

struct gs_nvml {
    void *library;
    bool inited, inforom;
    struct gs_nvml_progress *progress;
    struct gs_bus bus;
    char pci[GS_GPU_TEXT];     /* of the GPU being read, as progress shows it */
    void *handles[GS_GPU_MAX]; /* of the GPUs read so far, NULL = could not be opened */
};

/* One GPU being read. */
struct gs_nvml_gpu {
    struct gs_nvml *nvml;
    void *handle;
    struct gs_gpu *out;
};

struct gs_nvml_field {
    uint32_t id, scope;
    int64_t timestamp, latency_us;
    uint32_t type; /* which member of value is meant; other bytes may be junk */
    uint32_t code;
    union {
        double real;
        uint32_t uint;
        unsigned long ulong;
        uint64_t ullong;
        int64_t sllong;
        int32_t sint;
        uint16_t ushort;
    } value;
};

/* Announces a query and finds its function; NULL = this library has none. */
void *gs_nvml_find(struct gs_nvml *nvml, const char *name);

/* The code of a query as gpu.h has it. */
uint16_t gs_nvml_code(int code);

/* Calls get(handle, struct *). */
int gs_nvml_struct(struct gs_nvml_gpu *gpu, const char *name, void *data);

/* Whether a query's code says that an older form of it is worth trying. */
bool gs_nvml_try_older(int code);

/* Notes one reading. */
void gs_nvml_set(struct gs_nvml_gpu *gpu,
                 enum gs_gpu_reading reading,
                 int code,
                 uint64_t value);

/* Asks `count` fields; each has its own code afterwards. */
void gs_nvml_fields(struct gs_nvml_gpu *gpu,
                    struct gs_nvml_field *fields,
                    uint32_t count);

/* The value by its type; a negative one is a number below zero, cut to 0. */
uint64_t gs_nvml_field_value(const struct gs_nvml_field *field);

/* The groups of readings of one GPU; each is a file or a table of its own. */
void gs_nvml_read_simple(struct gs_nvml_gpu *gpu);
void gs_nvml_read_structs(struct gs_nvml_gpu *gpu);
void gs_nvml_read_links(struct gs_nvml_gpu *gpu);
void gs_nvml_read_processes(struct gs_nvml_gpu *gpu);

#endif
