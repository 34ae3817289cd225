/* spool_job.c - the job's own records on a node: BASE/<job>.node/sys. See spool.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "error_private.h"
#include "spool.h"
#include "spool_private.h"

#define TAIL 65536
#define JOBS_MAX 4096

static int make_folder(const char *base,
                       uint32_t job_id,
                       char ret_path[GS_PATH_SIZE],
                       struct gs_error *error)
{
    int rc, n = snprintf(ret_path, GS_PATH_SIZE, "%s/%u.node/sys", base, job_id);

    if (n < 0 || n >= GS_PATH_SIZE)
        return gs_error_set(
            error, ENAMETOOLONG, "the spool's path is too long: %.100s…", base);
    rc = gs_spool_own_dir(base, error);
    ret_path[n - 4] = '\0'; /* without "/sys" */
    if (rc == 0)
        rc = gs_spool_own_dir(ret_path, error);
    ret_path[n - 4] = '/';
    return rc < 0 ? rc : gs_spool_own_dir(ret_path, error);
}

/* One write: lines of several writers never mix. A part of a line is taken back, or it
 * would spoil the next one. 0 or an errno. */
static int append(int fd, const char *line, size_t size)
{
    struct stat info;
    ssize_t put;

    if (fstat(fd, &info) < 0)
        return errno;
    put = write(fd, line, size);
    if (put == (ssize_t)size)
        return 0;
    if (put < 0)
        return errno;
    return ftruncate(fd, info.st_size) < 0 ? errno : ENOSPC;
}

int gs_spool_event(const char *base,
                   uint32_t job_id,
                   const char *line,
                   struct gs_error *error)
{
    char path[GS_PATH_SIZE], *whole = NULL;
    int fd, dir, size, code, rc = make_folder(base, job_id, path, error);

    if (rc < 0)
        return rc;
    dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    fd = openat(dir,
                GS_EVENTS_FILE,
                O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                0644);
    if (dir >= 0)
        close(dir);
    size = fd < 0 ? -1 : asprintf(&whole, "%s\n", line);
    code = fd < 0 ? errno : ENOMEM;
    if (size >= 0)
        code = append(fd, whole, (size_t)size);
    if (code)
        rc = gs_error_set(error,
                          code,
                          "cannot add to %s/%s: %s",
                          path,
                          GS_EVENTS_FILE,
                          strerror(code));
    if (size >= 0)
        free(whole);
    if (fd >= 0)
        close(fd);
    return rc;
}

bool gs_spool_has_events(const char *base, uint32_t job_id)
{
    char path[GS_PATH_SIZE];
    int n =
        snprintf(path, sizeof(path), "%s/%u.node/sys/%s", base, job_id, GS_EVENTS_FILE);

    return n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0;
}

int gs_spool_keep(const char *base,
                  uint32_t job_id,
                  const char *name,
                  const char *text,
                  struct gs_error *error)
{
    struct gs_spoolfile file;
    char path[GS_PATH_SIZE];
    int rc = make_folder(base, job_id, path, error);

    if (rc == 0)
        rc = gs_spoolfile_begin(&file, path, name, error);
    if (rc < 0)
        return rc;
    rc = gs_spoolfile_write(&file, (const uint8_t *)text, strlen(text));
    if (rc == 0)
        rc = gs_spoolfile_commit(&file);
    else
        gs_spoolfile_cancel(&file);
    return rc == 0
               ? 0
               : gs_error_set(error, -rc, "cannot write %s: %s", path, strerror(-rc));
}

/* Opens FOLDER/sys/NAME below base, if it is a plain file of ours. */
static int open_record(int base,
                       const char *folder,
                       const char *name,
                       struct stat *info)
{
    char path[300];
    int dir, fd;

    snprintf(path, sizeof(path), "%.250s/sys", folder);
    dir = openat(base, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return -1;
    fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    close(dir);
    if (fd >= 0
        && (fstat(fd, info) < 0 || !S_ISREG(info->st_mode)
            || info->st_uid != geteuid())) {
        close(fd);
        return -1;
    }
    return fd;
}

static char *read_text(int fd, off_t size)
{
    char *text = size > 0 && size <= GS_SAMPLE_MAX ? calloc(1, (size_t)size + 1) : NULL;

    if (text && read(fd, text, (size_t)size) != size) {
        free(text);
        text = NULL;
    }
    return text;
}

static bool is_older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

char *gs_spool_sample(const char *base, uint32_t job_id)
{
    struct timespec oldest = {0};
    char prefix[16], *found = NULL;
    DIR *dir = opendir(base);

    if (!dir)
        return NULL;
    snprintf(prefix, sizeof(prefix), "%u.", job_id);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        struct stat info;
        char *text;
        int fd = strncmp(e->d_name, prefix, strlen(prefix)) == 0
                     ? open_record(dirfd(dir), e->d_name, GS_SAMPLE_FILE, &info)
                     : -1;
        if (fd < 0)
            continue;
        text = !found || is_older(&info.st_mtim, &oldest) ? read_text(fd, info.st_size)
                                                          : NULL;
        close(fd);
        if (!text)
            continue;
        free(found);
        found = text;
        oldest = info.st_mtim;
    }
    closedir(dir);
    return found;
}

/* A job whose last record is that of its epilog has ended here. */
static bool has_ended(int base, const char *folder, struct timespec *ret_when)
{
    char tail[TAIL + 1], *line;
    struct stat info;
    ssize_t got;
    int fd = open_record(base, folder, GS_EVENTS_FILE, &info);

    if (fd < 0)
        return false;
    got = pread(fd, tail, TAIL, info.st_size > TAIL ? info.st_size - TAIL : 0);
    close(fd);
    tail[got > 0 ? got : 0] = '\0';
    *ret_when = info.st_mtim;
    /* The stage stands among the first words of a line; a line may be longer than the
     * tail, and then its beginning is not there: kept until the next one comes. */
    line = got > 1 ? memrchr(tail, '\n', (size_t)got - 1) : NULL;
    line = line ? line + 1 : info.st_size <= TAIL ? tail : NULL;
    return line && strstr(line, "\"stage\":\"epilog\"");
}

struct ended {
    char name[32];
    struct timespec when;
};

static int latest_first(const void *a, const void *b)
{
    const struct ended *one = a, *other = b;

    return is_older(&one->when, &other->when)   ? 1
           : is_older(&other->when, &one->when) ? -1
                                                : 0;
}

static bool is_job_folder(const char *name)
{
    size_t digits = strspn(name, "0123456789");

    return digits && digits <= 10 && strcmp(name + digits, ".node") == 0;
}

static void remove_folder(int base, const char *name)
{
    static const char *const files[] = {GS_EVENTS_FILE, GS_SAMPLE_FILE};
    char path[64];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/sys/%s", name, files[i]);
        unlinkat(base, path, 0);
    }
    snprintf(path, sizeof(path), "%s/sys", name);
    unlinkat(base, path, AT_REMOVEDIR);
    unlinkat(base, name, AT_REMOVEDIR);
}

void gs_spool_prune(const char *base, uint32_t keep)
{
    struct ended *ended = calloc(JOBS_MAX, sizeof(*ended));
    DIR *dir = ended ? opendir(base) : NULL;
    uint32_t count = 0;

    if (!dir) {
        free(ended);
        return;
    }
    while (count < JOBS_MAX) {
        const struct dirent *e = readdir(dir);
        if (!e)
            break;
        if (!is_job_folder(e->d_name)
            || !has_ended(dirfd(dir), e->d_name, &ended[count].when))
            continue;
        snprintf(ended[count].name, sizeof(ended[count].name), "%.31s", e->d_name);
        count++;
    }
    qsort(ended, count, sizeof(*ended), latest_first);
    for (uint32_t i = keep; i < count; i++)
        remove_folder(dirfd(dir), ended[i].name);
    closedir(dir);
    free(ended);
}
