/* ctx_job.c - the epilog's hook: what the job's steps left goes to the archive.
 *
 * House-keeping never fails an epilog: a non-zero return would drain the node. */
#include <slurm/spank.h>
#include <stdlib.h>

#include "plugin.h"
#include "spool.h"

int gs_job_epilog(spank_t sp)
{
    const char *node = getenv("SLURMD_NODENAME");
    struct gs_error error;
    uint32_t job_id;

    if (spank_get_item(sp, S_JOB_ID, &job_id) != ESPANK_SUCCESS)
        return 0;
    if (gs_spool_publish(
            gs_spec.spool, gs_spec.archive, job_id, node ? node : "node", &error)
        < 0)
        slurm_error("gangstart: epilog: job %u: %s", job_id, error.text);
    return 0;
}
