/* spawn_private.h - another program, started from inside a process that is not ours. */
#ifndef GS_SPAWN_PRIVATE_H
#define GS_SPAWN_PRIVATE_H

#include <sys/types.h>

/* Starts the program argv[0], an absolute path, in a process group of its own, with
 * stdout going to `out` and stdin and stderr to /dev/null. It inherits nothing else
 * that srun or slurmstepd may have set: no signal mask, no handler, no variable but a
 * PATH of the system's folders and LC_ALL=C. argv is left as it is and not kept; `out`
 * stays the caller's to close, *ret_pid the caller's to reap. Returns 0 or -errno. */
int gs_spawn(const char *const *argv, int out, pid_t *ret_pid);

#endif
