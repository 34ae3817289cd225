/* asked.c - what this srun was asked for beside the start: GPUs (auto=gpu), a partition
 * (partition=), not to be waited for, to start another launcher's own processes.
 *
 * SPANK has no item for it before the launch, so the command line is read: only the
 * part before the program, whose own options may look alike. */
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin.h"

static const char *const variables[] = {
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "SLURM_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_GPUS_PER_TASK",
};

static const char *const options[] = {
    "-G",
    "--gpus",
    "--gres=gpu",
    "--gpus-per-node",
    "--gpus-per-socket",
    "--gpus-per-task",
    "--tres-per-task=gres/gpu",
    "--tres-per-task=gres:gpu",
};

static bool is_gpu_option(const char *arg, const char *next)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (strncmp(arg, options[i], strlen(options[i])) == 0)
            return true;
    return strcmp(arg, "--gres") == 0 && next && strncmp(next, "gpu", 3) == 0;
}

/* getopt takes every beginning that no other option of srun has. */
static bool is_async_option(const char *arg, const char *next)
{
    (void)next;
    return strlen(arg) >= sizeof("--as") - 1
           && strncmp(arg, "--async", strlen(arg)) == 0;
}

static bool is_external_option(const char *arg, const char *next)
{
    (void)next;
    return strlen(arg) >= sizeof("--exte") - 1
           && strncmp(arg, "--external-launcher", strlen(arg)) == 0;
}

/* The command line as the kernel has it; size without the last terminator. */
static const char *own_line(size_t *ret_size)
{
    static char line[65536];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);

    if (fd >= 0)
        close(fd);
    *ret_size = size > 0 ? (size_t)size : 0;
    return line;
}

/* Whether an argument of srun's own is such an option. */
static bool has_option(bool (*is_it)(const char *arg, const char *next))
{
    size_t size;
    const char *line = own_line(&size), *arg = line;

    /* getopt has stopped at the program: optind is its index. */
    for (int i = 0; i < optind && arg < line + size; i++) {
        const char *next = arg + strlen(arg) + 1;
        if (is_it(arg, next < line + size ? next : NULL))
            return true;
        arg = next;
    }
    return false;
}

bool gs_asked_for_gpus(void)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        if (getenv(variables[i]))
            return true;
    return has_option(is_gpu_option);
}

bool gs_asked_not_to_wait(void)
{
    return has_option(is_async_option);
}

bool gs_asked_for_launcher(void)
{
    return getenv("SLURM_EXTERNAL_LAUNCHER") || has_option(is_external_option);
}

/* The value of -p or --partition in an argument or the one after it, or NULL. */
static const char *partition_in(const char *arg, const char *next)
{
    const char *equals = strchr(arg, '=');

    if (strncmp(arg, "--part", 6) == 0)
        return equals ? equals + 1 : next;
    if (strncmp(arg, "-p", 2) == 0)
        return arg[2] ? arg + 2 : next;
    return NULL;
}

/* Partitions of this srun, separated by commas; NULL = the default one. */
static const char *own_partitions(void)
{
    const char *found = getenv("SLURM_JOB_PARTITION");
    size_t size;
    const char *line = own_line(&size), *arg = line;

    if (found)
        return found;
    for (int i = 0; i < optind && arg < line + size; i++) {
        const char *next = arg + strlen(arg) + 1;
        const char *value = partition_in(arg, next < line + size ? next : NULL);

        if (value)
            found = value;
        arg = next;
    }
    return found ? found : getenv("SLURM_PARTITION");
}

static bool is_named(const char *name, size_t len, const char *names)
{
    while (*names) {
        size_t one = strcspn(names, "+");

        if (one == len && memcmp(names, name, len) == 0)
            return true;
        names += one + (names[one] == '+');
    }
    return false;
}

bool gs_asked_in_partition(const char *names)
{
    const char *own = names[0] ? own_partitions() : NULL;

    if (!own)
        return !names[0];
    /* Of several that the user leaves to Slurm each has to be one of ours. */
    for (;;) {
        size_t len = strcspn(own, ",");

        if (!is_named(own, len, names))
            return false;
        if (!own[len])
            return true;
        own += len + 1;
    }
}
