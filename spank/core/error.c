/* error.c - fills struct gs_error; see error.h. */
#include <stdarg.h>
#include <stdio.h>

#include "error_private.h"

int gs_error_set(struct gs_error *error, int code, const char *format, ...)
{
    va_list args;

    if (!error)
        return -code;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    for (char *c = error->text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return -code;
}
