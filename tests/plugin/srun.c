/* srun.c - a whole step: options, launch, the tasks' ends, the exit code.
 *
 * Its code is the highest of its tasks (128 + signal for a killed one); a node that
 * could not be launched counts as 0, as in Slurm before 23.11. A silent node keeps srun
 * inside its launch for ever: only the plugin gets it out of there. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static void at_exit(void)
{
    stack_call("slurm_spank_exit");
}

/* The environment that the nodes get, as a file to be read from its start. */
static int pack_environment(void)
{
    int fd = memfd_create("environment", MFD_CLOEXEC);

    for (char **one = environ; *one; one++)
        if (write(fd, *one, strlen(*one) + 1) < 0)
            die("environment");
    lseek(fd, 0, SEEK_SET);
    return fd;
}

/* slurmstepd is a process of its own with an environment of its own. */
static void start_stepd(uint32_t index, int ends)
{
    char me[16], *env[8] = {NULL}, *argv[128];
    static const char *const keep[] = {"ASAN_OPTIONS", "UBSAN_OPTIONS"};
    int count = 0, given = 0, input = pack_environment();
    pid_t pid = fork();

    if (pid) {
        close(input);
        event(
            "stepd", "\"node\": %s, \"pid\": %d", quoted(host.nodes[index].name), pid);
        return;
    }
    for (size_t i = 0; i < sizeof(keep) / sizeof(*keep); i++)
        if (getenv(keep[i])
            && asprintf(&env[count], "%s=%s", keep[i], getenv(keep[i])) > 0)
            count++;
    for (; host.argv[given] && given < 120; given++)
        argv[given] = host.argv[given];
    snprintf(me, sizeof(me), "%u", index);
    argv[1] = (char[]){"stepd"};
    argv[given++] = (char[]){"--me"};
    argv[given++] = me;
    argv[given] = NULL;
    /* Above 4 first: dup2() must not overwrite what is still needed. */
    ends = fcntl(ends, F_DUPFD, 10);
    input = fcntl(input, F_DUPFD, 10);
    dup2(STDIN_FILENO, 4);
    dup2(ends, 3);
    dup2(input, STDIN_FILENO);
    close(ends);
    close(input);
    execve(host.self, argv, env);
    die("stepd");
}

static int code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Until every task has ended, or nobody is left to tell. */
static int wait_for_ends(FILE *ends, uint32_t expected)
{
    char line[64];
    int highest = 0, status;
    unsigned rank;

    while (expected && fgets(line, sizeof(line), ends)) {
        if (sscanf(line, "%u %d", &rank, &status) != 2)
            continue;
        expected--;
        if (code_of(status) > highest)
            highest = code_of(status);
    }
    return highest;
}

static int launch(void)
{
    uint32_t expected = 0;
    bool silent = false;
    FILE *ends;
    int ways[2], code;

    if (pipe2(ways, O_CLOEXEC) < 0)
        die("pipe2");
    for (uint32_t i = 0; i < host.node_count; i++) {
        silent = silent || host.nodes[i].fate == NODE_SILENT;
        if (host.nodes[i].fate == NODE_SILENT || host.nodes[i].fate == NODE_FAILED)
            continue;
        expected += host.nodes[i].rank_count;
        start_stepd(i, ways[1]);
    }
    close(ways[1]);
    ends = fdopen(ways[0], "r");
    code = wait_for_ends(ends, expected);
    fclose(ends);
    while (silent)
        pause();
    return code;
}

int run_srun(void)
{
    int code;

    phase.context = S_CTX_LOCAL;
    stack_load();
    phase.in_init = true;
    stack_call("slurm_spank_init");
    phase.in_init = false;
    atexit(at_exit);
    stack_option_env();
    if (host.flagged)
        stack_option(host.flag, false);
    stack_call("slurm_spank_init_post_opt");
    phase.job_known = true;
    stack_call("slurm_spank_local_user_init");
    if (getenv("SLURM_GANG_RDZV")) /* the test may know: it looks where else it is */
        event("rdzv", "\"text\": %s", quoted(getenv("SLURM_GANG_RDZV")));
    if (host.rdzv)
        setenv("SLURM_GANG_RDZV", host.rdzv, 1);
    code = launch();
    event("srun", "\"code\": %d", code);
    exit(code);
}
