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

#define NAME_SIZE 60       /* a longer name is none of ours and is not kept */
#define REMOVE_MAX 4000000 /* entries; somebody who still makes new ones ends here */

struct publisher {
    const char *archive;
    const char *node;
    bool keep;  /* of this step something could not be copied: it stays */
    int failed; /* first -errno of all steps */
    struct gs_error *error;
};

static void note(struct publisher *p, int code, const char *what, const char *path)
{
    p->keep = true;
    if (p->failed == 0)
        p->failed =
            gs_error_set(p->error, code, "%s %s: %s", what, path, strerror(code));
}

static int make_path(const char *path)
{
    return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* Copies one plain file into an existing directory. Returns 0, also for what is no
 * plain file and is passed over, or -errno: the archive did not take it. */
static int copy_file(int from_dir, const char *name, const char *to_dir)
{
    uint8_t block[65536];
    struct gs_spoolfile out;
    struct stat info;
    size_t total = 0;
    ssize_t got = 0;
    int rc, in = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (in < 0)
        return 0;
    rc = fstat(in, &info) < 0 || !S_ISREG(info.st_mode)
             ? 1
             : gs_spoolfile_begin(&out, to_dir, name, NULL);
    if (rc) {
        close(in);
        return rc > 0 ? 0 : rc;
    }
    while (rc == 0 && total < GS_PUBLISH_FILE_MAX
           && (got = read(in, block, sizeof(block))) > 0) {
        rc = gs_spoolfile_write(&out, block, (size_t)got);
        total += (size_t)got;
    }
    if (got < 0)
        rc = -errno;
    close(in);
    if (rc == 0)
        return gs_spoolfile_commit(&out);
    gs_spoolfile_cancel(&out);
    return rc;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool remove_entry(int dir, const char *name)
{
    return unlinkat(dir, name, 0) == 0 || unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

/* Moves what is in the folder dir/name up into dir, then removes the folder. Whether
 * anything was moved or removed: a mount point, for one, stays as it is. */
static bool lift(int dir, const char *name, uint32_t *serial)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *below = fd < 0 ? NULL : fdopendir(fd);
    char free_name[32];
    bool any = false;

    if (!below) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    for (const struct dirent *e = readdir(below); e; e = readdir(below)) {
        if (is_dots(e->d_name))
            continue;
        snprintf(free_name, sizeof(free_name), ".lifted.%u", (*serial)++);
        any |=
            remove_entry(fd, e->d_name) || renameat(fd, e->d_name, dir, free_name) == 0;
    }
    closedir(below);
    return unlinkat(dir, name, AT_REMOVEDIR) == 0 || any;
}

/* Removes everything in a directory. Folders may be nested as deep as their owner
 * pleased: instead of going down, what lies below is lifted up, level by level. */
static void empty_dir(DIR *dir)
{
    uint32_t serial = 0, seen = 0;
    bool again;

    do {
        again = false;
        rewinddir(dir);
        for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
            if (is_dots(e->d_name) || remove_entry(dirfd(dir), e->d_name))
                continue;
            again |= lift(dirfd(dir), e->d_name, &serial);
            seen++;
        }
    } while (again && seen < REMOVE_MAX);
}

/* Copies (if to is given) and removes the entries of one directory. */
static void drain_dir(struct publisher *p, int parent, const char *name, const char *to)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    uint32_t count = 0;

    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        int rc = 0;
        if (is_dots(e->d_name))
            continue;
        if (to && strlen(e->d_name) < NAME_SIZE && count++ < GS_PUBLISH_COUNT_MAX)
            rc = copy_file(fd, e->d_name, to);
        if (rc < 0)
            note(p, -rc, "cannot copy to", to);
        else
            unlinkat(fd, e->d_name, 0);
    }
    if (dir && !p->keep)
        empty_dir(dir);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    /* A link or file in the folder's place goes too. */
    if (!p->keep && !remove_entry(parent, name) && errno != ENOENT)
        note(p, errno, "cannot remove", name);
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
    int rc, fd;

    if (!p->archive[0]) {
        drain_dir(p, step_fd, part, NULL);
        return;
    }
    fd = openat(step_fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && strcmp(part, "sys") == 0 && has_complete(fd)
        && (rc = copy_file(fd, "start.json", to)) < 0)
        note(p, -rc, "cannot copy the report to", to);
    if (fd >= 0)
        close(fd);
    snprintf(path, sizeof(path), "%s/%s", to, p->node);
    rc = make_path(path);
    snprintf(path, sizeof(path), "%s/%s/%s", to, p->node, part);
    if (rc == 0)
        rc = make_path(path);
    if (rc < 0)
        note(p, -rc, "cannot make", path);
    else
        drain_dir(p, step_fd, part, path);
}

static void publish_step(struct publisher *p, int base_fd, const char *step)
{
    char to[GS_PATH_SIZE + 300];
    int rc, fd = openat(base_fd, step, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return;
    p->keep = false;
    snprintf(to, sizeof(to), "%s/%s", p->archive, step);
    rc = p->archive[0] ? make_path(to) : 0;
    if (rc < 0) {
        note(p, -rc, "cannot make", to);
    } else {
        publish_part(p, fd, "sys", to);
        publish_part(p, fd, "user", to);
    }
    close(fd);
    if (!p->keep && unlinkat(base_fd, step, AT_REMOVEDIR) < 0)
        note(p, errno, "cannot remove", step);
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
