/* spool.h - the step's directory on a node, and how it reaches the archive.
 *
 *   BASE/<job>.<step>/sys/   root's: the report, node events
 *   BASE/<job>.<step>/user/  the job's user's: hostile input for every reader
 *
 * A file appears whole or not at all: written under another name, then renamed.
 */
#ifndef GS_SPOOL_H
#define GS_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define GS_PATH_SIZE 1024
#define GS_PUBLISH_FILE_MAX 67108864 /* bytes of one file that go to the archive */
#define GS_PUBLISH_COUNT_MAX 1024    /* files of one directory */

/* A file being written. Zero is not valid: use gs_spoolfile_begin(). */
struct gs_spoolfile {
    int dir_fd;
    int fd;
    char name[256];
    char temp[64];
};

/* Makes BASE (if missing), the step's directory and its two parts; user/ belongs to
 * uid:gid. Existing directories are fine if they are ours, and user/ is given to uid
 * again. Returns 0 or -errno with a sentence. */
int gs_spool_create(const char *base,
                    uint32_t job_id,
                    uint32_t step_id,
                    uint32_t uid,
                    uint32_t gid,
                    struct gs_error *error);

/* Writes "BASE/<job>.<step>" into ret_path of size bytes; false if it does not fit. */
bool gs_spool_path(
    const char *base, uint32_t job_id, uint32_t step_id, char *ret_path, size_t size);

/* Begins, fills, and completes the file DIR/NAME, replacing an older one. A link in
 * the place of the file is replaced, not followed. Returns 0 or -errno with a
 * sentence. After a failure call gs_spoolfile_cancel(), which removes what is there
 * and is harmless after a commit. */
int gs_spoolfile_begin(struct gs_spoolfile *file,
                       const char *dir,
                       const char *name,
                       struct gs_error *error);
int gs_spoolfile_write(struct gs_spoolfile *file, const uint8_t *data, size_t size);
int gs_spoolfile_commit(struct gs_spoolfile *file);
void gs_spoolfile_cancel(struct gs_spoolfile *file);

/* Copies what every step of the job left under BASE to ARCHIVE/<job>.<step>/NODE/, the
 * complete report also to ARCHIVE/<job>.<step>/start.json, then removes it under BASE.
 * Only plain files, not through links, up to the limits above, and none of directories
 * that somebody made inside. archive "" = only remove. Returns how many steps there
 * were, or the first -errno with a sentence; whatever failed, the rest is still done,
 * and what the archive did not take stays. */
int gs_spool_publish(const char *base,
                     const char *archive,
                     uint32_t job_id,
                     const char *node,
                     struct gs_error *error);

#endif
