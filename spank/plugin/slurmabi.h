/* slurmabi.h - where Slurm keeps what the plugin reads of its structures.
 *
 * spank.h is the same from 22.05 to 26.05 as far as it is used here, and so are the
 * functions and constants of slurm.h; the structures are not. So nothing but release.c
 * includes their definitions or depends on a release: everything else goes by these
 * offsets, and one set of objects serves every release line. */
#ifndef GS_SLURMABI_H
#define GS_SLURMABI_H

#include <stdint.h>

/* name here, structure, member: an offset in bytes for each. */
#define GS_SLURM_FIELDS(F)                                                             \
    F(conf_cluster_name, slurm_conf_t, cluster_name)                                   \
    F(conf_prolog, slurm_conf_t, prolog)                                               \
    F(conf_prolog_flags, slurm_conf_t, prolog_flags)                                   \
    F(conf_ctld_port, slurm_conf_t, slurmctld_port)                                    \
    F(conf_ctld_port_count, slurm_conf_t, slurmctld_port_count)                        \
    F(conf_slurmd_port, slurm_conf_t, slurmd_port)                                     \
    F(nodes_count, node_info_msg_t, record_count)                                      \
    F(nodes_array, node_info_msg_t, node_array)                                        \
    F(node_state, node_info_t, node_state)                                             \
    F(node_reason, node_info_t, reason)                                                \
    F(node_address, node_info_t, node_addr)                                            \
    F(node_port, node_info_t, port)                                                    \
    F(stats_list, job_step_stat_response_msg_t, stats_list)                            \
    F(stat_pids, job_step_stat_t, step_pids)                                           \
    F(pids_count, job_step_pids_t, pid_cnt)                                            \
    F(layout_node_list, slurm_step_layout_t, node_list)                                \
    F(layout_node_count, slurm_step_layout_t, node_cnt)                                \
    F(layout_task_count, slurm_step_layout_t, task_cnt)                                \
    F(layout_tasks, slurm_step_layout_t, tasks)                                        \
    F(layout_tids, slurm_step_layout_t, tids)                                          \
    F(layout_protocol, slurm_step_layout_t, start_protocol_ver)                        \
    F(id_job, slurm_step_id_t, job_id)                                                 \
    F(id_step, slurm_step_id_t, step_id)                                               \
    F(id_het_component, slurm_step_id_t, step_het_comp)

#define GS_SLURM_MEMBER(name, type, member) uint16_t name;
struct gs_slurm_abi {
    GS_SLURM_FIELDS(GS_SLURM_MEMBER)
    uint16_t prolog_is_list; /* 24.05 made an array of it */
};

/* Of the release that this plugin is for (release.c). */
extern const struct gs_slurm_abi gs_slurm_abi;

/* The value of this type at an offset of something of Slurm's. */
#define GS_SLURM_AT(type, base, offset)                                                \
    (*(type const *)(const void *)((const uint8_t *)(base) + (offset)))

#endif
