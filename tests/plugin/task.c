/* task.c - a task: what happens to it before the barrier, the barrier, the program.
 *
 * It comes to task_init with the leftovers that some releases of Slurm leave: handlers
 * that swallow signals, and a signal mask. All of that must be back when it runs. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "host.h"

#define SIGNALS 64

struct state {
    char comm[16];
    struct sigaction actions[SIGNALS + 1];
    sigset_t mask;
};

static void swallow(int signal)
{
    (void)signal;
}

static void leave_signals(void)
{
    static const int swallowed[] = {SIGHUP, SIGINT, SIGUSR1, SIGTERM};
    struct sigaction action = {.sa_handler = swallow, .sa_flags = SA_RESTART};
    sigset_t mask;

    sigaddset(&action.sa_mask, SIGALRM);
    for (size_t i = 0; i < sizeof(swallowed) / sizeof(*swallowed); i++)
        sigaction(swallowed[i], &action, NULL);
    signal(SIGUSR2, SIG_IGN);
    sigemptyset(&mask);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGWINCH);
    sigprocmask(SIG_SETMASK, &mask, NULL);
}

static void look(struct state *state)
{
    memset(state, 0, sizeof(*state)); /* of two signals libc tells nothing */
    prctl(PR_GET_NAME, state->comm);
    for (int i = 1; i <= SIGNALS; i++)
        sigaction(i, NULL, &state->actions[i]);
    sigprocmask(SIG_SETMASK, NULL, &state->mask);
}

/* What differs, in words; "" = nothing. */
static void compare(const struct state *before, const struct state *after, char *text)
{
    *text = '\0';
    if (strcmp(before->comm, after->comm) != 0)
        text += sprintf(text, "comm %s;", after->comm);
    for (int i = 1; i <= SIGNALS; i++) {
        const struct sigaction *a = &before->actions[i], *b = &after->actions[i];
        bool masks = false;
        for (int j = 1; j <= SIGNALS; j++)
            masks = masks || sigismember(&a->sa_mask, j) != sigismember(&b->sa_mask, j);
        if (a->sa_handler != b->sa_handler || a->sa_flags != b->sa_flags || masks)
            text += sprintf(text, "action of %d;", i);
        if (sigismember(&before->mask, i) != sigismember(&after->mask, i))
            text += sprintf(text, "mask of %d;", i);
    }
}

static void task_environment(uint32_t local)
{
    const struct node *node = &host.nodes[host.me];
    char ranks[RANKS * 4] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < node->rank_count; i++)
        used += (size_t)snprintf(
            ranks + used, sizeof(ranks) - used, "%s%u", i ? "," : "", node->ranks[i]);
    env_number("SLURM_PROCID", node->ranks[local]);
    env_number("SLURM_LOCALID", local);
    env_number("SLURM_NODEID", host.me);
    env_set("SLURM_GTIDS", ranks);
    env_set("SLURMD_NODENAME", node->name);
    env_set("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1");
}

static void meet_fate(uint32_t number, const struct rank *rank)
{
    switch (rank->fate) {
    case RANK_EXIT:
        _exit(rank->number);
    case RANK_KILL:
        raise(rank->number);
        break;
    case RANK_NEVER:
        for (;;)
            pause();
    case RANK_SCRIBBLE:
        scribble(number, rank->number);
        break;
    default:
        break;
    }
}

void run_task(uint32_t local)
{
    uint32_t rank = host.nodes[host.me].ranks[local];
    struct state before, after;
    char changed[4096], number[16], path[1024], fate[16];
    char *argv[] = {
        (char[]){"host"}, (char[]){"report"}, path, changed, fate, number, NULL};

    phase.task = (int)local;
    task_environment(local);
    meet_fate(rank, &host.ranks[rank]);
    leave_signals();
    look(&before);
    stack_call("slurm_spank_task_init");
    look(&after);
    compare(&before, &after, changed);
    snprintf(path, sizeof(path), "%s/task.%u.json", host.out ? host.out : "/tmp", rank);
    snprintf(fate, sizeof(fate), "%d", (int)host.ranks[rank].fate);
    snprintf(number, sizeof(number), "%d", host.ranks[rank].number);
    if (!host.out)
        path[0] = '\0';
    execve(host.self, argv, phase.env);
    die("exec");
}
