/* facts_node.c - limits, slurmd, folders and munge of a node; see facts.h. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock_private.h"
#include "facts.h"
#include "gpusys_private.h"

#define PATH_SIZE 512
#define FOLDER_US (3 * 1000000L) /* a file system that does not answer sooner hangs */
#define ARGUMENTS 4096

static void print_limit(const char *key, int which)
{
    struct rlimit limit;

    if (getrlimit(which, &limit) < 0)
        return;
    if (limit.rlim_max == RLIM_INFINITY)
        gs_fact(key, "unlimited");
    else
        gs_fact(key, "%llu", (unsigned long long)limit.rlim_max);
}

void gs_facts_of_limits(const struct gs_facts_ask *ask)
{
    DIR *rdma = opendir("/sys/class/infiniband");
    int count = 0;

    (void)ask;
    print_limit("limit_nofile", RLIMIT_NOFILE);
    print_limit("limit_memlock", RLIMIT_MEMLOCK);
    for (struct dirent *one; rdma && (one = readdir(rdma));)
        count += one->d_name[0] != '.';
    if (rdma)
        closedir(rdma);
    gs_fact("rdma", "%d", count);
}

/* Whether a process is on another machine that shares this kernel: a container's or a
 * private cluster's. One that must not be looked at counts as here. */
static bool is_elsewhere(const char *pid)
{
    char path[PATH_SIZE];
    struct stat theirs, ours;

    snprintf(path, sizeof(path), "/proc/%.20s/ns/net", pid);
    return stat(path, &theirs) == 0 && stat("/proc/self/ns/net", &ours) == 0
           && theirs.st_ino != ours.st_ino;
}

/* Whether the process is the slurmd of the node that is asked for: several run on one
 * machine where each was given its name with -N. */
static bool is_slurmd(const char *pid, const char *node)
{
    static char text[ARGUMENTS];
    char path[PATH_SIZE];
    int fd;
    ssize_t size;

    snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
    if (gs_sys_read(path, text, sizeof(text)) < 0 || strcmp(text, "slurmd") != 0
        || is_elsewhere(pid))
        return false;
    snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    size = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    for (char *word = text; node && word < text + size; word += strlen(word) + 1)
        if (strcmp(word, "-N") == 0 && word + 3 < text + size)
            return strcmp(word + 3, node) == 0;
    return size > 0;
}

/* Seconds since 1970 at which a process began, -1 = cannot be told. Counted back from
 * now: the boot time that /proc/stat tells does not follow a clock that is set. */
static long long began(const char *pid)
{
    static char text[ARGUMENTS];
    char path[PATH_SIZE];
    const char *at;
    unsigned long long ticks = 0;
    struct timespec up;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    if (gs_sys_read(path, text, sizeof(text)) < 0 || !(at = strrchr(text, ')')))
        return -1;
    /* Field 22; the one after the name is number 3. */
    for (int field = 3; field <= 22 && at; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, " %llu", &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &up))
        return -1;
    return (gs_clock_wall_us() - (int64_t)up.tv_sec * 1000000 - up.tv_nsec / 1000)
               / 1000000
           + (long long)(ticks / (unsigned long)sysconf(_SC_CLK_TCK));
}

static void print_slurmd_limits(const char *pid)
{
    static char text[ARGUMENTS];
    static const char *const names[][2] = {{"Max locked memory", "slurmd_memlock"},
                                           {"Max open files", "slurmd_nofile"}};
    char path[PATH_SIZE], soft[32], hard[32];

    snprintf(path, sizeof(path), "/proc/%.20s/limits", pid);
    if (gs_sys_read(path, text, sizeof(text)) < 0)
        return;
    for (size_t i = 0; i < 2; i++) {
        const char *at = strstr(text, names[i][0]);
        if (at && sscanf(at + strlen(names[i][0]), "%31s %31s", soft, hard) == 2)
            gs_fact(names[i][1], "%s", hard);
    }
}

void gs_facts_of_slurmd(const struct gs_facts_ask *ask)
{
    DIR *proc = opendir("/proc");
    struct dirent *one = NULL;

    while (proc && (one = readdir(proc)))
        if (isdigit((unsigned char)one->d_name[0]) && is_slurmd(one->d_name, ask->node))
            break;
    if (one) {
        gs_fact("slurmd", "%s", one->d_name);
        gs_fact("slurmd_began", "%lld", began(one->d_name));
        print_slurmd_limits(one->d_name);
    }
    if (proc)
        closedir(proc);
}

/* Into out: "ok FREE_BYTES" or what is the matter with a folder, or with the nearest
 * one above it if it is made only when it is needed. */
static void look_at_folder(const char *path, bool or_above, char *out, size_t size)
{
    char at[PATH_SIZE];
    struct stat info;
    struct statvfs fs;
    char *slash;

    snprintf(at, sizeof(at), "%s", path);
    while (stat(at, &info) < 0) {
        slash = strrchr(at, '/');
        if (errno != ENOENT || !or_above || !slash || slash == at) {
            snprintf(out, size, "failed: %s", strerror(errno));
            return;
        }
        *slash = '\0';
    }
    if (!S_ISDIR(info.st_mode))
        snprintf(out, size, "failed: %.400s is no folder", at);
    else if (statvfs(at, &fs) < 0)
        snprintf(out, size, "failed: %s", strerror(errno));
    else if (fs.f_flag & ST_RDONLY)
        snprintf(out, size, "failed: the file system is read-only");
    else if (geteuid() == 0 && access(at, W_OK) < 0)
        snprintf(out, size, "failed: not writable for root: %s", strerror(errno));
    else
        snprintf(out, size, "ok %llu", (unsigned long long)fs.f_bavail * fs.f_frsize);
}

/* A folder may lie on a file system that hangs: in a process that can be left behind.
 */
static void print_folder(const char *key, const char *path, bool or_above)
{
    char text[PATH_SIZE] = "";
    int64_t until = gs_clock_now_us() + FOLDER_US;
    int ends[2];
    pid_t child;
    ssize_t got = 0;

    if (pipe(ends) < 0 || (child = fork()) < 0) {
        gs_fact(key, "%s unknown: %s", path, strerror(errno));
        return;
    }
    if (child == 0) {
        look_at_folder(path, or_above, text, sizeof(text));
        _exit(write(ends[1], text, strlen(text)) < 0);
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    while ((got = read(ends[0], text, sizeof(text) - 1)) < 0 && errno == EAGAIN
           && gs_clock_now_us() < until)
        usleep(2000);
    close(ends[0]);
    if (got <= 0) {
        kill(child, SIGKILL);
        gs_fact(key, "%s hangs", path);
        return;
    }
    waitpid(child, NULL, 0);
    text[got] = '\0';
    gs_fact(key, "%s %s", path, text);
}

static void print_munge(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        gs_fact("munge", "%s failed: %s", path, strerror(errno));
    else
        gs_fact("munge", "%s ok", path);
    if (fd >= 0)
        close(fd);
}

void gs_facts_of_folders(const struct gs_facts_ask *ask)
{
    if (ask->munge)
        print_munge(ask->munge);
    if (ask->spool)
        print_folder("spool", ask->spool, true);
    if (ask->archive)
        print_folder("archive", ask->archive, false);
}
