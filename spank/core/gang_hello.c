/* gang_hello.c - a node says who it is; see gang.h. What contradicts the step refuses
 * the start, naming the node. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error_private.h"
#include "gang_private.h"

bool gs_gang_is_ours(struct gs_gang *gang,
                     uint32_t job_id,
                     uint32_t step_id,
                     uint32_t restart_count)
{
    if (job_id == gang->job_id && step_id == gang->step_id
        && restart_count == gang->restart_count)
        return true;
    gang->stale_count++;
    return false;
}

/* The ranks a node reports against the ones the step's layout gives it. */
static bool same_ranks(const struct gs_gang *gang,
                       const struct gs_node *node,
                       const struct gs_hello *hello)
{
    uint32_t index = (uint32_t)(node - gang->nodes);

    if (node->rank_count != hello->rank_count)
        return false;
    for (uint32_t i = 0; i < hello->rank_count; i++) {
        uint32_t rank = gs_hello_rank(hello, i);
        if (rank >= gang->task_count || gang->tasks[rank].node != index)
            return false;
    }
    return true;
}

static int learn_ranks(struct gs_gang *gang, const struct gs_hello *hello)
{
    uint32_t *ranks = calloc(hello->rank_count ? hello->rank_count : 1, sizeof(*ranks));
    int rc;

    if (!ranks)
        return -ENOMEM;
    for (uint32_t i = 0; i < hello->rank_count; i++)
        ranks[i] = gs_hello_rank(hello, i);
    rc = gs_gang_expect(
        gang, hello->node_index, hello->node_name, ranks, hello->rank_count);
    free(ranks);
    return rc;
}

static int misfit(struct gs_gang *gang,
                  const struct gs_hello *hello,
                  int64_t now_us,
                  struct gs_error *error)
{
    struct gs_error text;
    int rc =
        gs_error_set(&text,
                     EINVAL,
                     "%s says it is node %u of %u with %u of %u tasks, the step has "
                     "%u nodes and %u tasks",
                     hello->node_name,
                     hello->node_index,
                     hello->node_count,
                     hello->rank_count,
                     hello->task_count,
                     gang->node_count,
                     gang->task_count);

    gs_gang_contradict(gang, hello->node_index, text.text, now_us);
    if (error)
        *error = text;
    return rc;
}

int gs_gang_hello(struct gs_gang *gang,
                  const struct gs_hello *hello,
                  int64_t now_us,
                  struct gs_error *error)
{
    struct gs_node *node;

    if (!gang->node_count
        && gs_gang_size(gang, hello->node_count, hello->task_count) == 0) {
        gang->job_id = hello->job_id;
        memcpy(gang->step_nodes, hello->step_nodes, sizeof(gang->step_nodes));
    }
    if (!gs_gang_is_ours(gang, hello->job_id, hello->step_id, hello->restart_count))
        return -ESTALE;
    if (hello->node_index >= gang->node_count || hello->node_count != gang->node_count
        || hello->task_count != gang->task_count)
        return misfit(gang, hello, now_us, error);
    node = &gang->nodes[hello->node_index];
    if (node->hello_us >= 0)
        return -EALREADY;
    if (node->rank_count ? !same_ranks(gang, node, hello) : learn_ranks(gang, hello))
        return misfit(gang, hello, now_us, error);
    node->hello_us = now_us;
    gang->connected_count++;
    if (gang->first_us < 0) {
        gang->first_us = now_us;
        gang->deadline_us = now_us + gang->timeout_us;
    }
    return 0;
}
