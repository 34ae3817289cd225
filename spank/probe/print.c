/* print.c - see print.h. A reader that has gone away ends the program by SIGPIPE; a
 * full disk behind standard output ends it with exit 74. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "error_private.h"
#include "hostlist.h"
#include "json_private.h"
#include "print.h"

#define EXIT_WRITE 74

void gs_probe_print_line(char *line)
{
    bool failed;

    if (!line)
        exit(gs_probe_complain(EXIT_FAILURE, "gangstart-probe: out of memory"));
    failed = fputs(line, stdout) < 0 || putchar('\n') < 0 || fflush(stdout) < 0;
    gs_text_free(line);
    if (failed)
        exit(EXIT_WRITE);
}

int gs_probe_complain(int code, const char *format, ...)
{
    struct gs_strbuf buf = {0};
    char text[GS_ERROR_SIZE];
    va_list args;
    char *line;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "%s\n", text);
    gs_strbuf_add(&buf, "{");
    gs_json_text(&buf, "error", text);
    gs_strbuf_add(&buf, "}");
    line = gs_strbuf_take(&buf);
    if (line)
        puts(line);
    fflush(stdout);
    gs_text_free(line);
    return code;
}
