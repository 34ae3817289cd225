/* neighbours.c - which other SPANK plugins may hold a task before it comes to ours.
 *
 * Slurm loads them in the order of plugstack.conf and calls each hook in that order,
 * and the loader keeps its list in the order of loading: what lies before ourselves
 * there and has the hook is called before ours. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* More than a daemon with all its plugins has; what does not fit is left out. */
#define PATHS_SIZE 65536

/* Paths of what is loaded, each with its terminator, up to ourselves or all. */
struct loaded {
    const char *own; /* our own path, which is not noted */
    bool all;        /* also those after ourselves */
    char *paths;
    size_t used;
};

/* Only notes the path: the loader holds a lock while this runs, and to load or look up
 * something here could wait for ever for a thread that loads something itself. */
static int note(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct loaded *loaded = arg;
    size_t length = strlen(info->dlpi_name) + 1;

    (void)size;
    if (strcmp(info->dlpi_name, loaded->own) == 0)
        return !loaded->all;
    if (strstr(info->dlpi_name, ".so") && loaded->used + length < PATHS_SIZE) {
        memcpy(loaded->paths + loaded->used, info->dlpi_name, length);
        loaded->used += length;
    }
    return 0;
}

/* Name of a SPANK plugin that has the hook, "" = it is none, or has it not. */
static void name_of(const char *path, const char *hook, char *ret_name, size_t size)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    const char *type = handle ? dlsym(handle, "plugin_type") : NULL;
    const char *name = handle ? dlsym(handle, "plugin_name") : NULL;
    bool ours = type && name && strcmp(type, "spank") == 0 && dlsym(handle, hook);

    snprintf(ret_name, size, "%s", ours ? name : "");
    if (handle)
        dlclose(handle);
}

static void add_names(const struct loaded *loaded,
                      const char *hook,
                      char *ret_names,
                      size_t size)
{
    char name[64];
    size_t used = 0;

    for (size_t at = 0; at < loaded->used; at += strlen(loaded->paths + at) + 1) {
        name_of(loaded->paths + at, hook, name, sizeof(name));
        if (name[0] && used + strlen(name) + 3 < size)
            used += (size_t)snprintf(
                ret_names + used, size - used, "%s%s", used ? ", " : "", name);
    }
}

void gs_neighbours(const char *hook, bool all, char *ret_names, size_t size)
{
    Dl_info self;
    struct loaded loaded = {.all = all};

    ret_names[0] = '\0';
    if (!dladdr(&gs_spec, &self) || !self.dli_fname)
        return;
    loaded.own = self.dli_fname;
    loaded.paths = malloc(PATHS_SIZE);
    if (!loaded.paths)
        return;
    dl_iterate_phdr(note, &loaded);
    add_names(&loaded, hook, ret_names, size);
    free(loaded.paths);
}
