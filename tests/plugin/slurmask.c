/* slurmask.c - what srun may ask about nodes: here slurmctld does not answer, and no
 * slurmd is there. */
#include <slurm/slurm.h>
#include <stddef.h>

int slurm_load_node_single(node_info_msg_t **resp, char *node_name, uint16_t show_flags)
{
    (void)resp;
    (void)node_name;
    (void)show_flags;
    return SLURM_ERROR;
}

void slurm_free_node_info_msg(node_info_msg_t *message)
{
    (void)message;
}

int slurm_job_step_stat(slurm_step_id_t *step_id,
                        char *node_list,
                        uint16_t use_protocol_ver,
                        job_step_stat_response_msg_t **resp)
{
    (void)step_id;
    (void)node_list;
    (void)use_protocol_ver;
    (void)resp;
    return SLURM_ERROR;
}

void slurm_job_step_stat_response_msg_free(void *object)
{
    (void)object;
}

ListIterator slurm_list_iterator_create(List list)
{
    (void)list;
    return NULL;
}

void slurm_list_iterator_destroy(ListIterator iterator)
{
    (void)iterator;
}

void *slurm_list_next(ListIterator iterator)
{
    (void)iterator;
    return NULL;
}
