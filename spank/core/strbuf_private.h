/* strbuf_private.h - text that grows, for C only.
 *
 * Running out of memory is remembered and reported once, by gs_strbuf_take(), so
 * that callers append without checking each step.
 */
#ifndef GS_STRBUF_PRIVATE_H
#define GS_STRBUF_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

struct gs_strbuf {
    char *text;
    size_t used, size;
    bool failed;
};

/* Appends formatted text. */
void gs_strbuf_add(struct gs_strbuf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The text (malloc'd, the caller's to free), or NULL if memory ran out. buf is empty
 * afterwards. */
char *gs_strbuf_take(struct gs_strbuf *buf);

#endif
