/* slurmread.c - see slurmread.h. Slurm's structures are only ever seen as bytes at the
 * offsets of slurmabi.h: the headers that this was compiled with may be of another
 * release. Functions and constants are the same in all. */
#include <slurm/slurm.h>
#include <stdio.h>
#include <string.h>

#include "slurmabi.h"
#include "slurmread.h"

static void copy_text(const void *from, uint16_t offset, char *out, size_t size)
{
    const char *text = GS_SLURM_AT(const char *, from, offset);

    snprintf(out, size, "%s", text ? text : "");
}

bool gs_slurm_node(const char *name, struct gs_slurm_node *ret_node)
{
    node_info_msg_t *nodes = NULL;
    char copy[256];
    bool found;

    snprintf(copy, sizeof(copy), "%s", name);
    if (slurm_load_node_single(&nodes, copy, SHOW_ALL) != SLURM_SUCCESS || !nodes)
        return false;
    found = GS_SLURM_AT(uint32_t, nodes, gs_slurm_abi.nodes_count) == 1;
    if (found) {
        const void *node = GS_SLURM_AT(const void *, nodes, gs_slurm_abi.nodes_array);
        ret_node->state = GS_SLURM_AT(uint32_t, node, gs_slurm_abi.node_state);
        ret_node->port = GS_SLURM_AT(uint16_t, node, gs_slurm_abi.node_port);
        copy_text(
            node, gs_slurm_abi.node_reason, ret_node->reason, sizeof(ret_node->reason));
        copy_text(node,
                  gs_slurm_abi.node_address,
                  ret_node->address,
                  sizeof(ret_node->address));
    }
    slurm_free_node_info_msg(nodes);
    return found;
}

/* A slurm_step_id_t of whatever size and order; 26.05 has one of 24 bytes. */
union step_id {
    slurm_step_id_t id;
    uint8_t bytes[128];
};

static void set_id(union step_id *step, uint16_t offset, uint32_t value)
{
    memcpy(step->bytes + offset, &value, sizeof(value));
}

static void make_id(union step_id *step, uint32_t job_id, uint32_t step_id)
{
    memset(step, 0, sizeof(*step));
    set_id(step, gs_slurm_abi.id_job, job_id);
    set_id(step, gs_slurm_abi.id_step, step_id);
    set_id(step, gs_slurm_abi.id_het_component, NO_VAL);
}

/* slurm_job_step_get_pids() would do, but prints an error when the step is not there,
 * and that it is not there is what is asked. */
uint32_t gs_slurm_processes(const char *node,
                            uint32_t job_id,
                            uint32_t step_id,
                            uint16_t protocol)
{
    job_step_stat_response_msg_t *found = NULL;
    union step_id step;
    char name[256];
    void *list, *all;
    const void *one;
    uint32_t count = 0;

    make_id(&step, job_id, step_id);
    snprintf(name, sizeof(name), "%s", node);
    if (slurm_job_step_stat(&step.id, name, protocol, &found) == SLURM_SUCCESS && found
        && (list = GS_SLURM_AT(void *, found, gs_slurm_abi.stats_list))) {
        all = slurm_list_iterator_create(list);
        while ((one = slurm_list_next(all))) {
            const void *pids = GS_SLURM_AT(const void *, one, gs_slurm_abi.stat_pids);
            if (pids)
                count += GS_SLURM_AT(uint32_t, pids, gs_slurm_abi.pids_count);
        }
        slurm_list_iterator_destroy(all);
    }
    if (found)
        slurm_job_step_stat_response_msg_free(found);
    return count;
}

bool gs_slurm_layout_get(uint32_t job_id,
                         uint32_t step_id,
                         struct gs_slurm_layout *ret_layout)
{
    union step_id step;
    void *layout;

    make_id(&step, job_id, step_id);
    layout = slurm_job_step_layout_get(&step.id);
    if (!layout)
        return false;
    *ret_layout = (struct gs_slurm_layout){
        .node_count = GS_SLURM_AT(uint32_t, layout, gs_slurm_abi.layout_node_count),
        .task_count = GS_SLURM_AT(uint32_t, layout, gs_slurm_abi.layout_task_count),
        .protocol = GS_SLURM_AT(uint16_t, layout, gs_slurm_abi.layout_protocol),
        .node_list = GS_SLURM_AT(const char *, layout, gs_slurm_abi.layout_node_list),
        .tasks = GS_SLURM_AT(const uint16_t *, layout, gs_slurm_abi.layout_tasks),
        .ranks = GS_SLURM_AT(const uint32_t *const *, layout, gs_slurm_abi.layout_tids),
        .owned = layout,
    };
    return true;
}

void gs_slurm_layout_free(struct gs_slurm_layout *layout)
{
    if (layout->owned)
        slurm_job_step_layout_free(layout->owned);
    *layout = (struct gs_slurm_layout){0};
}
