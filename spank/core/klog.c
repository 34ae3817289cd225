/* klog.c - see klog_private.h. A record of /dev/kmsg comes with one read(); one that
 * was overwritten meanwhile is EPIPE, the end is EAGAIN. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock_private.h"
#include "error_private.h"
#include "klog_private.h"
#include "spawn_private.h"

#define RECORD 8192
#define MOST_RECORDS 500000 /* a log that grows while it is read has to end, too */
#define TAIL (8 << 20)
#define PIECE 65536
#define JOURNAL_US 2000000

static int read_device(int fd, struct gs_xidlog *log)
{
    char record[RECORD];

    for (int i = 0; i < MOST_RECORDS; i++) {
        ssize_t got = read(fd, record, sizeof(record));
        if (got < 0 && (errno == EINTR || errno == EPIPE || errno == EINVAL))
            continue;
        if (got < 0 && errno != EAGAIN)
            return -errno;
        if (got <= 0)
            break;
        gs_xidlog_add(log, record, (size_t)got);
    }
    return 0;
}

/* Whole lines only: the rest of a piece waits for the next one. */
static int read_file(int fd, off_t size, struct gs_xidlog *log)
{
    char piece[PIECE];
    size_t kept = 0, left = 2 * TAIL; /* it may grow as fast as it is read */
    bool first = size > TAIL;         /* the tail begins in the middle of a line */

    if (size > TAIL && lseek(fd, size - TAIL, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        ssize_t got = read(fd, piece + kept, sizeof(piece) - kept);
        char *end, *from = piece;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0 || (size_t)got > left)
            break;
        left -= (size_t)got;
        kept += (size_t)got;
        if (first && (from = memchr(piece, '\n', kept)))
            from++;
        first = first && !from;
        end = from ? memrchr(from, '\n', kept - (size_t)(from - piece)) : NULL;
        if (end) {
            gs_xidlog_add(log, from, (size_t)(end + 1 - from));
            kept -= (size_t)(end + 1 - piece);
            memmove(piece, end + 1, kept);
        } else if (kept == sizeof(piece)) {
            kept = 0; /* no line of a kernel is that long */
        }
    }
    gs_xidlog_add(log, piece, kept);
    return 0;
}

/* Everything of this boot, as far as it fits: without one line it cannot be told apart
 * from a journal that is not kept. */
static int start_journal(int out, pid_t *ret_pid)
{
    const char *argv[] = {"/usr/bin/journalctl",
                          "--quiet",
                          "--no-pager",
                          "--dmesg",
                          "--boot=0",
                          "--output=short-iso-precise",
                          "--lines=50000",
                          NULL};

    return gs_spawn(argv, out, ret_pid);
}

/* Copies what comes until its end or the deadline into a file that is read like any. */
static int gather(int from, int to)
{
    int64_t until_us = gs_clock_now_us() + JOURNAL_US;
    char piece[PIECE];

    for (off_t size = 0; size < TAIL;) {
        struct pollfd ready = {.fd = from, .events = POLLIN};
        int64_t left_us = until_us - gs_clock_now_us();
        ssize_t got;
        if (left_us <= 0 || poll(&ready, 1, (int)(left_us / 1000) + 1) == 0)
            return -ETIMEDOUT;
        got = read(from, piece, sizeof(piece));
        if (got <= 0)
            return got < 0 && errno != EINTR ? -errno : 0;
        if (write(to, piece, (size_t)got) != got)
            return -EIO;
        size += got;
    }
    return 0;
}

/* It has said all, so it ends by itself, or has to. Never waits for one that cannot. */
static int end_journal(pid_t pid, bool whole)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    int status = 0;

    if (!whole)
        kill(pid, SIGKILL);
    for (int i = 0; i < 40; i++) {
        if (waitpid(pid, &status, WNOHANG) != 0)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
        nanosleep(&pause, NULL);
    }
    kill(pid, SIGKILL);
    return -ETIMEDOUT;
}

static int read_journal(struct gs_xidlog *log)
{
    int ends[2], file = memfd_create("journal", MFD_CLOEXEC), rc, code;
    pid_t pid = 0;

    if (file < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        rc = -errno;
        if (file >= 0)
            close(file);
        return rc;
    }
    rc = start_journal(ends[1], &pid);
    close(ends[1]);
    if (rc == 0) {
        rc = gather(ends[0], file);
        code = end_journal(pid, rc == 0);
        rc = rc < 0 ? rc : code;
    }
    close(ends[0]);
    if (rc == 0 && lseek(file, 0, SEEK_END) == 0)
        rc = -ENODATA;
    if (rc == 0 && lseek(file, 0, SEEK_SET) == 0)
        rc = read_file(file, 0, log);
    close(file);
    return rc;
}

/* Any other device may never end. */
static bool is_kmsg(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 11);
}

int gs_klog_collect(const char *path, struct gs_xidlog *ret_log, struct gs_error *error)
{
    bool journal = strcmp(path, GS_KLOG_JOURNAL) == 0;
    struct stat st;
    int fd, rc;

    gs_xidlog_init(ret_log);
    if (journal) {
        rc = read_journal(ret_log);
        return rc == 0 ? 0
                       : gs_error_set(error,
                                      -rc,
                                      "the journal cannot be read by journalctl: %s",
                                      strerror(-rc));
    }
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return gs_error_set(error,
                            errno,
                            "the kernel log %s cannot be read: %s%s",
                            path,
                            strerror(errno),
                            errno == EPERM || errno == EACCES ? "; run as root" : "");
    rc = fstat(fd, &st) < 0    ? -errno
         : is_kmsg(&st)        ? read_device(fd, ret_log)
         : S_ISREG(st.st_mode) ? read_file(fd, st.st_size, ret_log)
                               : -EINVAL;
    close(fd);
    if (rc == 0)
        return 0;
    gs_xidlog_init(ret_log);
    return gs_error_set(
        error, -rc, "the kernel log %s cannot be read: %s", path, strerror(-rc));
}
