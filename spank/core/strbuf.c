/* strbuf.c - text that grows; see strbuf_private.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "strbuf_private.h"

#define FIRST_SIZE 128

/* Makes room for at least want more characters and the terminator. */
static void grow(struct gs_strbuf *buf, size_t want)
{
    size_t size = buf->size ? buf->size : FIRST_SIZE;
    char *text;

    while (size <= buf->used + want)
        size *= 2;
    if (size == buf->size)
        return;
    text = realloc(buf->text, size);
    if (!text) {
        buf->failed = true;
        return;
    }
    buf->text = text;
    buf->size = size;
}

void gs_strbuf_add(struct gs_strbuf *buf, const char *format, ...)
{
    va_list args, again;
    int n;

    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    if (n < 0)
        buf->failed = true;
    if (!buf->failed)
        grow(buf, (size_t)n);
    if (!buf->failed && buf->text) {
        vsnprintf(buf->text + buf->used, buf->size - buf->used, format, again);
        buf->used += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

char *gs_strbuf_take(struct gs_strbuf *buf)
{
    char *text;

    if (!buf->failed && !buf->text)
        gs_strbuf_add(buf, "%s", "");
    text = buf->text;
    if (buf->failed) {
        free(text);
        text = NULL;
    }
    *buf = (struct gs_strbuf){0};
    return text;
}
