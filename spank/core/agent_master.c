/* agent_master.c - rank 0's node offers MASTER_ADDR and MASTER_PORT; every node tries
 * to reach what is offered. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent_private.h"
#include "clock_private.h"
#include "error_private.h"
#include "iface.h"
#include "net_private.h"

int gs_agent_refuse(struct gs_agent *agent, const char *text)
{
    struct gs_fail fail = {
        .node_index = agent->conf.hello.node_index,
        .rank = GS_NO_RANK,
        .kind = GS_FAIL_CONFIG,
    };

    snprintf(fail.text, sizeof(fail.text), "%s", text);
    agent->master_sent = true;
    return gs_agent_send_fail(agent, &fail);
}

/* Rank 0's node, with each hello: take the port, start resolving the user's name if
 * needed. */
void gs_agent_master_begin(struct gs_agent *agent, int64_t now_us)
{
    struct gs_holdconf *hold = &agent->conf.hold;
    struct gs_error error = {0};
    const char *user = agent->conf.user_address;
    int rc = 0;

    hold->fixed = (uint16_t)agent->conf.spec.master_port;
    if (agent->conf.user_port[0])
        rc = gs_port_read(agent->conf.user_port, &hold->fixed, &error);
    if (rc < 0 || (!agent->hold.port && gs_hold_open(&agent->hold, hold, &error) < 0)) {
        gs_agent_refuse(agent, error.text);
        return;
    }
    if (!user[0] || gs_resolve_is_numeric(user))
        return;
    gs_resolver_stop(&agent->master_resolver);
    if (gs_resolve_is_name(user)
        && gs_resolver_start(&agent->master_resolver, user, now_us) == 0)
        return;
    /* In the words of the tasks' own check: either may be first. */
    gs_error_set(
        &error,
        EINVAL,
        "MASTER_ADDR='%.120s' is not one host name or address (no port, no list, "
        "no URL); correct it, or unset it to have it chosen",
        user);
    gs_agent_refuse(agent, error.text);
}

static void add_if_local(struct gs_master *master,
                         const struct gs_iface *ifaces,
                         int count,
                         const char *address)
{
    for (int i = 0; i < count; i++) {
        struct gs_candidate *one = &master->candidates[master->candidate_count];
        if (strcmp(ifaces[i].address, address) != 0)
            continue;
        snprintf(one->address, sizeof(one->address), "%s", address);
        snprintf(one->interface, sizeof(one->interface), "%s", ifaces[i].name);
        snprintf(one->why, sizeof(one->why), "MASTER_ADDR set by the user");
        master->candidate_count++;
        return;
    }
}

/* The user's address: candidates are those it stands for that are this node's own.
 * None: it lies elsewhere, is kept, and only has to resolve everywhere. */
static void candidates_of_user(struct gs_agent *agent,
                               struct gs_master *master,
                               const struct gs_iface *ifaces,
                               int count)
{
    char address[GS_ADDR_SIZE];

    master->user_address = true;
    memcpy(master->export_as, agent->conf.user_address, sizeof(master->export_as));
    if (gs_resolve_is_numeric(agent->conf.user_address)) {
        snprintf(address, sizeof(address), "%.63s", agent->conf.user_address);
        add_if_local(master, ifaces, count, address);
        return;
    }
    for (uint32_t i = 0; master->candidate_count < GS_CANDIDATE_MAX
                         && gs_resolver_address(&agent->master_resolver, i, address);
         i++)
        add_if_local(master, ifaces, count, address);
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* Only master-iface can bring loopback here; with more nodes every one would then meet
 * itself. */
static bool meets_itself(const struct gs_agent *agent, const struct gs_master *master)
{
    for (uint32_t i = 0; i < master->candidate_count; i++)
        if (!is_loopback(master->candidates[i].address))
            return false;
    return agent->conf.hello.node_count > 1 && master->candidate_count;
}

static int offer(struct gs_agent *agent)
{
    struct gs_iface ifaces[GS_IFACE_MAX];
    struct gs_master master = {
        .node_index = agent->conf.hello.node_index,
        .port = agent->hold.port,
        .user_port = agent->conf.user_port[0] != '\0',
    };
    struct gs_error error;
    struct gs_buffer body = {0};
    char toward[GS_ADDR_SIZE];
    int count = gs_iface_list(ifaces, &error), rc;

    if (count < 0)
        return gs_agent_refuse(agent, error.text);
    gs_net_local_text(agent->conn.fd, toward);
    if (agent->conf.user_address[0]) {
        candidates_of_user(agent, &master, ifaces, count);
    } else {
        rc = gs_iface_rank(ifaces,
                           (uint32_t)count,
                           agent->conf.spec.master_iface,
                           toward,
                           master.candidates,
                           &error);
        if (rc < 0)
            return gs_agent_refuse(agent, error.text);
        master.candidate_count = (uint32_t)rc;
        if (meets_itself(agent, &master))
            return gs_agent_refuse(
                agent,
                "master-iface names the loopback, where every node "
                "would meet itself: name an interface or network that "
                "the nodes share");
        master.must_match = agent->conf.spec.master_addr == GS_MASTER_NAME;
        if (master.must_match)
            snprintf(master.export_as,
                     sizeof(master.export_as),
                     "%s",
                     agent->conf.hello.node_name);
    }
    gs_master_encode(&body, &master);
    agent->master_sent = true;
    rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_MASTER, &body);
    gs_wire_free(&body);
    return rc;
}

int gs_agent_master_step(struct gs_agent *agent, int64_t now_us)
{
    struct gs_error error;
    int rc;

    gs_holder_serve(&agent->hold.holder, &agent->mac, now_us);
    if (agent->master_sent || !agent->hold.port)
        return 0;
    if (agent->master_resolver.active) {
        rc = gs_resolver_step(&agent->master_resolver, now_us);
        if (rc == 0)
            return 0;
        if (rc < 0) {
            gs_error_set(
                &error,
                -rc,
                "MASTER_ADDR=%.200s, set by the user, does not resolve on %s: %s",
                agent->conf.user_address,
                agent->conf.hello.node_name,
                rc == -ETIMEDOUT ? "no answer within 5 s" : "unknown name");
            return gs_agent_refuse(agent, error.text);
        }
    }
    return offer(agent);
}

static int send_reach(struct gs_agent *agent, struct gs_reach *reach)
{
    struct gs_buffer body = {0};
    int rc;

    reach->node_index = agent->conf.hello.node_index;
    reach->round = agent->probe.round;
    gs_reach_encode(&body, reach);
    rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_REACH, &body);
    gs_wire_free(&body);
    return rc;
}

/* The name is fine, or there was none: on to the connection, if one is asked for. */
static int go_on(struct gs_agent *agent, int64_t now_us)
{
    struct gs_reach reach = {.result = GS_REACH_OK};

    if (!agent->probe.address[0])
        return send_reach(agent, &reach);
    gs_prober_start(&agent->prober, &agent->probe, now_us);
    return 0;
}

int gs_agent_probe(struct gs_agent *agent, const struct gs_probe *probe, int64_t now_us)
{
    struct gs_reach reach = {.result = GS_REACH_RESOLVE};

    gs_prober_stop(&agent->prober);
    gs_resolver_stop(&agent->probe_resolver);
    agent->probe = *probe;
    if (!probe->name[0] || gs_resolve_is_numeric(probe->name))
        return go_on(agent, now_us);
    if (gs_resolve_is_name(probe->name)
        && gs_resolver_start(&agent->probe_resolver, probe->name, now_us) == 0)
        return 0;
    return send_reach(agent, &reach);
}

/* Whether the name means the address on this node; reach tells where it leads else. */
static bool name_matches(const struct gs_agent *agent, struct gs_reach *reach)
{
    char address[GS_ADDR_SIZE];

    for (uint32_t i = 0; gs_resolver_address(&agent->probe_resolver, i, address); i++) {
        if (strcmp(address, agent->probe.address) == 0)
            return true;
        if (i == 0)
            memcpy(reach->text, address, sizeof(reach->text));
    }
    return false;
}

static int resolved(struct gs_agent *agent, int64_t now_us)
{
    struct gs_reach reach = {.result = GS_REACH_ELSEWHERE};

    if (agent->probe.must_match && !name_matches(agent, &reach))
        return send_reach(agent, &reach);
    return go_on(agent, now_us);
}

int gs_agent_probe_step(struct gs_agent *agent, int64_t now_us)
{
    struct gs_reach reach = {.result = GS_REACH_RESOLVE};
    int rc;

    if (agent->probe_resolver.active) {
        rc = gs_resolver_step(&agent->probe_resolver, now_us);
        if (rc > 0)
            return resolved(agent, now_us);
        return rc < 0 ? send_reach(agent, &reach) : 0;
    }
    memset(&reach, 0, sizeof(reach));
    if (gs_prober_step(&agent->prober, &agent->mac, now_us, &reach))
        return send_reach(agent, &reach);
    return 0;
}
