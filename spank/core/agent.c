/* agent.c - the thread of agent_private.h: connection, frames, decision.
 *
 * Nothing here blocks but one poll() of at most GS_AGENT_SLICE_MS. Every failure of
 * the connection before the decision ends the wait of the local tasks at once, with
 * the exit code of a refused start: without the one who decides nobody may start. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent_private.h"
#include "clock_private.h"
#include "error_private.h"
#include "net_private.h"
#include "wire_private.h"

#define GS_AGENT_SLICE_MS 100
#define POLL_MAX (9 + GS_PROOF_PEERS)

struct gs_agent *gs_agent_create(const struct gs_agentconf *conf)
{
    struct gs_agent *agent = calloc(1, sizeof(*agent));
    uint32_t slots = conf->page->slot_count;

    if (!agent)
        return NULL;
    agent->conf = *conf;
    agent->conn.fd = agent->prober.fd = -1;
    gs_hold_init(&agent->hold);
    gs_relay_init(&agent->relay);
    gs_mac_init(&agent->mac, conf->key);
    agent->ranks = calloc(slots, sizeof(*agent->ranks));
    agent->arrival_sent = calloc(slots, sizeof(*agent->arrival_sent));
    agent->exit_sent = calloc(slots, sizeof(*agent->exit_sent));
    agent->exit_seen_us = calloc(slots, sizeof(*agent->exit_seen_us));
    agent->exit_status = calloc(slots, sizeof(*agent->exit_status));
    agent->pids = calloc(slots, sizeof(*agent->pids));
    agent->told = calloc(slots, sizeof(*agent->told));
    agent->oom_kills = gs_agent_oom_kills();
    if (!agent->ranks || !agent->arrival_sent || !agent->exit_sent
        || !agent->exit_seen_us || !agent->exit_status || !agent->pids
        || !agent->told) {
        gs_agent_destroy(agent);
        return NULL;
    }
    memcpy(agent->ranks, conf->ranks, slots * sizeof(*agent->ranks));
    for (uint32_t i = 0; i < slots; i++)
        atomic_store(&agent->exit_status[i], -1);
    return agent;
}

void gs_agent_destroy(struct gs_agent *agent)
{
    if (!agent)
        return;
    gs_prober_stop(&agent->prober);
    gs_resolver_stop(&agent->master_resolver);
    gs_resolver_stop(&agent->probe_resolver);
    gs_hold_close(&agent->hold);
    gs_conn_close(&agent->conn);
    if (agent->report_open)
        gs_spoolfile_cancel(&agent->report);
    gs_resolver_stop(&agent->first_resolver);
    gs_agent_health_end(agent);
    free(agent->health.policy);
    gs_mac_wipe(&agent->mac);
    explicit_bzero(agent->conf.key, sizeof(agent->conf.key));
    free(agent->ranks);
    free(agent->arrival_sent);
    free(agent->exit_sent);
    free(agent->exit_seen_us);
    free(agent->exit_status);
    free(agent->pids);
    free(agent->told);
    free(agent);
}

static void wake(struct gs_agent *agent)
{
    eventfd_write(agent->conf.wake_fd, 1); /* a full one wakes just as well */
}

void gs_agent_task_forked(struct gs_agent *agent, uint32_t local, int pid)
{
    if (local < agent->conf.page->slot_count)
        atomic_store(&agent->pids[local], pid);
}

void gs_agent_task_exit(struct gs_agent *agent, uint32_t local, int status)
{
    if (local < agent->conf.page->slot_count)
        atomic_store(&agent->exit_status[local], status & 0xffff);
    wake(agent);
}

void gs_agent_launch_failed(struct gs_agent *agent)
{
    atomic_store(&agent->launch_failed, true);
    wake(agent);
}

unsigned gs_agent_stop(struct gs_agent *agent)
{
    unsigned late_ms = atomic_load(&agent->decides) ? GS_DECIDER_LATE_MS : 0;

    atomic_store(&agent->stop, true);
    wake(agent);
    return 2 * GS_AGENT_STOP_US / 1000 + late_ms;
}

static int on_go(struct gs_agent *agent, const struct gs_frame *frame, int64_t now_us)
{
    struct gs_go go;
    int rc = gs_go_decode(frame->body, frame->size, &go, NULL);

    if (rc < 0)
        return rc;
    /* The port first: the program may bind it as soon as it is released. */
    gs_hold_release(&agent->hold);
    gs_page_release(agent->conf.page, &go);
    agent->decided_us = now_us;
    gs_error_set(&agent->end, 0, "start released");
    return 0;
}

static int on_abort(struct gs_agent *agent,
                    const struct gs_frame *frame,
                    int64_t now_us)
{
    struct gs_abort abort;
    int rc = gs_abort_decode(frame->body, frame->size, &abort, NULL);

    if (rc < 0)
        return rc;
    gs_page_abort(agent->conf.page, abort.code);
    gs_hold_release(&agent->hold);
    agent->decided_us = now_us;
    gs_error_set(&agent->end, 0, "start refused: %s", abort.text);
    return 0;
}

static int on_ping(struct gs_agent *agent, const struct gs_frame *frame, int64_t now_us)
{
    struct gs_buffer echo = {0};
    int rc;

    atomic_store(&agent->conf.page->shared->guard_us,
                 now_us + (int64_t)agent->conf.spec.timeout_s * 1000000
                     + GS_AGENT_GRACE_US);
    gs_put_bytes(&echo, frame->body, frame->size);
    rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_PING, &echo);
    gs_wire_free(&echo);
    return rc;
}

static int on_frame(struct gs_agent *agent,
                    const struct gs_frame *frame,
                    int64_t now_us)
{
    struct gs_probe probe;

    if (!agent->joined) {
        if (frame->type != GS_FRAME_CHALLENGE || agent->challenged)
            return -EBADMSG;
        agent->challenged = true;
        return gs_agent_hello(agent, now_us);
    }
    switch (frame->type) {
    case GS_FRAME_PING:
        gs_relay_all(&agent->relay, &agent->mac, frame);
        return on_ping(agent, frame, now_us);
    case GS_FRAME_PROBE:
        gs_relay_all(&agent->relay, &agent->mac, frame);
        if (gs_probe_decode(frame->body, frame->size, &probe, NULL) < 0)
            return -EBADMSG;
        return gs_agent_probe(agent, &probe, now_us);
    case GS_FRAME_GO:
        gs_relay_all(&agent->relay, &agent->mac, frame);
        return on_go(agent, frame, now_us);
    case GS_FRAME_ABORT:
        gs_relay_all(&agent->relay, &agent->mac, frame);
        return on_abort(agent, frame, now_us);
    case GS_FRAME_REPORT:
        return gs_agent_on_report(agent, frame);
    default:
        return -EBADMSG;
    }
}

static int receive(struct gs_agent *agent, int64_t now_us)
{
    struct gs_frame frame;
    int end = gs_conn_fill(&agent->conn, now_us), rc;

    /* What came before the end of the stream still counts. */
    while ((rc = gs_conn_next(&agent->conn, &agent->mac, &frame)) > 0) {
        rc = on_frame(agent, &frame, now_us);
        if (rc < 0)
            return rc;
    }
    return rc < 0 ? rc : end;
}

static int talk(struct gs_agent *agent, int64_t now_us)
{
    int rc = receive(agent, now_us);

    if (rc == 0 && agent->challenged && !agent->joined)
        rc = gs_agent_hello(agent, now_us);
    if (rc == 0 && agent->joined)
        rc = gs_relay_serve(&agent->relay, agent, now_us);
    if (rc == 0 && agent->joined)
        rc = gs_agent_report_tasks(agent, now_us);
    if (rc == 0 && agent->joined && !agent->decided_us) {
        rc = gs_agent_master_step(agent, now_us);
        if (rc == 0)
            rc = gs_agent_probe_step(agent, now_us);
        if (rc == 0)
            rc = gs_agent_report_states(agent, now_us);
    }
    if (rc == 0 && agent->joined && now_us > agent->ping_us + GS_AGENT_PING_US) {
        agent->ping_us = now_us;
        rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_PING, NULL);
    }
    if (rc == 0 && !agent->challenged
        && now_us > agent->conn.heard_us + GS_AGENT_MUTE_US)
        rc = -ETIMEDOUT;
    return rc ? rc : gs_conn_flush(&agent->conn);
}

/* After the decision: done when the report is kept (if it comes here) and, for a
 * refusal, the tasks are gone. */
static void end_step(struct gs_agent *agent, int64_t now_us)
{
    bool refused = atomic_load(&agent->conf.page->decided) == GS_PAGE_ABORT;
    bool gone =
        !refused || agent->launch_told || agent->exits == agent->conf.page->slot_count;

    if (now_us > agent->decided_us + GS_AGENT_END_US)
        agent->finished = true;
    if (gone && refused && agent->conn.fd >= 0 && !agent->bye_sent) {
        struct gs_buffer body = {0};
        agent->bye_sent = true;
        gs_index_encode(&body, agent->conf.hello.node_index);
        gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_BYE, &body);
        gs_wire_free(&body);
    }
    /* A relay stays for its children as long as it is connected itself. */
    if (agent->conn.fd < 0 ? gone
                           : !refused && agent->report_done && !agent->relay.count)
        agent->finished = true;
}

/* Adds a descriptor to be read, unless it is none. Returns how many there are. */
static nfds_t watch(struct pollfd *fds, nfds_t count, int fd)
{
    if (fd >= 0)
        fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    return count;
}

static void wait_for_events(struct gs_agent *agent)
{
    struct pollfd fds[POLL_MAX];
    nfds_t count = 0;
    uint64_t drained;
    const struct gs_holder *holder = &agent->hold.holder;
    int writing = agent->connecting || gs_conn_pending(&agent->conn);

    count = watch(fds, count, agent->conf.wake_fd);
    if (agent->conn.fd >= 0)
        fds[count++] = (struct pollfd){
            .fd = agent->conn.fd,
            .events = (short)(agent->connecting ? POLLOUT
                                                : POLLIN | (writing ? POLLOUT : 0))};
    count = watch(fds, count, holder->fd);
    for (uint32_t i = 0; i < holder->peer_count; i++)
        count = watch(fds, count, holder->peers[i].fd);
    if (gs_prober_events(&agent->prober))
        fds[count++] = (struct pollfd){.fd = agent->prober.fd,
                                       .events = gs_prober_events(&agent->prober)};
    count = watch(fds, count, agent->relay.epoll_fd);
    count = watch(fds, count, gs_agent_health_fd(agent));
    if (agent->master_resolver.active)
        count = watch(fds, count, agent->master_resolver.fd);
    if (agent->probe_resolver.active)
        count = watch(fds, count, agent->probe_resolver.fd);
    if (poll(fds, count, agent->kin_pending ? 1 : GS_AGENT_SLICE_MS) > 0
        && fds[0].revents)
        while (read(agent->conf.wake_fd, &drained, sizeof(drained)) > 0)
            ;
}

/* A crowd of strangers may drive out a node that has not been heard yet, and a part of
 * a heterogeneous step waits to learn its place: then it comes again. Whether it was
 * heard shows in what it is told after the challenge: a ping within a second. */
static bool comes_again(struct gs_agent *agent)
{
    if (agent->conf.heterogeneous && !agent->joined)
        return true;
    return !agent->decided_us && agent->conn.received <= 1
           && agent->relay.count == agent->relay.strangers
           && agent->again++ < GS_AGENT_AGAIN;
}

/* Without the one who decides nobody may start. */
static void on_broken(struct gs_agent *agent, int code, int64_t now_us)
{
    bool again = comes_again(agent);

    gs_conn_close(&agent->conn);
    if (again)
        gs_agent_unsay(agent);
    agent->challenged = false;
    agent->connecting = again;
    agent->try_us = now_us;
    if (!again && !agent->decided_us)
        gs_agent_give_up(agent, code, "the connection is lost");
}

/* slurmstepd waits to end, but the deaths of the last tasks may not be told yet, and
 * the report of a step of short tasks may still be on its way. */
static bool must_stop(struct gs_agent *agent, int64_t now_us)
{
    if (!atomic_load(&agent->stop))
        return false;
    if (!agent->stop_us)
        agent->stop_us = now_us;
    return now_us > agent->stop_us + GS_AGENT_STOP_US;
}

void gs_agent_run(struct gs_agent *agent)
{
    int64_t now_us = gs_clock_now_us();

    gs_agent_health_begin(agent, now_us);
    gs_agent_connect_begin(agent, now_us);
    while (!agent->finished && !must_stop(agent, now_us)) {
        int rc = 0;
        if (agent->connecting)
            gs_agent_connect_step(agent, now_us);
        else if (agent->conn.fd >= 0)
            rc = talk(agent, now_us);
        if (rc == 0)
            rc = gs_agent_health_step(agent, now_us);
        if (rc < 0)
            on_broken(agent, -rc, now_us);
        if (agent->decided_us)
            end_step(agent, now_us);
        if (!agent->finished)
            wait_for_events(agent);
        now_us = gs_clock_now_us();
    }
    gs_page_abort(agent->conf.page, 75);
    gs_agent_health_end(agent);
    gs_hold_release(&agent->hold);
    gs_relay_close(&agent->relay);
    gs_conn_close(&agent->conn);
    gs_agent_see_off(agent);
    gs_decider_stop(agent->decider);
    agent->decider = NULL;
}
