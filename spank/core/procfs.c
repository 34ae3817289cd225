/* procfs.c - see procfs.h. What cannot be read is "not known", never "fine". */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "procfs.h"

#define PATH_ROOM 1024

/* First line of a file, without its end; false when it cannot be read. */
static bool read_line(const char *path, char *ret_line, size_t size)
{
    FILE *file = fopen(path, "re");
    bool got;

    if (!file)
        return false;
    got = fgets(ret_line, (int)size, file) != NULL;
    fclose(file);
    if (got)
        ret_line[strcspn(ret_line, "\n")] = '\0';
    return got;
}

/* A name from /proc may hold anything its owner put there. */
static void copy_name(char *to, const char *from, size_t size)
{
    size_t i;

    for (i = 0; i + 1 < size && from[i]; i++)
        to[i] = from[i] < 0x20 || from[i] > 0x7e ? '?' : from[i];
    to[i] = '\0';
}

bool gs_proc_read(int pid, struct gs_proc *ret_proc)
{
    char path[64], line[512], wchan[64] = "";
    char *open, *close;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (!read_line(path, line, sizeof(line)))
        return false;
    open = strchr(line, '(');
    close = strrchr(line, ')');
    if (!open || !close || close < open || close[1] != ' ' || !close[2])
        return false;
    *close = '\0';
    snprintf(path, sizeof(path), "/proc/%d/wchan", pid);
    if (!read_line(path, wchan, sizeof(wchan)) || strcmp(wchan, "0") == 0)
        wchan[0] = '\0';
    ret_proc->letter = close[2];
    ret_proc->parent = atoi(close + 3);
    copy_name(ret_proc->command, open + 1, sizeof(ret_proc->command));
    copy_name(ret_proc->wchan, wchan, sizeof(ret_proc->wchan));
    return true;
}

void gs_proc_child(int pid, char ret_command[32])
{
    char path[64], line[32];
    struct gs_proc child;

    ret_command[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    if (read_line(path, line, sizeof(line)) && gs_proc_read(atoi(line), &child))
        memcpy(ret_command, child.command, sizeof(child.command));
}

bool gs_proc_is_doomed(int pid)
{
    char path[64], line[256];
    unsigned long long pending = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    file = fopen(path, "re");
    if (!file)
        return false;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "SigPnd:", 7) == 0 || strncmp(line, "ShdPnd:", 7) == 0)
            pending |= strtoull(line + 7, NULL, 16);
    fclose(file);
    return pending >> (SIGKILL - 1) & 1;
}

/* The number behind "oom_kill " in a file of the memory controller, -1 = none. */
static int64_t kills_in(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[128];
    int64_t kills = -1;

    if (!file)
        return -1;
    while (kills < 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, "oom_kill ", 9) == 0)
            kills = strtoll(line + 9, NULL, 10);
    fclose(file);
    return kills;
}

/* The cgroup itself and its parent: slurmstepd sits beside its tasks. */
static int64_t kills_around(const char *mount, const char *cgroup, const char *file)
{
    char path[PATH_ROOM], up[PATH_ROOM];
    const char *slash = strrchr(cgroup, '/');
    int64_t here, above;

    if (snprintf(path, sizeof(path), "%s%s/%s", mount, cgroup, file) >= PATH_ROOM)
        return -1;
    here = kills_in(path);
    if (!slash || slash == cgroup)
        return here;
    snprintf(up, sizeof(up), "%s%.*s/%s", mount, (int)(slash - cgroup), cgroup, file);
    above = kills_in(up);
    return here > above ? here : above;
}

/* One line of /proc/self/cgroup: "ID:CONTROLLERS:PATH". */
static int64_t kills_of_line(char *line, const char *mount)
{
    char memory[PATH_ROOM];
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;

    if (!path)
        return -1;
    *path++ = '\0';
    controllers++;
    if (!controllers[0])
        return kills_around(mount, path, "memory.events");
    if (strcmp(controllers, "memory") != 0)
        return -1;
    snprintf(memory, sizeof(memory), "%.900s/memory", mount);
    return kills_around(memory, path, "memory.oom_control");
}

int64_t gs_proc_oom_kills(const char *cgroups, const char *mount)
{
    char line[PATH_ROOM];
    int64_t kills = -1;

    for (const char *at = cgroups; *at && kills < 0;) {
        size_t size = strcspn(at, "\n");
        if (size < sizeof(line)) {
            memcpy(line, at, size);
            line[size] = '\0';
            kills = kills_of_line(line, mount);
        }
        at += size;
        at += *at == '\n';
    }
    return kills;
}

/* The job of a step's slurmstepd, which calls itself "slurmstepd: [7877.0]"; 0 = it is
 * none. Only root's word counts. */
static unsigned long job_of_step(int proc, const char *pid)
{
    static const char begin[] = "slurmstepd: [";
    char path[64], line[64];
    struct stat info;
    ssize_t got;
    int fd;

    snprintf(path, sizeof(path), "%.20s/cmdline", pid);
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    got = fstat(fd, &info) == 0 && info.st_uid == 0 ? read(fd, line, sizeof(line) - 1)
                                                    : -1;
    close(fd);
    line[got > 0 ? got : 0] = '\0';
    return strncmp(line, begin, sizeof(begin) - 1) == 0
               ? strtoul(line + sizeof(begin) - 1, NULL, 10)
               : 0;
}

bool gs_proc_other_jobs(uint32_t job_id)
{
    DIR *proc = opendir("/proc");
    bool found = !proc;

    while (proc && !found) {
        const struct dirent *e = readdir(proc);
        unsigned long job;
        if (!e)
            break;
        if (e->d_name[0] < '0' || e->d_name[0] > '9')
            continue;
        job = job_of_step(dirfd(proc), e->d_name);
        found = job && job != job_id;
    }
    if (proc)
        closedir(proc);
    return found;
}
