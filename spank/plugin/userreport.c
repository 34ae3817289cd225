/* userreport.c - the user's own copy of the report, written by srun with his rights.
 *
 * report=PATH names the file; without it the copy goes below XDG_STATE_HOME (by default
 * ~/.local/state)/gangstart/CLUSTER/, where the oldest are removed beyond KEEP. A copy
 * that cannot be written is no reason to fail anything. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "plugin.h"
#include "spool.h"

#define KEEP 200

static bool make_dirs(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int rc = mkdir(path, 0700);
        *slash = '/';
        if (rc < 0 && errno != EEXIST)
            return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* Name of the oldest report in dir once there are more than KEEP; "" = fine. */
static void find_oldest(const char *dir, char ret_name[NAME_MAX + 1])
{
    DIR *entries = opendir(dir);
    struct timespec oldest = {.tv_sec = LONG_MAX};
    unsigned count = 0;

    ret_name[0] = '\0';
    if (!entries)
        return;
    for (const struct dirent *e = readdir(entries); e; e = readdir(entries)) {
        struct stat info;
        if (e->d_name[0] == '.' || fstatat(dirfd(entries), e->d_name, &info, 0) < 0
            || !S_ISREG(info.st_mode))
            continue;
        count++;
        if (info.st_mtim.tv_sec < oldest.tv_sec
            || (info.st_mtim.tv_sec == oldest.tv_sec
                && info.st_mtim.tv_nsec < oldest.tv_nsec)) {
            oldest = info.st_mtim;
            snprintf(ret_name, NAME_MAX + 1, "%s", e->d_name);
        }
    }
    closedir(entries);
    if (count <= KEEP)
        ret_name[0] = '\0';
}

static void prune(const char *dir)
{
    char name[NAME_MAX + 1], path[GS_SPEC_REPORT_SIZE + NAME_MAX + 2];

    find_oldest(dir, name);
    if (!name[0])
        return;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    unlink(path);
}

static bool default_dir(const char *cluster, char dir[GS_SPEC_REPORT_SIZE])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool have_state = state && state[0] == '/';
    int n;

    if (!have_state && (!home || home[0] != '/'))
        return false;
    n = snprintf(dir,
                 GS_SPEC_REPORT_SIZE,
                 "%s%s/gangstart/%s",
                 have_state ? state : home,
                 have_state ? "" : "/.local/state",
                 cluster);
    /* XDG_STATE_HOME is to be made where it is missing, says the XDG Base Directory
     * Specification; a home that is not there is not ours to make. */
    return n > 0 && n < GS_SPEC_REPORT_SIZE - 64
           && (have_state || access(home, F_OK) == 0) && make_dirs(dir);
}

/* Only a plain file, or nothing, may be in the place of the report: a rename would
 * replace a device or a link just as well. On failure errno says why. */
static bool put(const char *dir, const char *name, const char *report)
{
    struct gs_spoolfile file;
    struct stat info;
    char path[GS_SPEC_REPORT_SIZE + 80];
    int rc;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        errno = S_ISDIR(info.st_mode) ? EISDIR : EEXIST;
        return false;
    }
    rc = gs_spoolfile_begin(&file, dir, name, NULL);
    if (rc == 0) {
        rc = gs_spoolfile_write(&file, (const uint8_t *)report, strlen(report));
        if (rc == 0)
            rc = gs_spoolfile_commit(&file);
        else
            gs_spoolfile_cancel(&file);
    }
    errno = -rc;
    return rc == 0;
}

void gs_user_report(const struct gs_spec *spec,
                    const char *cluster,
                    uint32_t job_id,
                    uint32_t step_id,
                    const char *report,
                    char ret_path[GS_SPEC_REPORT_SIZE])
{
    char dir[GS_SPEC_REPORT_SIZE], name[64];
    const char *slash = strrchr(spec->report, '/');

    ret_path[0] = '\0';
    if (strcmp(spec->report, "none") == 0)
        return;
    if (slash && slash[1]) {
        snprintf(dir, sizeof(dir), "%.*s", (int)(slash - spec->report), spec->report);
        if (put(dir[0] ? dir : "/", slash + 1, report))
            snprintf(ret_path, GS_SPEC_REPORT_SIZE, "%s", spec->report);
        else
            slurm_error("gang-start: the report cannot be written to %s: %s",
                        spec->report,
                        errno == EEXIST ? "there is something that is no plain file "
                                          "(report=none writes no report)"
                                        : strerror(errno));
        return;
    }
    snprintf(name, sizeof(name), "%u.%u.json", job_id, step_id);
    if (!default_dir(cluster, dir) || !put(dir, name, report))
        return;
    snprintf(ret_path, GS_SPEC_REPORT_SIZE, "%.900s/%s", dir, name);
    prune(dir);
}
