/* publish.c - the epilog's part of spool.h: copy to the archive, then remove.
 *
 * Everything below BASE/<job>.<step>/user was made by the job's user: nothing is
 * followed, opened for anything but reading, or trusted to end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error_private.h"
#include "mac.h"
#include "spool.h"

struct publisher {
    const char *archive;
    const char *node;
    int failed; /* first -errno */
    struct gs_error *error;
};

static void note(struct publisher *p, const char *what, const char *path)
{
    if (p->failed == 0)
        p->failed =
            gs_error_set(p->error, errno, "%s %s: %s", what, path, strerror(errno));
}

static int make_path(const char *path)
{
    return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* Copies one plain file into an existing directory. Returns 0, -EINVAL: it is none,
 * or cannot be read; or what the archive answered. */
static int copy_file(int from_dir, const char *name, const char *to_dir)
{
    uint8_t block[65536];
    struct gs_spoolfile out;
    struct stat info;
    size_t total = 0;
    ssize_t got = 0;
    int in = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int rc = -EINVAL;

    if (in < 0)
        return -EINVAL;
    if (fstat(in, &info) == 0 && S_ISREG(info.st_mode))
        rc = gs_spoolfile_begin(&out, to_dir, name, NULL);
    if (rc < 0) {
        close(in);
        return rc;
    }
    while (rc == 0 && total < GS_PUBLISH_FILE_MAX
           && (got = read(in, block, sizeof(block))) > 0) {
        size_t piece = GS_PUBLISH_FILE_MAX - total;
        piece = piece < (size_t)got ? piece : (size_t)got;
        rc = gs_spoolfile_write(&out, block, piece);
        total += piece;
    }
    close(in);
    if (rc == 0 && got < 0)
        rc = -EINVAL;
    if (rc == 0)
        rc = gs_spoolfile_commit(&out);
    else
        gs_spoolfile_cancel(&out);
    return rc;
}

/* Removes a directory that somebody made inside of dir. Directories in it come up into
 * dir, to be removed in the next sweep: so depth costs nothing. Returns how many. */
static uint32_t remove_dir(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *inside = fd < 0 ? NULL : fdopendir(fd);
    uint32_t moved = 0;
    uint64_t unique;
    char up[32];

    if (!inside) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    for (const struct dirent *e = readdir(inside); e; e = readdir(inside)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0
            || unlinkat(fd, e->d_name, 0) == 0
            || unlinkat(fd, e->d_name, AT_REMOVEDIR) == 0)
            continue;
        /* A name that nobody could foresee and occupy. */
        if (gs_random((uint8_t *)&unique, sizeof(unique)) < 0)
            continue;
        snprintf(up, sizeof(up), ".%016" PRIx64, unique);
        moved += renameat(fd, e->d_name, dir, up) == 0;
    }
    closedir(inside);
    unlinkat(dir, name, AT_REMOVEDIR);
    return moved;
}

/* One pass over a directory: the files (copied if to is given) in the first one, the
 * directories in each. Returns how many came up from inside others. */
static uint32_t sweep(struct publisher *p, DIR *dir, const char *to, bool first)
{
    uint32_t count = 0, moved = 0;
    struct stat info;
    int rc;

    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0
            || fstatat(dirfd(dir), e->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(info.st_mode)) {
            moved += remove_dir(dirfd(dir), e->d_name);
            continue;
        }
        if (!first)
            continue;
        rc = to && count++ < GS_PUBLISH_COUNT_MAX ? copy_file(dirfd(dir), e->d_name, to)
                                                  : 0;
        if (rc < 0 && rc != -EINVAL) {
            errno = -rc;
            note(p, "cannot copy to the archive", e->d_name);
        } else {
            unlinkat(dirfd(dir), e->d_name, 0);
        }
    }
    return moved;
}

/* Empties and removes one part of a step. */
static void drain_dir(struct publisher *p, int parent, const char *name, const char *to)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool first = true;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while (sweep(p, dir, to, first)) {
        first = false;
        rewinddir(dir);
    }
    closedir(dir);
    if (unlinkat(parent, name, AT_REMOVEDIR) < 0)
        note(p, "cannot remove", name);
}

/* Whether sys/ holds the complete report: one node of the step has it. */
static bool has_complete(int sys_fd)
{
    char begin[129] = "";
    int fd =
        openat(sys_fd, "start.json", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, begin, sizeof(begin) - 1);

    if (fd >= 0)
        close(fd);
    begin[got > 0 ? got : 0] = '\0';
    return strstr(begin, "\"complete\":true") != NULL;
}

static void publish_part(struct publisher *p,
                         int step_fd,
                         const char *part,
                         const char *to)
{
    char path[GS_PATH_SIZE + 310];
    int fd;

    if (!p->archive[0]) {
        drain_dir(p, step_fd, part, NULL);
        return;
    }
    fd = openat(step_fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && strcmp(part, "sys") == 0 && has_complete(fd)) {
        int rc = copy_file(fd, "start.json", to);
        errno = -rc;
        if (rc < 0)
            note(p, "cannot copy the report to", to);
    }
    if (fd >= 0)
        close(fd);
    snprintf(path, sizeof(path), "%s/%s", to, p->node);
    if (make_path(path) == 0) {
        snprintf(path, sizeof(path), "%s/%s/%s", to, p->node, part);
        if (make_path(path) == 0) {
            drain_dir(p, step_fd, part, path);
            return;
        }
    }
    note(p, "cannot make", path);
}

static void publish_step(struct publisher *p, int base_fd, const char *step)
{
    char to[GS_PATH_SIZE + 300];
    int fd = openat(base_fd, step, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return;
    snprintf(to, sizeof(to), "%s/%s", p->archive, step);
    if (p->archive[0] && make_path(to) < 0) {
        note(p, "cannot make", to);
        close(fd);
        return;
    }
    publish_part(p, fd, "sys", to);
    publish_part(p, fd, "user", to);
    unlinkat(fd, GS_MEET_FILE, 0);
    close(fd);
    if (unlinkat(base_fd, step, AT_REMOVEDIR) < 0)
        note(p, "cannot remove", step);
}

/* The job's own folder outlives the job: an Epilog script may come after us. Its
 * records are copied as they are now; gs_spool_prune() removes it. */
static void publish_job(struct publisher *p, int base_fd, const char *folder)
{
    char from[300], to[GS_PATH_SIZE + 600];
    int fd, rc = 0;

    snprintf(from, sizeof(from), "%.250s/sys", folder);
    fd = openat(base_fd, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || !p->archive[0]) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (int depth = 0; rc == 0 && depth < 3; depth++) {
        snprintf(to,
                 sizeof(to),
                 "%s/%s%s%s%s",
                 p->archive,
                 folder,
                 depth > 0 ? "/" : "",
                 depth > 0 ? p->node : "",
                 depth > 1 ? "/sys" : "");
        rc = make_path(to);
    }
    if (rc == 0)
        rc = copy_file(fd, GS_EVENTS_FILE, to);
    close(fd);
    if (rc < 0 && rc != -EINVAL) {
        errno = -rc;
        note(p, "cannot copy the records to", to);
    }
}

int gs_spool_publish(const char *base,
                     const char *archive,
                     uint32_t job_id,
                     const char *node,
                     struct gs_error *error)
{
    struct publisher p = {.archive = archive, .node = node, .error = error};
    char prefix[16];
    int steps = 0, fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        int code = errno;
        if (fd >= 0)
            close(fd);
        return code == ENOENT
                   ? 0
                   : gs_error_set(
                         error, code, "cannot read %s: %s", base, strerror(code));
    }
    snprintf(prefix, sizeof(prefix), "%u.", job_id);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        if (strcmp(e->d_name + strlen(prefix), "node") == 0) {
            publish_job(&p, dirfd(dir), e->d_name);
            continue;
        }
        publish_step(&p, dirfd(dir), e->d_name);
        steps++;
    }
    closedir(dir);
    return p.failed ? p.failed : steps;
}
