/* resolve.c - see resolve_private.h. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resolve_private.h"
#include "spawn_private.h"

#define GETENT "/usr/bin/getent"

bool gs_resolve_is_numeric(const char *text)
{
    uint8_t bytes[16];

    return inet_pton(AF_INET, text, bytes) == 1
           || inet_pton(AF_INET6, text, bytes) == 1;
}

bool gs_resolve_is_name(const char *text)
{
    size_t size = strlen(text);

    if (gs_resolve_is_numeric(text))
        return true;
    if (!size || size > 253 || !isalnum((unsigned char)text[0]))
        return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(".-_", *c))
            return false;
    return true;
}

int gs_resolver_start(struct gs_resolver *resolver, const char *name, int64_t now_us)
{
    const char *argv[] = {GETENT, "ahosts", "--", name, NULL};
    int ends[2], rc;

    memset(resolver, 0, sizeof(*resolver));
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    rc = gs_spawn(argv, ends[1], &resolver->pid);
    close(ends[1]);
    if (rc < 0) {
        close(ends[0]);
        return rc;
    }
    resolver->fd = ends[0];
    resolver->begun_us = now_us;
    resolver->active = true;
    return 0;
}

static void finish(struct gs_resolver *resolver)
{
    close(resolver->fd);
    /* slurmstepd may have reaped it already; either way it is no zombie of ours. */
    waitpid(resolver->pid, NULL, WNOHANG);
    resolver->active = false;
}

void gs_resolver_stop(struct gs_resolver *resolver)
{
    if (!resolver->active)
        return;
    kill(resolver->pid, SIGKILL);
    finish(resolver);
}

int gs_resolver_step(struct gs_resolver *resolver, int64_t now_us)
{
    size_t room = sizeof(resolver->text) - 1 - resolver->got;
    ssize_t got;

    if (!resolver->active)
        return -ENOENT;
    got = read(resolver->fd, resolver->text + resolver->got, room);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (now_us < resolver->begun_us + GS_RESOLVE_US)
            return 0;
        gs_resolver_stop(resolver);
        return -ETIMEDOUT;
    }
    if (got > 0 && (size_t)got < room) {
        resolver->got += (size_t)got;
        return 0;
    }
    if (got > 0)
        resolver->got += (size_t)got;
    resolver->text[resolver->got] = '\0';
    finish(resolver);
    return resolver->got ? 1 : -ENOENT;
}

bool gs_resolver_address(const struct gs_resolver *resolver,
                         uint32_t n,
                         char ret_address[GS_ADDR_SIZE])
{
    const char *line = resolver->text;
    char last[GS_ADDR_SIZE] = "", word[GS_ADDR_SIZE];

    for (uint32_t seen = 0; *line; line += *line == '\n') {
        size_t size = strcspn(line, " \t\n");
        if (size && size < sizeof(word)) {
            memcpy(word, line, size);
            word[size] = '\0';
            /* One address has a line per socket type, one after another. */
            if (strcmp(word, last) != 0 && gs_resolve_is_numeric(word) && seen++ == n) {
                memcpy(ret_address, word, size + 1);
                return true;
            }
            memcpy(last, word, size + 1);
        }
        line += strcspn(line, "\n");
    }
    return false;
}
