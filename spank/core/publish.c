/* publish.c - the epilog's part of spool.h: copy to the archive, then remove.
 *
 * Everything below BASE/<job>.<step>/user was made by the job's user: nothing is
 * followed, opened for anything but reading, or trusted to end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error_private.h"
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

/* Copies one plain file into an existing directory. */
static int copy_file(int from_dir, const char *name, const char *to_dir)
{
    uint8_t block[65536];
    struct gs_spoolfile out;
    struct stat info;
    size_t total = 0;
    ssize_t got = 0;
    int in = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (in < 0)
        return -errno;
    if (fstat(in, &info) < 0 || !S_ISREG(info.st_mode)
        || gs_spoolfile_begin(&out, to_dir, name, NULL) < 0) {
        close(in);
        return -EINVAL;
    }
    while (total < GS_PUBLISH_FILE_MAX && (got = read(in, block, sizeof(block))) > 0) {
        if (gs_spoolfile_write(&out, block, (size_t)got) < 0)
            break;
        total += (size_t)got;
    }
    close(in);
    if (got < 0 || (got > 0 && total < GS_PUBLISH_FILE_MAX)) {
        gs_spoolfile_cancel(&out);
        return -EIO;
    }
    return gs_spoolfile_commit(&out);
}

/* Copies (if to is given) and removes the entries of one directory; directories the
 * user made inside are removed if empty and otherwise left for the note. */
static void drain_dir(struct publisher *p, int parent, const char *name, const char *to)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    uint32_t count = 0;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (to && strlen(e->d_name) < 60 && count++ < GS_PUBLISH_COUNT_MAX)
            copy_file(dirfd(dir), e->d_name, to);
        if (unlinkat(dirfd(dir), e->d_name, 0) < 0)
            unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
    }
    closedir(dir);
    if (unlinkat(parent, name, AT_REMOVEDIR) < 0)
        note(p, "cannot remove", name);
}

/* Whether sys/ holds the complete report: one node of the step has it. */
static bool has_complete(int sys_fd)
{
    char begin[129] = "";
    int fd = openat(sys_fd, "start.json", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
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
    if (fd >= 0 && strcmp(part, "sys") == 0 && has_complete(fd)
        && copy_file(fd, "start.json", to) < 0)
        note(p, "cannot copy the report to", to);
    if (fd >= 0)
        close(fd);
    snprintf(path, sizeof(path), "%s/%s", to, p->node);
    if (make_path(path) < 0)
        note(p, "cannot make", path);
    snprintf(path, sizeof(path), "%s/%s/%s", to, p->node, part);
    if (make_path(path) < 0)
        note(p, "cannot make", path);
    if (p->failed == 0)
        drain_dir(p, step_fd, part, path);
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
    close(fd);
    if (p->failed == 0 && unlinkat(base_fd, step, AT_REMOVEDIR) < 0)
        note(p, "cannot remove", step);
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

    if (!dir)
        return fd < 0 && errno == ENOENT ? 0 : -errno;
    snprintf(prefix, sizeof(prefix), "%u.", job_id);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        publish_step(&p, dirfd(dir), e->d_name);
        steps++;
    }
    closedir(dir);
    return p.failed ? p.failed : steps;
}
