/* neighbours.c - which other SPANK plugins may hold a task before it comes to ours.
 *
 * Slurm loads them in the order of plugstack.conf and calls each hook in that order,
 * and the loader keeps its list in the order of loading: what lies before ourselves
 * there and has the hook is called before ours. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "plugin.h"

struct search {
    const char *hook, *own;
    char *names;
    size_t size, used;
    bool all; /* not only those before ourselves */
};

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

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *search = arg;
    char name[64];

    (void)size;
    if (strcmp(info->dlpi_name, search->own) == 0)
        return !search->all;
    if (!strstr(info->dlpi_name, ".so"))
        return 0;
    name_of(info->dlpi_name, search->hook, name, sizeof(name));
    if (name[0] && search->used + strlen(name) + 3 < search->size)
        search->used += (size_t)snprintf(search->names + search->used,
                                         search->size - search->used,
                                         "%s%s",
                                         search->used ? ", " : "",
                                         name);
    return 0;
}

void gs_neighbours(const char *hook, bool all, char *ret_names, size_t size)
{
    Dl_info self;
    struct search search = {.hook = hook, .all = all, .names = ret_names, .size = size};

    ret_names[0] = '\0';
    if (!dladdr(&gs_spec, &self) || !self.dli_fname)
        return;
    search.own = self.dli_fname;
    dl_iterate_phdr(look_at, &search);
}
