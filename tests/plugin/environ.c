/* environ.c - a job's environment: in slurmstepd it is data, not the process's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

static size_t count(void)
{
    size_t n = 0;

    while (phase.env && phase.env[n])
        n++;
    return n;
}

static void append(char *entry)
{
    size_t n = count();

    if (n + 2 > phase.env_room) {
        phase.env_room = 2 * (n + 32);
        phase.env = realloc(phase.env, phase.env_room * sizeof(*phase.env));
        if (!phase.env)
            die("realloc");
    }
    phase.env[n] = entry;
    phase.env[n + 1] = NULL;
}

void env_read(int fd)
{
    static char block[1 << 20];
    size_t size = 0;
    ssize_t got;

    while ((got = read(fd, block + size, sizeof(block) - 1 - size)) > 0)
        size += (size_t)got;
    for (size_t at = 0; at < size; at += strlen(block + at) + 1)
        append(strdup(block + at));
    explicit_bzero(block, size);
}

static char **find(const char *name)
{
    size_t size = strlen(name);

    for (char **one = phase.env; one && *one; one++)
        if (strncmp(*one, name, size) == 0 && (*one)[size] == '=')
            return one;
    return NULL;
}

const char *env_get(const char *name)
{
    char **found = find(name);

    return found ? strchr(*found, '=') + 1 : NULL;
}

void env_unset(const char *name)
{
    char **found = find(name);

    if (!found)
        return;
    free(*found);
    for (; *found; found++)
        *found = found[1];
}

void env_set(const char *name, const char *value)
{
    char *entry;

    if (asprintf(&entry, "%s=%s", name, value) < 0)
        die("asprintf");
    env_unset(name);
    append(entry);
}

void env_number(const char *name, unsigned long value)
{
    char text[32];

    snprintf(text, sizeof(text), "%lu", value);
    env_set(name, text);
}
