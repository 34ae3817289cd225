/* spool.c - directories and whole files of spool.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error_private.h"
#include "spool.h"
#include "spool_private.h"

bool gs_spool_path(
    const char *base, uint32_t job_id, uint32_t step_id, char *ret_path, size_t size)
{
    int n = snprintf(ret_path, size, "%s/%u.%u", base, job_id, step_id);

    return n > 0 && (size_t)n < size;
}

/* A directory that everybody can read, whatever the umask: slurmstepd has the job's. */
static int make_open(const char *path)
{
    return mkdir(path, 0755) < 0 ? -1 : chmod(path, 0755);
}

/* An existing directory of another user may hold whatever that user put there. */
int gs_spool_own_dir(const char *path, struct gs_error *error)
{
    struct stat info;

    if (make_open(path) < 0 && errno != EEXIST)
        return gs_error_set(error, errno, "cannot make %s: %s", path, strerror(errno));
    if (lstat(path, &info) < 0 || !S_ISDIR(info.st_mode))
        return gs_error_set(error, ENOTDIR, "%s is in the way: not a directory", path);
    if (info.st_uid != geteuid() || (info.st_mode & 022))
        return gs_error_set(error,
                            EPERM,
                            "%s must belong to uid %u and be writable for nobody else "
                            "(it is uid %u's, mode %o)",
                            path,
                            geteuid(),
                            info.st_uid,
                            info.st_mode & 07777);
    return 0;
}

/* In a directory of ours, so nobody else moves it while we look. */
static int make_user_dir(const char *path,
                         uint32_t uid,
                         uint32_t gid,
                         struct gs_error *error)
{
    struct stat info;

    if (make_open(path) < 0 && errno != EEXIST)
        return gs_error_set(error, errno, "cannot make %s: %s", path, strerror(errno));
    if (lstat(path, &info) < 0 || !S_ISDIR(info.st_mode))
        return gs_error_set(error, ENOTDIR, "%s is in the way: not a directory", path);
    if ((info.st_uid != uid || info.st_gid != gid) && lchown(path, uid, gid) < 0)
        return gs_error_set(
            error, errno, "cannot give %s to uid %u: %s", path, uid, strerror(errno));
    return 0;
}

int gs_spool_create(const char *base,
                    uint32_t job_id,
                    uint32_t step_id,
                    uint32_t uid,
                    uint32_t gid,
                    struct gs_error *error)
{
    char path[GS_PATH_SIZE], part[GS_PATH_SIZE + 8];
    int rc;

    if (!gs_spool_path(base, job_id, step_id, path, sizeof(path)))
        return gs_error_set(
            error, ENAMETOOLONG, "the spool's path is too long: %.100s…", base);
    rc = gs_spool_own_dir(base, error);
    if (rc == 0)
        rc = gs_spool_own_dir(path, error);
    snprintf(part, sizeof(part), "%s/sys", path);
    if (rc == 0)
        rc = gs_spool_own_dir(part, error);
    snprintf(part, sizeof(part), "%s/user", path);
    if (rc == 0)
        rc = make_user_dir(part, uid, gid, error);
    return rc;
}

int gs_spoolfile_begin(struct gs_spoolfile *file,
                       const char *dir,
                       const char *name,
                       struct gs_error *error)
{
    memset(file, 0, sizeof(*file));
    file->fd = file->dir_fd = -1;
    if (!name[0] || strchr(name, '/') || strlen(name) >= sizeof(file->name))
        return gs_error_set(error,
                            ENAMETOOLONG,
                            "cannot write %s/%.60s: no file can have this name",
                            dir,
                            name);
    file->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file->dir_fd < 0)
        return gs_error_set(
            error, errno, "cannot write %s/%s: %s", dir, name, strerror(errno));
    snprintf(file->name, sizeof(file->name), "%s", name);
    snprintf(file->temp, sizeof(file->temp), ".%.40s.%d", file->name, getpid());
    unlinkat(file->dir_fd, file->temp, 0);
    file->fd = openat(file->dir_fd,
                      file->temp,
                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                      0644);
    if (file->fd < 0) {
        int code = errno;
        gs_spoolfile_cancel(file);
        return gs_error_set(
            error, code, "cannot write %s/%s: %s", dir, name, strerror(code));
    }
    return 0;
}

int gs_spoolfile_write(struct gs_spoolfile *file, const uint8_t *data, size_t size)
{
    while (size) {
        ssize_t put = write(file->fd, data, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        data += put;
        size -= (size_t)put;
    }
    return 0;
}

int gs_spoolfile_commit(struct gs_spoolfile *file)
{
    int rc = 0;

    if (renameat(file->dir_fd, file->temp, file->dir_fd, file->name) < 0)
        rc = -errno;
    else
        file->temp[0] = '\0';
    gs_spoolfile_cancel(file);
    return rc;
}

void gs_spoolfile_cancel(struct gs_spoolfile *file)
{
    if (file->dir_fd < 0)
        return;
    if (file->temp[0])
        unlinkat(file->dir_fd, file->temp, 0);
    if (file->fd >= 0)
        close(file->fd);
    close(file->dir_fd);
    file->dir_fd = file->fd = -1;
    file->temp[0] = '\0';
}
