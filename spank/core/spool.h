/* spool.h - the step's directory on a node, and how it reaches the archive.
 *
 *   BASE/<job>.<step>/sys/   root's: the report, node events
 *   BASE/<job>.<step>/user/  the job's user's: hostile input for every reader
 *   BASE/<job>.<step>/meet.key  what the step's tasks find each other with, see below
 *   BASE/<job>.node/sys/     root's: what was checked before and after the job
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
#define GS_EVENTS_FILE "events.jsonl" /* one JSON object per line, only appended to */
#define GS_SAMPLE_FILE "health.json"  /* the record of a look at the GPUs */
#define GS_PUBLISH_FILE_MAX 67108864  /* bytes of one file that go to the archive */
#define GS_PUBLISH_COUNT_MAX 1024     /* files of one directory */

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

/* Writes BASE/<job>.<step>/meet.key, which only uid may read and nobody may replace:
 * the key that the tasks of the step share for as long as they run, and the ports that
 * the site lets them meet at (0 0 = any), as one line of JSON. The step's directory
 * must be there. It never goes to the archive. Returns 0 or -errno with a sentence. */
#define GS_MEET_FILE "meet.key"
struct gs_meet {
    uint8_t key[32];
    uint16_t port_lo, port_hi;
};
int gs_spool_meet(const char *step_dir,
                  const struct gs_meet *meet,
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

/* Adds one line, which has no line end, to the job's own records on this node. Returns
 * 0 or -errno with a sentence. */
int gs_spool_event(const char *base,
                   uint32_t job_id,
                   const char *line,
                   struct gs_error *error);

/* Whether the job has records of its own on this node. */
bool gs_spool_has_events(const char *base, uint32_t job_id);

/* Writes a whole file into the folder of the job's own records. As above. */
int gs_spool_keep(const char *base,
                  uint32_t job_id,
                  const char *name,
                  const char *text,
                  struct gs_error *error);

/* The first sample that was taken for the job on this node: before the job, or else
 * before one of its steps. Text of at most GS_SAMPLE_MAX bytes, to be freed with
 * gs_text_free(); NULL: there is none. */
#define GS_SAMPLE_MAX 4194304
char *gs_spool_sample(const char *base, uint32_t job_id);

/* Removes the records of jobs that have ended here, but for the latest `keep` ones. */
void gs_spool_prune(const char *base, uint32_t keep);

/* Copies what every step of the job left under BASE to ARCHIVE/<job>.<step>/NODE/, the
 * complete report also to ARCHIVE/<job>.<step>/start.json, then removes it under BASE;
 * the job's own records are copied and stay.
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
