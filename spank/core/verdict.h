/* verdict.h - one judgement: ok < unknown < warn < fail.
 *
 * "Unknown" is a value: what could not be read is never ok, and alone never takes a
 * node out of service.
 */
#ifndef GS_VERDICT_H
#define GS_VERDICT_H

#include <stdbool.h>

enum gs_verdict {
    GS_OK,
    GS_UNKNOWN,
    GS_WARN,
    GS_FAIL,
    GS_VERDICTS /* how many there are */
};

/* "ok", "unknown", "warn", "fail"; static. Any other value gives "unknown". */
const char *gs_verdict_name(enum gs_verdict verdict);

/* The reverse; false and *ret_verdict kept: no such name. */
bool gs_verdict_read(const char *name, enum gs_verdict *ret_verdict);

/* The worse of two. */
enum gs_verdict gs_verdict_worst(enum gs_verdict a, enum gs_verdict b);

#endif
