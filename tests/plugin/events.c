/* events.c - what happens, for the test: one line, one write(2), so that the lines of
 * several processes never mix. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

const char *quoted(const char *text)
{
    static char buffers[4][2048];
    static unsigned turn;
    char *out = buffers[turn++ % 4], *at = out;

    *at++ = '"';
    for (; *text && at < out + 2032; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\' || c < 0x20)
            at += sprintf(at, "\\u%04x", c);
        else
            *at++ = (char)c;
    }
    *at++ = '"';
    *at = '\0';
    return out;
}

const char *who(void)
{
    static char name[128];

    if (phase.context != S_CTX_REMOTE)
        return host.mode;
    snprintf(name, sizeof(name), "slurmstepd-%s", host.nodes[host.me].name);
    return name;
}

void event(const char *kind, const char *format, ...)
{
    char line[4096];
    va_list ap;
    int size = snprintf(line, sizeof(line), "{\"event\": \"%s\", ", kind);

    va_start(ap, format);
    size += vsnprintf(line + size, sizeof(line) - (size_t)size - 3, format, ap);
    va_end(ap);
    size += sprintf(line + size, "}\n");
    if (write(STDOUT_FILENO, line, (size_t)size) != size)
        _exit(2);
}

void die(const char *what)
{
    perror(what);
    _exit(2);
}
