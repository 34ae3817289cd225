/* lock.c - see lock.h. The file holds the holder's process number, for the next one's
 * message; the lock itself is the kernel's, so a holder that died holds nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock_private.h"
#include "lock.h"
#include "print.h"
#include "procfs.h"

#define EXIT_LOCK_FILE 73
#define EXIT_BUSY 75
#define WAIT_US 5000000
#define PAUSE_NS 20000000

static int open_lock(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[512];
    int fd;

    /* Only the last folder: /run/gangstart is new after each boot. */
    if (slash && slash > path && (size_t)(slash - path) < sizeof(folder)) {
        memcpy(folder, path, (size_t)(slash - path));
        folder[slash - path] = '\0';
        mkdir(folder, 0755);
    }
    /* Whoever can open it for reading can lock it, and so keep everybody from looking.
     */
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && fchmod(fd, 0600) < 0) {
        int code = errno;
        close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

/* Who holds it, as far as the file tells. */
static int holder(int fd)
{
    char text[32];
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);

    if (got <= 0)
        return 0;
    text[got] = '\0';
    return atoi(text);
}

static int busy(int fd, const char *path, const struct gs_proc *proc)
{
    /* The driver hangs, only not in front of us: as good as a call of ours that does.
     */
    if (proc->letter == 'D')
        printf("{\"asking\":\"another gangstart-probe (pid %d, in D "
               "state)\",\"gpu\":\"\"}\n",
               holder(fd));
    return gs_probe_complain(
        EXIT_BUSY,
        "gangstart-probe: another one (pid %d%s%s%s) holds %s%s",
        holder(fd),
        proc->letter == 'D' ? ", in D state" : "",
        proc->letter == 'D' && proc->wchan[0] ? " at " : "",
        proc->letter == 'D' ? proc->wchan : "",
        path,
        proc->letter == 'D' ? ": the GPU driver hangs; reset the GPU or reboot the node"
                            : " and does not end; try again, or end it");
}

int gs_probe_lock(const char *path)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    int64_t until = gs_clock_now_us() + WAIT_US;
    struct gs_proc proc = {0};
    char pid[32];
    int fd = open_lock(path);

    if (fd < 0)
        return gs_probe_complain(EXIT_LOCK_FILE,
                                 "gangstart-probe: cannot open the lock file %s: %s; "
                                 "run as root, or name another one with --lock PATH",
                                 path,
                                 strerror(errno));
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int pid_of = holder(fd);
        proc.letter = '\0';
        if (pid_of > 0)
            gs_proc_read(pid_of, &proc);
        /* A healthy driver's call is in D state too, but not for so long. */
        if (gs_clock_now_us() > until - (proc.letter == 'D' ? WAIT_US / 2 : 0))
            return busy(fd, path, &proc);
        nanosleep(&pause, NULL);
    }
    snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, strlen(pid), 0) < 0)
        return gs_probe_complain(
            EXIT_LOCK_FILE,
            "gangstart-probe: cannot write the lock file %s: %s; "
            "make room there, or name another one with --lock PATH",
            path,
            strerror(errno));
    /* fd stays open: closing it would give the lock up. */
    return 0;
}
