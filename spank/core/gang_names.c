/* gang_names.c - names for nodes that never said theirs; see gang.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gang.h"
#include "hostlist.h"

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void gs_gang_name_rest(struct gs_gang *gang)
{
    struct gs_names names = {0};
    char **taken = calloc(gang->node_count + 1, sizeof(*taken));
    uint32_t count = 0, next = 0;

    if (!taken || !gang->step_nodes[0]
        || gs_hostlist_expand(gang->step_nodes, &names, NULL) < 0) {
        free(taken);
        return;
    }
    for (uint32_t i = 0; i < gang->node_count; i++)
        if (gang->nodes[i].name[0])
            taken[count++] = gang->nodes[i].name;
    qsort(taken, count, sizeof(*taken), compare);
    for (uint32_t i = 0; i < names.count && next < gang->node_count; i++) {
        if (bsearch(&names.name[i], taken, count, sizeof(*taken), compare))
            continue;
        while (next < gang->node_count && gang->nodes[next].name[0])
            next++;
        if (next < gang->node_count)
            snprintf(gang->nodes[next].name,
                     sizeof(gang->nodes[next].name),
                     "%s",
                     names.name[i]);
    }
    gs_names_free(&names);
    free(taken);
}
