/* hostargs.c - argv of every mode; a mistake in it is a mistake in the test. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

struct host host = {.job_id = 7877};

static void bad(const char *what, const char *text)
{
    fprintf(stderr, "host: %s: %s\n", what, text);
    exit(2);
}

static uint32_t number(const char *text)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 0);
    if (errno || *end || end == text || value > UINT32_MAX)
        bad("no number", text);
    return (uint32_t)value;
}

static int find(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (names[i] && strcmp(names[i], name) == 0)
            return (int)i;
    bad("no such fate", name);
    return -1;
}

/* NAME=0,3[:FATE] */
static void read_node(char *text)
{
    static const char *const fates[] = {
        "fine", "silent", "failed", "unforked", "old", "odd"};
    struct node *node = &host.nodes[host.node_count];
    char *ranks = strchr(text, '='), *fate = strchr(text, ':'), *rest = NULL;

    if (!ranks || host.node_count == NODES)
        bad("node", text);
    if (fate) {
        *fate = '\0';
        node->fate =
            (enum node_fate)find(fates, sizeof(fates) / sizeof(*fates), fate + 1);
    }
    *ranks = '\0';
    node->name = text;
    for (char *one = strtok_r(ranks + 1, ",", &rest); one;
         one = strtok_r(NULL, ",", &rest)) {
        uint32_t rank = number(one);
        if (rank >= RANKS || node->rank_count == RANKS)
            bad("rank", one);
        node->ranks[node->rank_count++] = rank;
    }
    host.node_count++;
    host.rank_count += node->rank_count;
}

/* RANK=FATE[:NUMBER] */
static void read_rank(const char *argument)
{
    static const char *const fates[] = {
        "fine", "exit", "kill", "never", "then", "stdin", "scribble"};
    char text[64], *fate, *value;
    uint32_t rank;

    snprintf(text, sizeof(text), "%s", argument);
    fate = strchr(text, '=');
    value = strchr(text, ':');
    if (!fate)
        bad("rank", text);
    if (value)
        *value = '\0';
    *fate = '\0';
    rank = number(text);
    if (rank >= RANKS)
        bad("rank", text);
    host.ranks[rank].fate =
        (enum rank_fate)find(fates, sizeof(fates) / sizeof(*fates), fate + 1);
    host.ranks[rank].number = value ? (int)number(value + 1) : 0;
}

static bool is(const char *name, const char *wanted, const char *value)
{
    if (strcmp(name, wanted) != 0)
        return false;
    if (!value)
        bad("no value for", name);
    return true;
}

/* Returns how many arguments were taken. */
static int read_option(const char *name, char *value)
{
    if (strcmp(name, "--no-layout") == 0) {
        host.no_layout = true;
        return 1;
    }
    if (strncmp(name, "--gang-start", 12) == 0) {
        host.flagged = true;
        host.flag = name[12] == '=' ? name + 13 : NULL;
        return 1;
    }
    if (is(name, "--plugin", value) && host.plugin_count < PLUGINS)
        host.plugins[host.plugin_count++] = value;
    else if (is(name, "--arg", value) && host.arg_count < ARGS)
        host.args[host.arg_count++] = value;
    else if (is(name, "--old-plugin", value))
        host.old_plugin = value;
    else if (is(name, "--out", value))
        host.out = value;
    else if (is(name, "--rdzv", value))
        host.rdzv = value;
    else if (is(name, "--list", value))
        host.list = value;
    else if (is(name, "--job", value))
        host.job_id = number(value);
    else if (is(name, "--step", value))
        host.step_id = number(value);
    else if (is(name, "--me", value))
        host.me = number(value);
    else if (is(name, "--node", value))
        read_node(strdup(value)); /* argv itself is handed on to slurmstepd */
    else if (is(name, "--rank", value))
        read_rank(value);
    else
        bad("no such option", name);
    return 2;
}

void host_read(int argc, char **argv)
{
    if (argc < 2)
        bad("usage", "host srun|stepd|sbatch|salloc|slurmd|epilog|report [OPTION...]");
    host.argv = argv;
    host.self = argv[0];
    host.mode = argv[1];
    for (int i = 2; i < argc;)
        i += read_option(argv[i], i + 1 < argc ? argv[i + 1] : NULL);
    if (host.me >= NODES)
        bad("no such node", "--me");
}
