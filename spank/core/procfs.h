/* procfs.h - what /proc and the memory cgroup tell about a task. */
#ifndef GS_PROCFS_H
#define GS_PROCFS_H

#include <stdbool.h>
#include <stdint.h>

/* A process as /proc has it at this moment. */
struct gs_proc {
    char letter;      /* R S D Z T ..., the state field of /proc/PID/stat */
    char command[32]; /* its name */
    char wchan[32];   /* the kernel function it sleeps in; "" = none or not told */
    int parent;       /* pid of its parent */
};

/* Reads a process. False: there is none (any more). */
bool gs_proc_read(int pid, struct gs_proc *ret_proc);

/* The name of a process that this one has started and that still runs; "" = none, or
 * the kernel does not tell. */
void gs_proc_child(int pid, char ret_command[32]);

/* Whether SIGKILL is on its way to a process that has not died of it yet. */
bool gs_proc_is_doomed(int pid);

/* How many processes the kernel has killed for want of memory in the cgroup of this
 * process and the one above it (the step's): memory.events of cgroup v2 or
 * memory.oom_control of v1. cgroups: text of /proc/self/cgroup; mount: where cgroup
 * file systems are mounted, normally /sys/fs/cgroup. -1 = cannot be told. */
int64_t gs_proc_oom_kills(const char *cgroups, const char *mount);

/* Whether a step of another job than this one runs here, as slurmstepd's command lines
 * tell; true as well if /proc cannot be read. */
bool gs_proc_other_jobs(uint32_t job_id);

#endif
