/* facts.c - see facts.h: the frame around the parts, the clock and the GPUs. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "amd.h"
#include "facts.h"
#include "gpusys_private.h"
#include "nvml.h"

#define VALUE_SIZE 1024
#define EXIT_WRITE 74

void gs_fact(const char *key, const char *format, ...)
{
    char value[VALUE_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    for (char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    /* At once: what comes next may hang. */
    if (printf("%s=%s\n", key, value) < 0 || fflush(stdout) < 0)
        exit(EXIT_WRITE);
}

static void print_clock(void)
{
    struct timex now = {.modes = 0};
    int state = adjtimex(&now);

    if (state < 0) {
        gs_fact("clock_synced", "unknown: the kernel does not tell");
        return;
    }
    gs_fact("clock_synced", "%s", state == TIME_ERROR ? "no" : "yes");
    gs_fact("clock_error_us", "%ld", now.maxerror);
}

static void print_identity(void)
{
    struct utsname name;

    gs_fact("facts", "1");
    gs_fact("version", "%s", GS_VERSION);
    gs_fact("uid", "%u", (unsigned)geteuid());
    if (uname(&name) == 0) {
        gs_fact("hostname", "%s", name.nodename);
        gs_fact("kernel", "%s", name.release);
    }
}

/* The driver's library may hang for good: announced, and last of all. */
static void print_gpus(const struct gs_facts_ask *ask)
{
    static struct gs_gpus gpus;
    struct gs_nvml_progress progress = {.out = -1};
    const struct gs_nvml_source source = {.library = ask->library, .root = ask->sysfs};
    struct gs_nvml *nvml;
    struct gs_bus nvidia, amd;
    const char *root = ask->sysfs ? ask->sysfs : "";

    gs_bus_read(root, "0x10de", &nvidia);
    gs_bus_read(root, "0x1002", &amd);
    gs_fact("gpus_nvidia", "%d", nvidia.count);
    gs_fact("gpus_amd", "%d", amd.count);
    if (amd.count > 0)
        gs_fact("driver_amd", "%s", gs_sys_module(root, "amdgpu") ? "yes" : "no");
    if (nvidia.count == 0 && !ask->library)
        return;
    gs_fact("asking", "nvml");
    if (gs_nvml_open(&source, &progress, &gpus, &nvml) < 0) {
        gs_fact("nvml", "unknown: out of memory");
        return;
    }
    gs_fact("driver_loaded", "%s", gpus.driver_loaded ? "yes" : "no");
    if (gpus.driver[0])
        gs_fact("driver", "%s", gpus.driver);
    if (gpus.init_code == GS_GPU_NOT_ASKED)
        gs_fact("nvml", "not asked");
    else if (gpus.init_code == 0)
        gs_fact("nvml", "ok %u", gpus.told);
    else
        gs_fact("nvml", "failed %s", gs_gpu_code_name(gpus.init_code));
    gs_nvml_close(nvml);
}

int gs_facts_print(const struct gs_facts_ask *ask)
{
    print_identity();
    print_clock();
    gs_facts_of_files(ask);
    gs_facts_of_limits(ask);
    gs_facts_of_slurmd(ask);
    gs_facts_of_network(ask);
    gs_facts_of_folders(ask);
    print_gpus(ask);
    gs_fact("end", "1");
    return 0;
}
