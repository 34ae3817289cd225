/* nvml_procs.c - the processes that hold a GPU. Three lists (compute, graphics, MPS
 * clients) become one; a list this GPU does not have is an empty one, except compute's.
 */
#include <stdlib.h>
#include <string.h>

#include "nvml_private.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define FIRST 64         /* slots of the first request */
#define MOST (64 * 1024) /* a driver that wants more is talking nonsense */
#define TRIES 4

struct info_v1 {
    unsigned pid;
    unsigned long long memory;
};

struct info_v2 {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

/* The newest first. Every list has these three forms. */
static const struct {
    const char *suffix;
    size_t size;
} forms[] = {
    {"_v3", sizeof(struct info_v2)},
    {"_v2", sizeof(struct info_v2)},
    {"", sizeof(struct info_v1)},
};

static const struct {
    const char *name;
    bool optional;
} lists[] = {
    {"nvmlDeviceGetComputeRunningProcesses", false},
    {"nvmlDeviceGetGraphicsRunningProcesses", true},
    {"nvmlDeviceGetMPSComputeRunningProcesses", true},
};

typedef int (*list_fn)(void *, unsigned *, void *);

static void add(struct gs_gpu *gpu, unsigned pid, unsigned long long memory)
{
    for (uint32_t i = 0; i < gpu->process_count; i++)
        if (gpu->processes[i].pid == pid)
            return;
    gpu->process_total++;
    if (gpu->process_count < GS_GPU_PROCESSES)
        gpu->processes[gpu->process_count++] =
            (struct gs_gpu_process){.pid = pid, .memory = memory};
}

static void add_all(struct gs_gpu *gpu,
                    const uint8_t *slots,
                    unsigned count,
                    size_t size)
{
    for (unsigned i = 0; i < count; i++) {
        struct info_v1 one; /* the common start of all forms */
        memcpy(&one, slots + i * size, sizeof(one));
        add(gpu, one.pid, one.memory);
    }
}

/* One list in one form. The buffer is never NULL and never small: some drivers answer a
 * request without a buffer wrongly. */
static int read_form(struct gs_nvml_gpu *gpu, list_fn get, size_t size)
{
    unsigned room = FIRST, count;
    int code = GS_NVML_INSUFFICIENT_SIZE;

    for (int i = 0; i < TRIES && code == GS_NVML_INSUFFICIENT_SIZE; i++) {
        uint8_t *slots = calloc(room, size);
        if (!slots)
            return GS_NVML_UNKNOWN;
        count = room;
        code = get(gpu->handle, &count, slots);
        if (!code)
            add_all(gpu->out, slots, count < room ? count : room, size);
        free(slots);
        /* There may be more of them by the next request. */
        room = (count > room ? count : room) * 2;
        if (room > MOST || count > MOST)
            break;
    }
    return code;
}

static int read_list(struct gs_nvml_gpu *gpu, const char *name)
{
    int code = GS_NVML_FUNCTION_NOT_FOUND;

    for (size_t i = 0; i < COUNT(forms); i++) {
        char full[GS_GPU_TEXT];
        list_fn get;
        strcpy(full, name);
        strcat(full, forms[i].suffix);
        get = (list_fn)gs_nvml_find(gpu->nvml, full);
        if (get)
            code = read_form(gpu, get, forms[i].size);
        if (code != GS_NVML_FUNCTION_NOT_FOUND)
            return code;
    }
    return code;
}

void gs_nvml_read_processes(struct gs_nvml_gpu *gpu)
{
    gpu->out->process_code = 0;
    for (size_t i = 0; i < COUNT(lists); i++) {
        int code = read_list(gpu, lists[i].name);
        if (lists[i].optional
            && (code == GS_NVML_NOT_SUPPORTED || code == GS_NVML_FUNCTION_NOT_FOUND))
            continue;
        if (code && !gpu->out->process_code)
            gpu->out->process_code = gs_nvml_code(code);
    }
}
