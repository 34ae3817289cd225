/* launcher.c - see launcher.h. How to add a launcher: one row. */
#include <stddef.h>
#include <string.h>

#include "launcher.h"

/* Either the program's own name, or a module behind python's -m. */
static const struct {
    const char *program, *module, *name;
} launchers[] = {
    {"torchrun", "torch.distributed.run", "torchrun"},
    {NULL, "torch.distributed.launch", "torch.distributed.launch"},
    {"accelerate", "accelerate.commands.launch", "accelerate"},
    {"deepspeed", "deepspeed.launcher.runner", "deepspeed"},
    {"colossalai", NULL, "colossalai"},
};
#define LAUNCHERS (sizeof(launchers) / sizeof(launchers[0]))

static const char *base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

const char *gs_launcher_name(int argc, const char *const *argv)
{
    const char *program = argc > 0 ? base(argv[0]) : "";
    const char *module = "";

    /* Options of python itself may stand before -m; the script ends the search. */
    if (strncmp(program, "python", 6) == 0)
        for (int i = 1; i + 1 < argc && argv[i][0] == '-' && !module[0]; i++)
            if (strcmp(argv[i], "-m") == 0)
                module = argv[i + 1];
    for (size_t i = 0; i < LAUNCHERS; i++)
        if ((launchers[i].program && strcmp(program, launchers[i].program) == 0)
            || (launchers[i].module && strcmp(module, launchers[i].module) == 0))
            return launchers[i].name;
    return NULL;
}
