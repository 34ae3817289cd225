/* nvml.c - opens NVML, counts the GPUs and reads one after the other; see nvml.h.
 * A call that the library lacks reads as NVML_ERROR_FUNCTION_NOT_FOUND, a library that
 * is not there as NVML_ERROR_LIBRARY_NOT_FOUND. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock_private.h"
#include "nvml_private.h"

#define LIBRARY "libnvidia-ml.so.1"
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

void *gs_nvml_find(struct gs_nvml *nvml, const char *name)
{
    gs_progress_tell(nvml->progress, name, nvml->pci);
    return dlsym(nvml->library, name);
}

uint16_t gs_nvml_code(int code)
{
    return code < 0 || code > GS_NVML_UNKNOWN ? GS_NVML_UNKNOWN : (uint16_t)code;
}

static bool driver_loaded(const char *root)
{
    char path[GS_SYS_PATH];

    /* A driver that is built in has no initstate. */
    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/version", root);
    return gs_sys_module(root, "nvidia") || access(path, F_OK) == 0;
}

static int initialise(struct gs_nvml *nvml, const char *library)
{
    static const char *const names[] = {"nvmlInit_v2", "nvmlInit"};
    int (*init)(void) = NULL;

    gs_progress_tell(nvml->progress, "dlopen", "");
    nvml->library = dlopen(library ? library : LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        return GS_NVML_LIBRARY_NOT_FOUND;
    for (size_t i = 0; i < COUNT(names) && !init; i++)
        init = (int (*)(void))gs_nvml_find(nvml, names[i]);
    return init ? init() : GS_NVML_FUNCTION_NOT_FOUND;
}

static void read_version(struct gs_nvml *nvml, const char *name, char *ret_text)
{
    int (*get)(char *, unsigned) = (int (*)(char *, unsigned))gs_nvml_find(nvml, name);
    char text[GS_GPU_TEXT + 1] = "";

    if (get && get(text, GS_GPU_TEXT) == GS_NVML_SUCCESS)
        gs_gpu_text(ret_text, text, GS_GPU_TEXT);
}

static void read_count(struct gs_nvml *nvml, struct gs_gpus *gpus)
{
    static const char *const names[] = {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"};
    int (*get)(unsigned *) = NULL;
    unsigned count = 0;

    for (size_t i = 0; i < COUNT(names) && !get; i++)
        get = (int (*)(unsigned *))gs_nvml_find(nvml, names[i]);
    gpus->count_code = gs_nvml_code(get ? get(&count) : GS_NVML_FUNCTION_NOT_FOUND);
    gpus->told = gpus->count_code ? 0 : count;
}

int gs_nvml_open(const struct gs_nvml_source *source,
                 struct gs_nvml_progress *progress,
                 struct gs_gpus *ret_gpus,
                 struct gs_nvml **ret_nvml)
{
    const char *root = source->root ? source->root : "";
    struct gs_nvml *nvml = calloc(1, sizeof(*nvml));

    if (!nvml)
        return -ENOMEM;
    nvml->progress = progress;
    nvml->inforom = source->inforom;
    gs_gpus_init(ret_gpus);
    ret_gpus->taken_us = gs_clock_wall_us();
    gs_bus_read(root, "0x10de", &nvml->bus);
    ret_gpus->pci_count = nvml->bus.count;
    ret_gpus->driver_loaded = driver_loaded(root);
    *ret_nvml = nvml;
    if (!ret_gpus->driver_loaded)
        return 0;
    gs_gpu_text(ret_gpus->vendor, "nvidia", GS_GPU_TEXT);
    ret_gpus->init_code = gs_nvml_code(initialise(nvml, source->library));
    if (ret_gpus->init_code)
        return 0;
    nvml->inited = true;
    read_version(nvml, "nvmlSystemGetDriverVersion", ret_gpus->driver);
    read_version(nvml, "nvmlSystemGetNVMLVersion", ret_gpus->nvml);
    read_count(nvml, ret_gpus);
    return 0;
}

/* Its GPU is initialised by this call, so it is the likeliest to hang, and before it
 * NVML does not tell which GPU it is. NVML numbers GPUs by ascending PCI address: when
 * it has all that are on the bus, the address is known all the same. */
static void *find_handle(struct gs_nvml *nvml, struct gs_gpu *gpu, uint32_t told)
{
    static const char *const names[] = {"nvmlDeviceGetHandleByIndex_v2",
                                        "nvmlDeviceGetHandleByIndex"};
    int (*get)(unsigned, void **) = NULL;
    void *handle = NULL;

    snprintf(nvml->pci, sizeof(nvml->pci), "index %u", gpu->index);
    if (nvml->bus.count >= 0 && told == (uint32_t)nvml->bus.count)
        memcpy(nvml->pci, nvml->bus.pci[gpu->index], sizeof(nvml->pci));
    for (size_t i = 0; i < COUNT(names) && !get; i++)
        get = (int (*)(unsigned, void **))gs_nvml_find(nvml, names[i]);
    gpu->code =
        gs_nvml_code(get ? get(gpu->index, &handle) : GS_NVML_FUNCTION_NOT_FOUND);
    return handle;
}

void gs_nvml_read(struct gs_nvml *nvml, uint32_t index, struct gs_gpus *gpus)
{
    struct gs_nvml_gpu gpu = {.nvml = nvml};

    if (index >= gpus->told || index >= GS_GPU_MAX || !nvml->inited)
        return;
    gpu.out = &gpus->gpus[index];
    gpu.out->index = index;
    gpu.handle = find_handle(nvml, gpu.out, gpus->told);
    gpus->count = index + 1;
    if (!gpu.out->code) {
        nvml->handles[index] = gpu.handle;
        gs_nvml_read_structs(&gpu);
        gs_nvml_read_simple(&gpu);
        gs_nvml_read_links(&gpu);
        gs_nvml_read_processes(&gpu);
    } else {
        /* The one it most likely is; "" when that cannot be told. */
        gs_pci_normal(nvml->pci, gpu.out->pci);
    }
    nvml->pci[0] = '\0';
    gpus->took_us = gs_clock_wall_us() - gpus->taken_us;
}

void gs_nvml_close(struct gs_nvml *nvml)
{
    int (*shutdown)(void);

    if (!nvml)
        return;
    if (nvml->inited) {
        shutdown = (int (*)(void))gs_nvml_find(nvml, "nvmlShutdown");
        if (shutdown)
            shutdown();
    }
    if (nvml->library)
        dlclose(nvml->library);
    free(nvml);
}

int gs_nvml_sample(const struct gs_nvml_source *source,
                   struct gs_nvml_progress *progress,
                   struct gs_gpus *ret)
{
    struct gs_nvml *nvml;
    int rc = gs_nvml_open(source, progress, ret, &nvml);

    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < ret->told; i++)
        gs_nvml_read(nvml, i, ret);
    gs_nvml_read_peers(nvml, ret);
    gs_nvml_close(nvml);
    ret->took_us = gs_clock_wall_us() - ret->taken_us;
    return 0;
}
