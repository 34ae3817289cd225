/* report.c - the user's program: writes down what it was started with.
 *
 * host report FILE CHANGED FATE NUMBER; FILE "" = write nothing. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host.h"

static void put(FILE *out, const char *text, size_t size)
{
    fputc('"', out);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\' || c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void put_environment(FILE *out)
{
    fputs("\"env\": {", out);
    for (char **one = environ; *one; one++) {
        size_t name = strcspn(*one, "=");
        if (one != environ)
            fputs(", ", out);
        put(out, *one, name);
        fputs(": ", out);
        put(out, *one + name + 1, strlen(*one + name + 1));
    }
    fputs("}", out);
}

static void put_descriptors(FILE *out, int own)
{
    DIR *dir = opendir("/proc/self/fd");
    const char *comma = "";

    fputs(", \"fds\": [", out);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        int fd = atoi(e->d_name);
        if (e->d_name[0] == '.' || fd == dirfd(dir) || fd == own)
            continue;
        fprintf(out, "%s%d", comma, fd);
        comma = ", ";
    }
    closedir(dir);
    fputs("]", out);
}

/* A program may not ask for SO_REUSEADDR: the port must be free, not almost free. */
static int try_port(void)
{
    const char *port = getenv("MASTER_PORT"), *rank = getenv("RANK");
    struct sockaddr_in any = {.sin_family = AF_INET};
    int fd, rc;

    if (!port || !rank || strcmp(rank, "0") != 0)
        return -1;
    any.sin_port = htons((uint16_t)atoi(port));
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    rc = bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0 || listen(fd, 1) < 0 ? errno
                                                                                 : 0;
    close(fd);
    return rc;
}

static void write_down(const char *path, const char *changed)
{
    char temp[1100];
    FILE *out;

    snprintf(temp, sizeof(temp), "%s.%d", path, getpid());
    out = fopen(temp, "we");
    if (!out)
        die(temp);
    fputs("{", out);
    put_environment(out);
    put_descriptors(out, fileno(out));
    fprintf(out, ", \"bind\": %d, \"changed\": ", try_port());
    put(out, changed, strlen(changed));
    fputs("}\n", out);
    fclose(out);
    if (rename(temp, path) < 0)
        die(path);
}

int run_report(int argc, char **argv)
{
    const char *rank = getenv("SLURM_PROCID");
    enum rank_fate fate;
    char byte;

    if (argc != 6)
        return 2;
    fate = (enum rank_fate)atoi(argv[4]);
    if (argv[2][0])
        write_down(argv[2], argv[3]);
    event("ran", "\"rank\": %s, \"pid\": %d", rank ? rank : "-1", getpid());
    while (fate == RANK_STDIN && read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return fate == RANK_THEN ? atoi(argv[5]) : 0;
}
