/* taskmap.c - Slurm's run-length task counts; see taskmap.h.
 *
 * Two passes over the text: the first validates and adds up, the second fills. What is
 * not understood is an error, never a shorter list.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "error_private.h"
#include "hostlist.h"
#include "number_private.h"
#include "taskmap.h"

#define QUOTED 160

struct run {
    uint32_t tasks, nodes;
};

/* Reads one "N" or "N(xM)" at *text and moves *text behind it. */
static bool run_read(const char **text, struct run *ret_run)
{
    const char *c = *text;
    size_t len = gs_digits_count(c, strlen(c));
    uint64_t tasks, nodes = 1;

    if (!gs_number_read(c, len, GS_TASKS_PER_NODE_MAX, &tasks))
        return false;
    c += len;
    if (strncmp(c, "(x", 2) == 0) {
        c += 2;
        len = gs_digits_count(c, strlen(c));
        if (!gs_number_read(c, len, GS_HOSTS_MAX, &nodes) || c[len] != ')')
            return false;
        c += len + 1;
    }
    if (tasks == 0 || nodes == 0)
        return false;
    *ret_run = (struct run){(uint32_t)tasks, (uint32_t)nodes};
    *text = c;
    return true;
}

/* Nodes named by the whole text, 0 if it is malformed or names too many. */
static uint32_t nodes_count(const char *text)
{
    uint32_t nodes = 0;
    struct run run;

    while (run_read(&text, &run)) {
        if (run.nodes > GS_HOSTS_MAX - nodes)
            return 0;
        nodes += run.nodes;
        if (*text == '\0')
            return nodes;
        if (*text++ != ',')
            return 0;
    }
    return 0;
}

int gs_taskmap_counts(const char *text,
                      uint32_t **ret_counts,
                      uint32_t *ret_nodes,
                      struct gs_error *error)
{
    const char *given = text ? text : "";
    uint32_t nodes = nodes_count(given);
    uint32_t *counts;
    struct run run;

    if (nodes == 0)
        return gs_error_set(error,
                            EINVAL,
                            "task counts '%.*s%s' are not understood; the form is "
                            "2(x3),1: 1 to 65535 tasks on each of up to 131072 nodes",
                            QUOTED,
                            given,
                            strlen(given) > QUOTED ? "..." : "");
    counts = malloc(nodes * sizeof(*counts));
    if (!counts)
        return gs_error_set(error, ENOMEM, "out of memory while reading task counts");
    for (uint32_t filled = 0; filled < nodes && run_read(&given, &run); given++)
        for (uint32_t i = 0; i < run.nodes; i++)
            counts[filled++] = run.tasks;
    *ret_counts = counts;
    *ret_nodes = nodes;
    return 0;
}

void gs_counts_free(uint32_t *counts)
{
    free(counts);
}
