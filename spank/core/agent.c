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
#include <sys/stat.h>
#include <unistd.h>

#include "agent_private.h"
#include "clock_private.h"
#include "error_private.h"
#include "net_private.h"
#include "wire_private.h"

#define GS_AGENT_SLICE_MS 100
#define POLL_MAX (8 + GS_PROOF_PEERS)

struct gs_agent *gs_agent_create(const struct gs_agentconf *conf)
{
    struct gs_agent *agent = calloc(1, sizeof(*agent));
    uint32_t slots = conf->page->slot_count;

    if (!agent)
        return NULL;
    agent->conf = *conf;
    agent->conn.fd = agent->prober.fd = -1;
    gs_hold_init(&agent->hold);
    gs_mac_init(&agent->mac, conf->key);
    explicit_bzero(agent->conf.key, sizeof(agent->conf.key));
    agent->arrival_sent = calloc(slots, sizeof(*agent->arrival_sent));
    agent->exit_sent = calloc(slots, sizeof(*agent->exit_sent));
    agent->exit_status = calloc(slots, sizeof(*agent->exit_status));
    if (!agent->arrival_sent || !agent->exit_sent || !agent->exit_status) {
        gs_agent_destroy(agent);
        return NULL;
    }
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
    gs_mac_wipe(&agent->mac);
    free(agent->arrival_sent);
    free(agent->exit_sent);
    free(agent->exit_status);
    free(agent);
}

static void wake(struct gs_agent *agent)
{
    uint64_t one = 1;
    ssize_t put = write(agent->conf.wake_fd, &one, sizeof(one));

    (void)put; /* a full eventfd wakes just as well */
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

void gs_agent_stop(struct gs_agent *agent)
{
    atomic_store(&agent->stop, true);
    wake(agent);
}

/* Nobody is there to decide any more: the local tasks must not start. */
static void give_up(struct gs_agent *agent, int code, const char *what)
{
    if (atomic_load(&agent->conf.page->state) == GS_PAGE_WAIT)
        gs_error_set(&agent->end,
                     code,
                     "gave up the start: %s (srun at %s port %u%s%s)",
                     what,
                     agent->conf.root_address,
                     agent->conf.root_port,
                     code ? ", " : "",
                     code ? strerror(code) : "");
    gs_page_abort(agent->conf.page, 75);
    agent->finished = true;
}

static void connect_step(struct gs_agent *agent, int64_t now_us)
{
    int64_t limit = (int64_t)agent->conf.spec.timeout_s * 1000000 + GS_AGENT_GRACE_US;
    int fd, rc;

    if (agent->conn.fd >= 0) {
        struct pollfd ready = {.fd = agent->conn.fd, .events = POLLOUT};
        rc = poll(&ready, 1, 0) > 0 ? gs_net_connected(agent->conn.fd) : -EAGAIN;
        if (rc == 0) {
            gs_net_tune(agent->conn.fd, GS_AGENT_DEAD_MS);
            gs_conn_open(&agent->conn, agent->conn.fd, false, now_us);
            agent->connecting = false;
            return;
        }
        if (rc == -EAGAIN && now_us < agent->try_us + GS_AGENT_TRY_US)
            return;
        close(agent->conn.fd);
        agent->conn.fd = -1;
        /* srun listens before it launches: refused means it has ended. */
        if (rc == -ECONNREFUSED) {
            give_up(agent, ECONNREFUSED, "srun does not listen any more");
            return;
        }
    }
    if (now_us > agent->begun_us + limit) {
        give_up(agent, ETIMEDOUT, "no connection");
        return;
    }
    /* A try per slice, spread by node so that a thousand nodes do not retry as one. */
    if (agent->tries
        && now_us < agent->try_us + GS_AGENT_TRY_US / 2
                        + agent->conf.hello.node_index % 64 * 1000)
        return;
    agent->tries++;
    agent->try_us = now_us;
    fd = gs_net_connect(agent->conf.root_address, agent->conf.root_port);
    if (fd == -EINVAL)
        give_up(agent, EINVAL, "its address is not numeric");
    else if (fd >= 0)
        agent->conn.fd = fd;
}

static int say_hello(struct gs_agent *agent, int64_t now_us)
{
    struct gs_hello *hello = &agent->conf.hello;
    struct gs_buffer body = {0};
    int rc = gs_random(hello->nonce, sizeof(hello->nonce));

    if (rc < 0)
        return rc;
    hello->rank_count = agent->conf.page->slot_count;
    hello->wall_us = gs_clock_wall_us();
    gs_hello_encode(&body, hello, agent->conf.ranks);
    rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_HELLO, &body);
    gs_wire_free(&body);
    if (rc < 0)
        return rc;
    agent->joined = true;
    agent->ping_us = now_us;
    if (agent->conf.complaint[0])
        return gs_agent_refuse(agent, agent->conf.complaint);
    for (uint32_t i = 0; i < hello->rank_count; i++)
        if (agent->conf.ranks[i] == 0)
            gs_agent_master_begin(agent, now_us);
    return 0;
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

static int on_abort(struct gs_agent *agent, const struct gs_frame *frame, int64_t now_us)
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

/* A piece of the report; an empty one ends it. A report that cannot be kept costs
 * nobody the start: srun has its own copy. */
static void on_report(struct gs_agent *agent, const struct gs_frame *frame)
{
    const char *dir = agent->conf.spool_dir;

    if (!agent->report_open && dir[0]) {
        agent->report_open =
            gs_spoolfile_begin(&agent->report, dir, "start.json", NULL) == 0;
        /* The job reads it, whatever the umask it gave its slurmstepd. */
        if (agent->report_open)
            fchmod(agent->report.fd, 0644);
    }
    if (frame->size == 0)
        agent->report_done = true;
    if (!agent->report_open)
        return;
    if (frame->size == 0)
        gs_spoolfile_commit(&agent->report);
    else if (gs_spoolfile_write(&agent->report, frame->body, frame->size) == 0)
        return;
    else
        gs_spoolfile_cancel(&agent->report);
    agent->report_open = false;
}

static int on_ping(struct gs_agent *agent, const struct gs_frame *frame, int64_t now_us)
{
    struct gs_buffer echo = {0};
    int rc;

    atomic_store(&agent->conf.page->guard_us,
                 now_us + (int64_t)agent->conf.spec.timeout_s * 1000000
                     + GS_AGENT_GRACE_US);
    gs_put_bytes(&echo, frame->body, frame->size);
    rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_PING, &echo);
    gs_wire_free(&echo);
    return rc;
}

static int on_frame(struct gs_agent *agent, const struct gs_frame *frame, int64_t now_us)
{
    struct gs_probe probe;

    if (!agent->joined)
        return frame->type == GS_FRAME_CHALLENGE ? say_hello(agent, now_us) : -EBADMSG;
    switch (frame->type) {
    case GS_FRAME_PING:
        return on_ping(agent, frame, now_us);
    case GS_FRAME_PROBE:
        if (gs_probe_decode(frame->body, frame->size, &probe, NULL) < 0)
            return -EBADMSG;
        return gs_agent_probe(agent, &probe, now_us);
    case GS_FRAME_GO:
        return on_go(agent, frame, now_us);
    case GS_FRAME_ABORT:
        return on_abort(agent, frame, now_us);
    case GS_FRAME_REPORT:
        on_report(agent, frame);
        return 0;
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

    if (rc == 0 && agent->joined)
        rc = gs_agent_report_tasks(agent, now_us);
    if (rc == 0 && agent->joined && !agent->decided_us) {
        rc = gs_agent_master_step(agent, now_us);
        if (rc == 0)
            rc = gs_agent_probe_step(agent, now_us);
    }
    if (rc == 0 && agent->joined && now_us > agent->ping_us + GS_AGENT_PING_US) {
        agent->ping_us = now_us;
        rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_PING, NULL);
    }
    if (rc == 0 && !agent->joined && now_us > agent->conn.heard_us + GS_AGENT_MUTE_US)
        rc = -ETIMEDOUT;
    return rc ? rc : gs_conn_flush(&agent->conn);
}

/* After the decision: done when the report is kept (if it comes here) and, for a
 * refusal, the tasks are gone. */
static void end_step(struct gs_agent *agent, int64_t now_us)
{
    bool refused = atomic_load(&agent->conf.page->state) == GS_PAGE_ABORT;
    bool gone =
        !refused || agent->launch_told || agent->exits == agent->conf.page->slot_count;

    if (now_us > agent->decided_us + GS_AGENT_END_US)
        agent->finished = true;
    if (gone && refused && agent->conn.fd >= 0 && !agent->bye_sent) {
        agent->bye_sent = true;
        gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_BYE, NULL);
    }
    if (agent->conn.fd < 0 ? gone : !refused && agent->report_done)
        agent->finished = true;
}

static void wait_for_events(struct gs_agent *agent)
{
    struct pollfd fds[POLL_MAX];
    nfds_t count = 0;
    uint64_t drained;
    const struct gs_holder *holder = &agent->hold.holder;
    int writing = agent->connecting || gs_conn_pending(&agent->conn);

    fds[count++] = (struct pollfd){.fd = agent->conf.wake_fd, .events = POLLIN};
    if (agent->conn.fd >= 0)
        fds[count++] = (struct pollfd){
            .fd = agent->conn.fd,
            .events = (short)(agent->connecting ? POLLOUT
                                                : POLLIN | (writing ? POLLOUT : 0))};
    if (holder->fd >= 0)
        fds[count++] = (struct pollfd){.fd = holder->fd, .events = POLLIN};
    for (uint32_t i = 0; i < holder->peer_count; i++)
        fds[count++] = (struct pollfd){.fd = holder->peers[i].fd, .events = POLLIN};
    if (gs_prober_events(&agent->prober))
        fds[count++] = (struct pollfd){.fd = agent->prober.fd,
                                       .events = gs_prober_events(&agent->prober)};
    if (agent->master_resolver.active)
        fds[count++] =
            (struct pollfd){.fd = agent->master_resolver.fd, .events = POLLIN};
    if (agent->probe_resolver.active)
        fds[count++] = (struct pollfd){.fd = agent->probe_resolver.fd, .events = POLLIN};
    if (poll(fds, count, GS_AGENT_SLICE_MS) > 0 && fds[0].revents)
        while (read(agent->conf.wake_fd, &drained, sizeof(drained)) > 0)
            ;
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

    agent->begun_us = now_us;
    agent->connecting = true;
    while (!agent->finished && !must_stop(agent, now_us)) {
        int rc = 0;
        if (agent->connecting)
            connect_step(agent, now_us);
        else if (agent->conn.fd >= 0)
            rc = talk(agent, now_us);
        if (rc < 0) {
            gs_conn_close(&agent->conn);
            if (!agent->decided_us)
                give_up(agent, -rc, "the connection to srun is lost");
        }
        if (agent->decided_us)
            end_step(agent, now_us);
        if (!agent->finished)
            wait_for_events(agent);
        now_us = gs_clock_now_us();
    }
    gs_page_abort(agent->conf.page, 75);
    gs_hold_release(&agent->hold);
    gs_conn_close(&agent->conn);
}
