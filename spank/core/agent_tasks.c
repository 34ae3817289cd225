/* agent_tasks.c - what the node's own tasks do: arrivals and deaths, told once each. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_private.h"
#include "clock_private.h"
#include "procfs.h"

#define ARRIVALS 512
#define SLICE_MS 100

int gs_agent_send_fail(struct gs_agent *agent, const struct gs_fail *fail)
{
    struct gs_buffer body = {0};
    int rc;

    gs_fail_encode(&body, fail);
    rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_FAIL, &body);
    gs_wire_free(&body);
    return rc;
}

static struct gs_arrival describe_arrival(const struct gs_agent *agent,
                                          uint32_t local,
                                          int64_t now_us)
{
    const struct gs_slot *slot = &agent->conf.page->shared->slots[local];
    int64_t arrived_us = atomic_load(&slot->arrived_us);
    int64_t age = arrived_us < 0 || arrived_us > now_us ? 0 : now_us - arrived_us;

    return (struct gs_arrival){
        .rank = agent->ranks[local],
        .age_us = age > UINT32_MAX ? UINT32_MAX : (uint32_t)age,
        .visible = atomic_load(&slot->visible),
        .claim = atomic_load(&slot->claim),
        .program = atomic_load(&slot->program),
        .apart = atomic_load(&slot->apart) != 0,
    };
}

/* One frame per ARRIVALS tasks, so that it always fits. */
static int send_arrivals(struct gs_agent *agent, int64_t now_us)
{
    struct gs_arrival arrivals[ARRIVALS];
    uint32_t count = 0, slots = agent->conf.page->slot_count;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i <= slots; i++) {
        struct gs_buffer body = {0};
        if (i < slots && !agent->arrival_sent[i]
            && atomic_load(&agent->conf.page->shared->slots[i].state)
                   == GS_SLOT_ARRIVED) {
            arrivals[count++] = describe_arrival(agent, i, now_us);
            agent->arrival_sent[i] = true;
        }
        if (count < (i < slots ? ARRIVALS : 1))
            continue;
        gs_arrivals_encode(&body, agent->conf.hello.node_index, arrivals, count);
        rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_ARRIVED, &body);
        gs_wire_free(&body);
        count = 0;
    }
    return rc;
}

void gs_copy_clean(char *to, const volatile char *from, size_t size)
{
    size_t i;

    for (i = 0; i + 1 < size; i++) {
        char c = from[i];
        if (!c)
            break;
        to[i] = (unsigned char)c < 0x20 || c == 0x7f ? '?' : c;
    }
    to[i] = '\0';
}

int64_t gs_agent_oom_kills(void)
{
    char text[4096];
    FILE *file = fopen("/proc/self/cgroup", "re");
    size_t got = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    if (file)
        fclose(file);
    text[got] = '\0';
    return gs_proc_oom_kills(text, "/sys/fs/cgroup");
}

static struct gs_fail describe_exit(struct gs_agent *agent, uint32_t local, int status)
{
    struct gs_slot *slot = &agent->conf.page->shared->slots[local];
    uint32_t state = atomic_load(&slot->state);
    struct gs_fail fail = {
        .node_index = agent->conf.hello.node_index,
        .rank = agent->ranks[local],
        .kind = GS_FAIL_EXIT,
    };

    if (WIFSIGNALED(status)) {
        fail.kind = GS_FAIL_SIGNAL;
        fail.status = (uint32_t)WTERMSIG(status);
        if (fail.status == SIGKILL && gs_agent_oom_kills() > agent->oom_kills)
            snprintf(fail.text,
                     sizeof(fail.text),
                     "out of memory (the kernel killed it at the limit of its cgroup)");
        return fail;
    }
    fail.status = (uint32_t)WEXITSTATUS(status);
    if (state == GS_SLOT_ASKED && fail.status > 128) {
        fail.kind = GS_FAIL_ASKED;
        fail.status -= 128;
    } else if (state == GS_SLOT_CONFIG) {
        fail.kind = GS_FAIL_CONFIG;
        fail.rank = GS_NO_RANK;
        gs_copy_clean(fail.text, slot->text, sizeof(fail.text));
    }
    return fail;
}

/* Whether a task still lives: not exited, no zombie that is about to be reaped. */
static bool is_alive(struct gs_agent *agent, uint32_t local)
{
    int32_t pid = atomic_load(&agent->pids[local]);
    struct gs_proc proc;

    if (atomic_load(&agent->exit_status[local]) >= 0)
        return false;
    if (pid <= 0)
        return true;
    return gs_proc_read(pid, &proc) && proc.letter != 'Z' && proc.letter != 'X'
           && !gs_proc_is_doomed(pid);
}

/* Tasks that live on and were not asked to end either: the death was a lone one. */
static uint32_t count_siblings(struct gs_agent *agent)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < agent->conf.page->slot_count; i++)
        count += atomic_load(&agent->conf.page->shared->slots[i].state) != GS_SLOT_ASKED
                 && is_alive(agent, i);
    return count;
}

/* A death by signal is told only after its siblings had time to die of the same. */
static bool is_due(struct gs_agent *agent,
                   uint32_t local,
                   bool signalled,
                   int64_t now_us)
{
    if (!agent->exit_seen_us[local])
        agent->exit_seen_us[local] = now_us;
    if (!signalled || now_us >= agent->exit_seen_us[local] + GS_AGENT_KIN_US)
        return true;
    agent->kin_pending = true;
    return false;
}

static int send_exits(struct gs_agent *agent, int64_t now_us)
{
    bool waiting = atomic_load(&agent->conf.page->decided) == GS_PAGE_WAIT;

    agent->kin_pending = false;
    for (uint32_t i = 0; i < agent->conf.page->slot_count; i++) {
        int32_t status = atomic_load(&agent->exit_status[i]);
        struct gs_fail fail;
        bool signalled;
        int rc;
        if (status < 0 || agent->exit_sent[i])
            continue;
        fail = describe_exit(agent, i, status);
        signalled = fail.kind == GS_FAIL_SIGNAL || fail.kind == GS_FAIL_ASKED;
        if (waiting && !is_due(agent, i, signalled, now_us))
            continue;
        agent->exit_sent[i] = true;
        agent->exits++;
        if (!waiting)
            continue;
        fail.siblings = signalled ? count_siblings(agent) : 0;
        rc = gs_agent_send_fail(agent, &fail);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int send_launch_failed(struct gs_agent *agent)
{
    struct gs_fail fail = {
        .node_index = agent->conf.hello.node_index,
        .rank = GS_NO_RANK,
        .kind = GS_FAIL_LAUNCH,
        .text = "slurmstepd ended before it released its tasks",
    };

    if (!atomic_exchange(&agent->launch_failed, false))
        return 0;
    agent->launch_told = true;
    return gs_agent_send_fail(agent, &fail);
}

static int send_state(struct gs_agent *agent, uint32_t local)
{
    struct gs_state state = {
        .node_index = agent->conf.hello.node_index,
        .rank = agent->ranks[local],
        .pid = (uint32_t)atomic_load(&agent->pids[local]),
    };
    struct gs_buffer body = {0};
    struct gs_proc proc;
    int rc;

    if (!state.pid || !gs_proc_read((int)state.pid, &proc))
        return 0;
    state.letter = (uint8_t)proc.letter;
    memcpy(state.wchan, proc.wchan, sizeof(state.wchan));
    memcpy(state.command, proc.command, sizeof(state.command));
    memcpy(state.ahead, agent->conf.ahead, sizeof(state.ahead));
    gs_proc_child((int)state.pid, state.child);
    if (memcmp(&state, &agent->told[local], sizeof(state)) == 0)
        return 0;
    agent->told[local] = state;
    gs_state_encode(&body, &state);
    rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_STATE, &body);
    gs_wire_free(&body);
    return rc;
}

/* Once in a while: what the tasks that are late are doing, as far as it changed. */
int gs_agent_report_states(struct gs_agent *agent, int64_t now_us)
{
    int rc = 0;

    if (!agent->state_us)
        agent->state_us = now_us;
    if (now_us < agent->state_us + GS_AGENT_STATE_US)
        return 0;
    agent->state_us = now_us;
    for (uint32_t i = 0; rc == 0 && i < agent->conf.page->slot_count; i++)
        if (atomic_load(&agent->conf.page->shared->slots[i].state) == GS_SLOT_EMPTY
            && atomic_load(&agent->exit_status[i]) < 0)
            rc = send_state(agent, i);
    return rc;
}

/* Nobody will start any more, and tasks at the barrier know it. One that hangs before
 * it (in another plugin's hook) does not, and would keep the step for as long as it
 * hangs: srun that cannot be reached, or that waits for this very task, does not end
 * it. */
void gs_agent_end_tasks(struct gs_agent *agent)
{
    for (uint32_t i = 0; i < agent->conf.page->slot_count; i++) {
        int32_t pid = atomic_load(&agent->pids[i]);
        struct gs_proc proc;
        if (pid > 0 && is_alive(agent, i) && gs_proc_read(pid, &proc)
            && proc.parent == agent->conf.stepd_pid)
            kill(pid, SIGKILL);
    }
}

int gs_agent_report_tasks(struct gs_agent *agent, int64_t now_us)
{
    int rc = send_launch_failed(agent);

    if (rc == 0)
        rc = send_arrivals(agent, now_us);
    if (rc == 0)
        rc = send_exits(agent, now_us);
    return rc;
}

static bool has_tasks(const struct gs_agent *agent)
{
    for (uint32_t i = 0; i < agent->conf.page->slot_count; i++)
        if (atomic_load(&agent->exit_status[i]) < 0)
            return true;
    return false;
}

/* The start is refused, or nobody is left who could decide. */
void gs_agent_see_off(struct gs_agent *agent)
{
    struct pollfd ready = {.fd = agent->conf.wake_fd, .events = POLLIN};
    int64_t since_us = agent->decided_us ? agent->decided_us : gs_clock_now_us();
    uint64_t drained;

    if (atomic_load(&agent->conf.page->decided) != GS_PAGE_ABORT)
        return;
    while (has_tasks(agent) && !atomic_load(&agent->stop)
           && gs_clock_now_us() < since_us + GS_AGENT_STUCK_US)
        if (poll(&ready, 1, SLICE_MS) > 0)
            while (read(agent->conf.wake_fd, &drained, sizeof(drained)) > 0)
                ;
    if (!atomic_load(&agent->stop))
        gs_agent_end_tasks(agent);
}
