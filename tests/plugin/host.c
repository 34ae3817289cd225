/* host.c - the entry of the fake Slurm processes: host MODE [OPTION...].
 *
 *   srun      a whole step: itself, a slurmstepd for each --node, their tasks
 *   stepd     one slurmstepd alone (--me INDEX), the job's environment on stdin
 *   sbatch, salloc, slurmd, epilog   that context alone
 *   report    what a task runs: writes down what it finds
 *
 * Exit code: what the process would end with; 2 for a mistake in the test itself. */
#include <stdio.h>
#include <string.h>

#include "host.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "report") == 0)
        return run_report(argc, argv);
    host_read(argc, argv);
    if (strcmp(host.mode, "srun") == 0)
        return run_srun();
    if (strcmp(host.mode, "stepd") == 0)
        return run_stepd();
    return run_once();
}
