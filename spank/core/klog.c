/* klog.c - see klog_private.h. A record of /dev/kmsg comes with one read(); one that
 * was overwritten meanwhile is EPIPE, the end is EAGAIN. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error_private.h"
#include "klog_private.h"

#define RECORD 8192
#define MOST_RECORDS 500000 /* a log that grows while it is read has to end, too */
#define TAIL (8 << 20)
#define PIECE 65536

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
    size_t kept = 0;
    bool first = size > TAIL; /* the tail begins in the middle of a line */

    if (size > TAIL && lseek(fd, size - TAIL, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        ssize_t got = read(fd, piece + kept, sizeof(piece) - kept);
        char *end, *from = piece;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
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

int gs_klog_collect(const char *path, struct gs_xidlog *ret_log, struct gs_error *error)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY), rc;

    gs_xidlog_init(ret_log);
    if (fd < 0)
        return gs_error_set(error,
                            errno,
                            "the kernel log %s cannot be read: %s%s",
                            path,
                            strerror(errno),
                            errno == EPERM || errno == EACCES ? "; run as root" : "");
    rc = fstat(fd, &st) < 0    ? -errno
         : S_ISCHR(st.st_mode) ? read_device(fd, ret_log)
         : S_ISREG(st.st_mode) ? read_file(fd, st.st_size, ret_log)
                               : -EINVAL;
    close(fd);
    if (rc == 0)
        return 0;
    gs_xidlog_init(ret_log);
    return gs_error_set(
        error, -rc, "the kernel log %s cannot be read: %s", path, strerror(-rc));
}
