/* dispatch.c - every symbol that Slurm looks for, and which context does what.
 *
 * Each hook returns 0, always: a negative return drains nodes in the batch step,
 * requeues jobs in the extern step and stops slurmd. A refused start is enforced by
 * the tasks' own exit in task_init and by srun's exit code.
 *
 * A plugstack.conf that lists the plugin twice makes Slurm run everything twice on the
 * same variables: each context guards itself. */
#include <slurm/slurm.h>
#include <unistd.h>

#include "plugin.h"

bool gs_is_normal_step(uint32_t step_id)
{
    return step_id <= SLURM_MAX_NORMAL_STEP_ID;
}

int slurm_spank_init(spank_t sp, int argc, char **argv)
{
    static pid_t done;
    spank_context_t context = spank_context();

    if (done == getpid())
        return 0;
    done = getpid();
    if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE)
        return 0;
    gs_spec_init(&gs_spec);
    gs_options_site(argc, argv);
    gs_options_register(sp);
    if (context != S_CTX_REMOTE)
        gs_options_environment(context == S_CTX_LOCAL);
    return 0;
}

int slurm_spank_init_post_opt(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    gs_options_done();
    if (spank_context() == S_CTX_LOCAL)
        return gs_srun_post_opt(sp);
    return spank_context() == S_CTX_REMOTE ? gs_stepd_post_opt(sp) : 0;
}

int slurm_spank_local_user_init(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return gs_srun_launch(sp);
}

int slurm_spank_task_post_fork(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return gs_stepd_forked(sp);
}

int slurm_spank_task_init(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return gs_task_init(sp);
}

int slurm_spank_task_exit(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return gs_stepd_task_exit(sp);
}

int slurm_spank_exit(spank_t sp, int argc, char **argv)
{
    (void)sp;
    (void)argc;
    (void)argv;
    if (spank_context() == S_CTX_LOCAL)
        return gs_srun_exit();
    return spank_context() == S_CTX_REMOTE ? gs_stepd_exit() : 0;
}

/* These run in a process of their own, without slurm_spank_init. */
int slurm_spank_job_prolog(spank_t sp, int argc, char **argv)
{
    gs_spec_init(&gs_spec);
    gs_options_site(argc, argv);
    return gs_job_prolog(sp);
}

int slurm_spank_job_epilog(spank_t sp, int argc, char **argv)
{
    gs_spec_init(&gs_spec);
    gs_options_site(argc, argv);
    return gs_job_epilog(sp);
}
