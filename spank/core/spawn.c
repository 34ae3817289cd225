/* spawn.c - see spawn_private.h. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>

#include "spawn_private.h"

int gs_spawn(const char *const *argv, int out, pid_t *ret_pid)
{
    char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", locale[] = "LC_ALL=C";
    char *env[] = {path, locale, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int rc;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
                                 | POSIX_SPAWN_SETPGROUP);
    /* posix_spawn() promises to leave argv alone; its type is older than const. */
    rc = posix_spawn(
        ret_pid, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv, env);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -rc;
}
