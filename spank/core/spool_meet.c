/* spool_meet.c - the key with which the tasks of a step find each other: spool.h.
 *
 * It lies in a directory of ours, so its user cannot put anything in its place, and
 * until it is whole it is ours alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error_private.h"
#include "spool.h"

static void write_hex(char *to, const uint8_t *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < size; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    *to = '\0';
}

/* 0 or an errno; a file that is there is replaced. */
static int write_line(
    int dir, const char *line, size_t size, uint32_t uid, uint32_t gid)
{
    int code = 0, fd;

    unlinkat(dir, GS_MEET_FILE, 0);
    fd = openat(
        dir, GS_MEET_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (fd < 0)
        return errno;
    errno = ENOSPC;
    if (write(fd, line, size) != (ssize_t)size || fchown(fd, uid, gid) < 0
        || fchmod(fd, 0400) < 0) /* whatever the umask: slurmstepd has the job's */
        code = errno;
    close(fd);
    if (code)
        unlinkat(dir, GS_MEET_FILE, 0);
    return code;
}

int gs_spool_meet(const char *step_dir,
                  const struct gs_meet *meet,
                  uint32_t uid,
                  uint32_t gid,
                  struct gs_error *error)
{
    char hex[2 * sizeof(meet->key) + 1], line[160];
    int dir = open(step_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int size, code;

    if (dir < 0)
        return gs_error_set(
            error, errno, "cannot write %s: %s", step_dir, strerror(errno));
    write_hex(hex, meet->key, sizeof(meet->key));
    size = snprintf(line,
                    sizeof(line),
                    "{\"version\":1,\"key\":\"%s\",\"ports\":[%u,%u]}\n",
                    hex,
                    meet->port_lo,
                    meet->port_hi);
    code = write_line(dir, line, (size_t)size, uid, gid);
    close(dir);
    explicit_bzero(hex, sizeof(hex));
    explicit_bzero(line, sizeof(line));
    return code == 0 ? 0
                     : gs_error_set(error,
                                    code,
                                    "cannot write %s/%s: %s",
                                    step_dir,
                                    GS_MEET_FILE,
                                    strerror(code));
}
