/* stack.c - plugstack.conf come true: every listed plugin, every hook, in its order.
 *
 * As with Slurm, a plugin that is listed twice is one library whose hooks and option
 * callbacks run twice. Return codes are written down, not obeyed. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

struct phase phase = {.task = -1};

static void *libraries[PLUGINS];
static struct spank_option options[PLUGINS];
static uint32_t option_count;

void stack_load(void)
{
    for (uint32_t i = 0; i < host.plugin_count; i++) {
        const char *path = host.plugins[i];
        if (host.old_plugin && strcmp(host.mode, "stepd") == 0
            && host.nodes[host.me].fate == NODE_OLD)
            path = host.old_plugin;
        libraries[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!libraries[i]) {
            fprintf(stderr, "host: %s\n", dlerror());
            exit(2);
        }
    }
}

void stack_call(const char *hook)
{
    for (uint32_t i = 0; i < host.plugin_count; i++) {
        spank_f *function = NULL;
        int rc;
        *(void **)&function = dlsym(libraries[i], hook);
        if (!function)
            continue;
        rc = function((spank_t)&phase, host.arg_count, host.args);
        event("hook",
              "\"who\": %s, \"hook\": \"%s\", \"rc\": %d",
              quoted(who()),
              hook,
              rc);
    }
}

int stack_register(const struct spank_option *option)
{
    if (option_count == PLUGINS || !option->name || !option->cb)
        return -1;
    options[option_count++] = *option;
    return 0;
}

void stack_option(const char *text, bool remote)
{
    for (uint32_t i = 0; i < option_count; i++)
        if (strcmp(options[i].name, "gang-start") == 0)
            options[i].cb(options[i].val, text, remote);
}

/* srun, sbatch and salloc: a variable, called after the plugin and its option, stands
 * for the option, before the command line. */
void stack_option_env(void)
{
    const char *plugin = host.plugin_count ? dlsym(libraries[0], "plugin_name") : NULL;
    char name[256];

    snprintf(
        name, sizeof(name), "SLURM_SPANK__SLURM_SPANK_OPTION_%s_gang_start", plugin);
    if (getenv(name))
        stack_option(getenv(name), false);
}
