/* error_private.h - varargs helper, kept out of the cffi declarations. */
#ifndef GS_ERROR_PRIVATE_H
#define GS_ERROR_PRIVATE_H

#include "error.h"

/* Formats the sentence into error (which may be NULL) and returns -code, so that
 * `return gs_error_set(error, EINVAL, "...")` reads as one step. Longer texts are
 * cut; control characters are replaced by '?', since parts of a text may come
 * from a user. */
int gs_error_set(struct gs_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
