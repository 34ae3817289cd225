/* stepd.c - slurmstepd of one node: all tasks are forked before any is released. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

#define ENDS 3  /* to srun: how each task ended */
#define INPUT 4 /* what the tasks get as stdin */

static pid_t pids[RANKS];

/* What srun and slurmd put there for every step. */
static void step_environment(void)
{
    char list[2048] = "", counts[512] = "";
    size_t used = 0, counted = 0;

    for (uint32_t i = 0; i < host.node_count; i++) {
        const char *comma = i ? "," : "";
        const struct node *node = &host.nodes[i];
        used += (size_t)snprintf(
            list + used, sizeof(list) - used, "%s%s", comma, node->name);
        counted += (size_t)snprintf(counts + counted,
                                    sizeof(counts) - counted,
                                    "%s%u",
                                    comma,
                                    node->rank_count);
    }
    env_number("SLURM_JOB_ID", host.job_id);
    env_number("SLURM_STEP_ID", host.step_id);
    env_set("SLURM_STEP_NODELIST", host.list ? host.list : list);
    env_number("SLURM_STEP_NUM_NODES", host.node_count);
    env_number("SLURM_STEP_NUM_TASKS", host.rank_count);
    env_set("SLURM_STEP_TASKS_PER_NODE", counts);
    env_set("SLURM_SRUN_COMM_HOST", "127.0.0.1");
}

static void fork_tasks(int releases[])
{
    const struct node *node = &host.nodes[host.me];

    for (uint32_t i = 0; i < node->rank_count; i++) {
        int ways[2];
        if (pipe2(ways, O_CLOEXEC) < 0)
            die("pipe2");
        pids[i] = fork();
        if (pids[i] == 0) {
            char byte;
            close(ways[1]);
            dup2(INPUT, STDIN_FILENO);
            if (read(ways[0], &byte, 1) != 1)
                _exit(2);
            run_task(i);
        }
        setpgid(pids[i], pids[0]);
        close(ways[0]);
        releases[i] = ways[1];
        event("task", "\"rank\": %u, \"pid\": %d", node->ranks[i], pids[i]);
    }
}

static void post_fork(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        phase.task = (int)i;
        stack_call("slurm_spank_task_post_fork");
    }
    phase.task = -1;
    /* The step that holds a job's processes has no task, and is told so. */
    if (host.step_id == SLURM_EXTERN_CONT)
        stack_call("slurm_spank_task_post_fork");
}

static void tell_srun(uint32_t rank, int status)
{
    dprintf(ENDS, "%u %d\n", rank, status);
}

static void reap(void)
{
    const struct node *node = &host.nodes[host.me];
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, 0)) > 0) {
        for (uint32_t i = 0; i < node->rank_count; i++) {
            if (pids[i] != pid)
                continue;
            phase.task = (int)i;
            phase.exited = true;
            phase.status = status;
            stack_call("slurm_spank_task_exit");
            phase.exited = false;
            event("ended", "\"rank\": %u, \"status\": %d", node->ranks[i], status);
            tell_srun(node->ranks[i], status);
        }
    }
    phase.task = -1;
}

static void run_tasks(void)
{
    uint32_t count =
        host.step_id == SLURM_EXTERN_CONT ? 0 : host.nodes[host.me].rank_count;
    int releases[RANKS];

    if (count)
        fork_tasks(releases);
    post_fork(count);
    /* Like slurmstepd, which blocks it: a task killed this early closed its end. */
    signal(SIGPIPE, SIG_IGN);
    for (uint32_t i = 0; i < count; i++) {
        if (write(releases[i], "", 1) != 1 && errno != EPIPE)
            die("release");
        close(releases[i]);
    }
    reap();
}

static void give_up(void)
{
    const struct node *node = &host.nodes[host.me];

    for (uint32_t i = 0; i < node->rank_count; i++)
        tell_srun(node->ranks[i], 0);
}

/* Without an srun these two lead nowhere, but nothing else may take their place. */
static void own_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= INPUT);
    close(fd);
    fcntl(ENDS, F_SETFD, FD_CLOEXEC);
    fcntl(INPUT, F_SETFD, FD_CLOEXEC);
}

/* @ stands for the node's name: folders that real nodes do not share. */
static void own_plugstack(void)
{
    static char bad_line[] = "colour=red", texts[ARGS][512];

    for (int i = 0; i < host.arg_count; i++) {
        char *at = strchr(host.args[i], '@');
        if (!at)
            continue;
        snprintf(texts[i],
                 sizeof(texts[i]),
                 "%.*s%s%s",
                 (int)(at - host.args[i]),
                 host.args[i],
                 host.nodes[host.me].name,
                 at + 1);
        host.args[i] = texts[i];
    }
    if (host.nodes[host.me].fate == NODE_ODD && host.arg_count < ARGS)
        host.args[host.arg_count++] = bad_line;
}

int run_stepd(void)
{
    phase.context = S_CTX_REMOTE;
    phase.job_known = true;
    prctl(PR_SET_NAME, "slurmstepd");
    own_descriptors();
    env_read(STDIN_FILENO);
    step_environment();
    stack_load();
    own_plugstack();
    phase.in_init = true;
    stack_call("slurm_spank_init");
    phase.in_init = false;
    if (host.flagged) { /* twice, as before 24.05 */
        stack_option(host.flag, true);
        stack_option(host.flag ? host.flag : "", true);
    }
    stack_call("slurm_spank_init_post_opt");
    if (host.nodes[host.me].fate == NODE_UNFORKED) {
        give_up();
    } else {
        stack_call("slurm_spank_user_init");
        run_tasks();
    }
    stack_call("slurm_spank_exit");
    for (char **one = phase.env; *one; one++)
        free(*one);
    free(phase.env);
    return 0;
}
