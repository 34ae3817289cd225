/* once.c - the contexts that are one process: sbatch, salloc, slurmd, epilog. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

static void at_exit(void)
{
    stack_call("slurm_spank_exit");
}

static void run_allocator(void)
{
    phase.context = S_CTX_ALLOCATOR;
    phase.in_init = true;
    stack_call("slurm_spank_init");
    phase.in_init = false;
    atexit(at_exit);
    stack_option_env();
    if (host.flagged)
        stack_option(host.flag, false);
    stack_call("slurm_spank_init_post_opt");
}

static void run_slurmd(void)
{
    phase.context = S_CTX_SLURMD;
    phase.in_init = true;
    stack_call("slurm_spank_init");
    phase.in_init = false;
    stack_call("slurm_spank_slurmd_exit");
}

/* Neither init nor exit: only the one hook, in a process of its own. */
static void run_epilog(void)
{
    phase.context = S_CTX_JOB_SCRIPT;
    phase.job_known = true;
    stack_call("slurm_spank_job_epilog");
}

int run_once(void)
{
    stack_load();
    if (strcmp(host.mode, "sbatch") == 0 || strcmp(host.mode, "salloc") == 0)
        run_allocator();
    else if (strcmp(host.mode, "slurmd") == 0)
        run_slurmd();
    else if (strcmp(host.mode, "epilog") == 0)
        run_epilog();
    else {
        fprintf(stderr, "host: no such mode: %s\n", host.mode);
        return 2;
    }
    return 0;
}
