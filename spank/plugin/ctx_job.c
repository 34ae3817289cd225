/* ctx_job.c - the prolog's and the epilog's hooks: look at the GPUs before and after
 * the job, compare, keep the record, and bring what the steps left to the archive.
 *
 * A hook of an optional plugin cannot fail by its return code, so a node that must be
 * drained is drained by the exit code of this process, which is nothing but the hook.
 * House-keeping never does that. */
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostlist.h"
#include "jobcheck.h"
#include "plugin.h"
#include "spool.h"

#define EXIT_DRAIN 69
#define KEPT_JOBS 32 /* ended ones: the spool is memory */

static const char *node_name(void)
{
    const char *node = getenv("SLURMD_NODENAME");

    return node ? node : "node";
}

/* A sample is kept for the epilog to compare with: if the prolog lets the job begin. */
static void keep(uint32_t job_id, const struct gs_jobcheck *check, bool drain)
{
    struct gs_error error;
    char *line = gs_jobcheck_event(check), *sample = NULL;

    if (!line || gs_spool_event(gs_spec.spool, job_id, line, &error) < 0)
        slurm_error("gangstart: job %u: no record of this check: %s",
                    job_id,
                    line ? error.text : "out of memory");
    gs_text_free(line);
    if (check->stage != GS_STAGE_PROLOG || check->health->none || drain)
        return;
    sample = gs_health_record(check->health, GS_RECORD_SAMPLE);
    if (sample
        && gs_spool_keep(gs_spec.spool, job_id, GS_SAMPLE_FILE, sample, &error) < 0)
        slurm_error("gangstart: job %u: %s", job_id, error.text);
    gs_text_free(sample);
}

static void say(uint32_t job_id, const struct gs_jobcheck *check, bool drain)
{
    char *why = gs_jobcheck_sentence(check);
    const char *stage = gs_stage_name(check->stage);

    if (drain)
        slurm_error("gangstart: %s of job %u: this node is to be drained: %s",
                    stage,
                    job_id,
                    why ? why : "");
    else
        slurm_info("gangstart: %s of job %u: %s", stage, job_id, why ? why : "");
    gs_text_free(why);
}

/* Whether the node has to be drained. */
static bool check_node(spank_t sp, uint32_t job_id, enum gs_stage stage)
{
    struct gs_jobcheck check = {.stage = stage, .job_id = job_id, .node = node_name()};
    const struct gs_jobcheck_conf conf = {
        .probe = gs_spec.probe,
        .policy = gs_spec.conf,
        .policy_optional = strcmp(gs_spec.conf, GS_POLICY_FILE) == 0,
        .spool = gs_spec.spool,
        .devices = getenv("SLURM_JOB_GPUS"),
    };
    bool drain;

    spank_get_item(sp, S_JOB_UID, &check.user_id);
    if (gs_jobcheck_run(&check, &conf) < 0) {
        slurm_error("gangstart: job %u: out of memory", job_id);
        return false;
    }
    drain = gs_spec.hooks == GS_HOOKS_DRAIN && gs_jobcheck_drains(&check);
    keep(job_id, &check, drain);
    say(job_id, &check, drain);
    gs_jobcheck_clear(&check);
    return drain;
}

static bool job_of(spank_t sp, uint32_t *ret_job_id)
{
    if (gs_site_error.text[0])
        slurm_error("gangstart: %s", gs_site_error.text);
    return spank_get_item(sp, S_JOB_ID, ret_job_id) == ESPANK_SUCCESS;
}

int gs_job_prolog(spank_t sp)
{
    uint32_t job_id;

    if (gs_spec.hooks == GS_HOOKS_OFF || !job_of(sp, &job_id))
        return 0;
    if (check_node(sp, job_id, GS_STAGE_PROLOG))
        exit(EXIT_DRAIN);
    return 0;
}

int gs_job_epilog(spank_t sp)
{
    struct gs_error error;
    uint32_t job_id;
    bool drain = false, begun;
    char *sample;

    if (!job_of(sp, &job_id))
        return 0;
    /* A job that had its GPUs looked at is looked at again; others only where the site
     * wants it. */
    sample = gs_spool_sample(gs_spec.spool, job_id);
    begun = sample || !gs_spool_has_events(gs_spec.spool, job_id);
    if (gs_spec.hooks != GS_HOOKS_OFF || sample)
        drain = check_node(sp, job_id, GS_STAGE_EPILOG);
    gs_text_free(sample);
    if (gs_spool_publish(gs_spec.spool, gs_spec.archive, job_id, node_name(), &error)
        < 0)
        slurm_error("gangstart: epilog: job %u: %s", job_id, error.text);
    gs_spool_prune(gs_spec.spool, KEPT_JOBS);
    if (drain && begun) /* else the prolog has drained it, and said why */
        exit(EXIT_DRAIN);
    return 0;
}
