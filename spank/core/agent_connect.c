/* agent_connect.c - whom the agent talks to: srun, or else the step's first node.
 *
 * srun listens before it launches anything, so "refused" means that it has ended and
 * nobody may start any more. Silence means that it cannot be reached from here: then
 * the first node is asked, and the first node itself decides. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent_private.h"
#include "clock_private.h"
#include "error_private.h"
#include "net_private.h"

static bool is_first(const struct gs_agent *agent)
{
    return agent->conf.hello.node_index == 0 && !agent->conf.heterogeneous;
}

void gs_agent_give_up(struct gs_agent *agent, int code, const char *what)
{
    const char *whom = agent->to_first ? agent->conf.first_node : "srun";

    if (atomic_load(&agent->conf.page->decided) == GS_PAGE_WAIT)
        gs_error_set(&agent->end,
                     code,
                     "gave up the start: %s (%s at %s port %u%s%s)",
                     what,
                     whom,
                     agent->to_first ? agent->first_address : agent->conf.root_address,
                     agent->conf.root_port,
                     code ? ", " : "",
                     code ? strerror(code) : "");
    gs_page_abort(agent->conf.page, 75);
    agent->finished = true;
}

/* The first node, srun out of reach: decide here, and be the first to connect. */
static void decide_here(struct gs_agent *agent, const char *why)
{
    struct gs_deciderconf conf = {
        .hello = agent->conf.hello,
        .step_nodes = agent->conf.step_nodes,
        .spec = &agent->conf.spec,
        .page = agent->conf.page,
        .policy = agent->health.policy,
        .user_id = agent->conf.user_id,
        .why = why,
    };
    struct gs_error error;
    uint16_t port = agent->relay.port;
    int fd = gs_relay_give(&agent->relay);

    if (fd < 0) {
        gs_agent_give_up(agent, 0, "this node has no port to decide at");
        return;
    }
    memcpy(conf.key, agent->conf.key, sizeof(conf.key));
    agent->decider = gs_decider_start(&conf, fd, &error);
    atomic_store(&agent->decides, agent->decider);
    explicit_bzero(conf.key, sizeof(conf.key));
    if (!agent->decider) {
        gs_agent_give_up(agent, 0, error.text);
        return;
    }
    snprintf(agent->first_address, sizeof(agent->first_address), "127.0.0.1");
    agent->conf.root_port = port;
    agent->to_first = true;
    agent->tries = 0;
}

/* Any other node: find out where the first one is. */
static void turn_to_first(struct gs_agent *agent, int64_t now_us)
{
    agent->to_first = true;
    agent->tries = 0;
    if (gs_resolve_is_numeric(agent->conf.first_node))
        snprintf(agent->first_address,
                 sizeof(agent->first_address),
                 "%.63s",
                 agent->conf.first_node);
    else if (!gs_resolve_is_name(agent->conf.first_node)
             || gs_resolver_start(
                    &agent->first_resolver, agent->conf.first_node, now_us)
                    < 0)
        gs_agent_give_up(agent, 0, "the first node's name is no name");
}

static void leave_srun(struct gs_agent *agent, const char *why, int64_t now_us)
{
    if (!agent->conf.first_ports[0])
        return;
    if (is_first(agent))
        decide_here(agent, why);
    else
        turn_to_first(agent, now_us);
}

void gs_agent_connect_begin(struct gs_agent *agent, int64_t now_us)
{
    agent->begun_us = now_us;
    agent->connecting = true;
    if (is_first(agent) && agent->conf.first_ports[0])
        gs_relay_open(&agent->relay, agent->conf.first_ports);
    if (!agent->conf.root_port)
        leave_srun(agent, "rendezvous=node", now_us);
}

/* A connection attempt that is under way. True: it stands or goes on. */
static bool go_on(struct gs_agent *agent, int64_t now_us)
{
    struct pollfd ready = {.fd = agent->conn.fd, .events = POLLOUT};
    int rc = poll(&ready, 1, 0) > 0 ? gs_net_connected(agent->conn.fd) : -EAGAIN;

    if (rc == 0) {
        gs_net_tune(agent->conn.fd, GS_AGENT_DEAD_MS);
        gs_conn_open(&agent->conn, agent->conn.fd, false, now_us);
        agent->connecting = false;
        return true;
    }
    if (rc == -EAGAIN && now_us < agent->try_us + GS_AGENT_TRY_US)
        return true;
    close(agent->conn.fd);
    agent->conn.fd = -1;
    if (rc == -ECONNREFUSED && !agent->to_first)
        gs_agent_give_up(agent, ECONNREFUSED, "it does not listen any more");
    return agent->finished;
}

static bool find_first(struct gs_agent *agent, int64_t now_us)
{
    int rc;

    if (!agent->first_resolver.active)
        return agent->first_address[0] != '\0';
    rc = gs_resolver_step(&agent->first_resolver, now_us);
    if (rc < 0
        || (rc > 0
            && !gs_resolver_address(&agent->first_resolver, 0, agent->first_address)))
        gs_agent_give_up(agent, 0, "the first node's name does not resolve");
    return rc > 0 && !agent->finished;
}

static void try_again(struct gs_agent *agent, int64_t now_us)
{
    const char *address =
        agent->to_first ? agent->first_address : agent->conf.root_address;
    int fd;

    /* The first node took one of two ports; which one is not known here. */
    if (agent->to_first && !agent->decider)
        agent->conf.root_port = agent->conf.first_ports[agent->tries % 2];
    agent->tries++;
    agent->try_us = now_us;
    fd = gs_net_connect(address, agent->conf.root_port);
    if (fd == -EINVAL)
        gs_agent_give_up(agent, EINVAL, "its address is not numeric");
    else if (fd >= 0)
        agent->conn.fd = fd;
}

void gs_agent_connect_step(struct gs_agent *agent, int64_t now_us)
{
    int64_t limit = (int64_t)agent->conf.spec.timeout_s * 1000000 + GS_AGENT_GRACE_US;

    if (agent->conn.fd >= 0 && go_on(agent, now_us))
        return;
    if (now_us > agent->begun_us + limit) {
        gs_agent_give_up(agent, ETIMEDOUT, "no connection");
        return;
    }
    if (!agent->to_first && now_us > agent->begun_us + GS_AGENT_SRUN_US)
        leave_srun(agent, "srun cannot be reached from here", now_us);
    /* A try per slice, spread by node so that a thousand nodes do not retry as one. */
    if (agent->finished || (agent->to_first && !find_first(agent, now_us))
        || (agent->tries
            && now_us < agent->try_us + GS_AGENT_TRY_US / 2
                            + agent->conf.hello.node_index % 64 * 1000))
        return;
    try_again(agent, now_us);
}

/* Where this node stands in a heterogeneous step: slurmstepd knows its own part only,
 * the tasks' variables have the offsets. False: none of them has come yet. */
static bool find_place(struct gs_agent *agent)
{
    const struct gs_page *page = agent->conf.page;

    if (!agent->conf.heterogeneous)
        return true;
    for (uint32_t i = 0; i < page->slot_count; i++) {
        uint32_t offset;
        if (atomic_load(&page->shared->slots[i].state) != GS_SLOT_ARRIVED)
            continue;
        offset = atomic_load(&page->shared->slots[i].rank) - agent->ranks[i];
        agent->conf.hello.node_index = atomic_load(&page->shared->slots[i].node);
        for (uint32_t k = 0; k < page->slot_count; k++)
            agent->ranks[k] += offset;
        return true;
    }
    return false;
}

int gs_agent_hello(struct gs_agent *agent, int64_t now_us)
{
    struct gs_hello *hello = &agent->conf.hello;
    struct gs_buffer body = {0};
    int rc;

    if (!find_place(agent))
        return 0;
    rc = gs_random(hello->nonce, sizeof(hello->nonce));
    if (rc < 0)
        return rc;
    hello->rank_count = agent->conf.page->slot_count;
    hello->wall_us = gs_clock_wall_us();
    gs_hello_encode(&body, hello, agent->ranks);
    /* In one piece with the arrivals that follow: that spares srun a wake per node. */
    rc = gs_conn_queue(&agent->conn, &agent->mac, GS_FRAME_HELLO, &body);
    gs_wire_free(&body);
    if (rc < 0)
        return rc;
    agent->joined = true;
    agent->ping_us = now_us;
    if (agent->conf.complaint[0])
        return gs_agent_refuse(agent, agent->conf.complaint);
    for (uint32_t i = 0; i < hello->rank_count; i++)
        if (agent->ranks[i] == 0)
            gs_agent_master_begin(agent, now_us);
    return 0;
}

void gs_agent_unsay(struct gs_agent *agent)
{
    uint32_t slots = agent->conf.page->slot_count;

    if (!agent->joined)
        return;
    agent->joined = agent->master_sent = agent->health.sent = false;
    agent->exits = 0;
    memset(agent->arrival_sent, 0, slots * sizeof(*agent->arrival_sent));
    memset(agent->exit_sent, 0, slots * sizeof(*agent->exit_sent));
    memset(agent->told, 0, slots * sizeof(*agent->told));
    if (agent->launch_told)
        atomic_store(&agent->launch_failed, true);
    agent->launch_told = false;
}
