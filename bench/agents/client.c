/* client.c - a process full of simulated nodes: see agents.c. A connection that breaks
 * is counted, not tried again: then the run is not what it should have been. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agents.h"
#include "clock_private.h"
#include "conn_private.h"
#include "net_private.h"

#define EVENTS 256
#define TASKS_MAX 64
#define PAUSE_US 50

struct agent {
    struct gs_conn conn;
    uint32_t node;
};

struct client {
    const struct plan *plan;
    struct gs_mac mac;
    struct agent *agents;
    uint32_t count, opened, answered; /* connections begun; challenged */
    uint32_t first;
    int epoll_fd;
};

/* Each node has an address of its own, as on a network; else the search for a free
 * source port is what would be measured. */
static int source(uint32_t node)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;

    from.sin_addr.s_addr =
        htonl(0x7f010000U + ((node / 250) << 8) + 1 + node % 250); /* 127.1.0.1 ... */
    if (fd < 0)
        die("socket");
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0)
        die("bind");
    return fd;
}

static void open_one(struct client *client)
{
    struct agent *agent = &client->agents[client->opened];
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(client->plan->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = agent};
    int64_t none = 0, now_us = gs_clock_now_us();
    int fd = source(client->first + client->opened * CLIENTS);

    atomic_compare_exchange_strong(&client->plan->board->first_us, &none, now_us);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
        die("connect");
    agent->node = client->first + client->opened * CLIENTS;
    client->opened++;
    gs_conn_open(&agent->conn, fd, false, now_us);
    if (!client->plan->floor
        && epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll_ctl");
}

static void say(struct client *client,
                struct agent *agent,
                uint8_t type,
                struct gs_buffer *body)
{
    if (gs_conn_send(&agent->conn, &client->mac, type, body) < 0)
        atomic_fetch_add(&client->plan->board->broken, 1);
    gs_wire_free(body);
}

static void offer_master(struct client *client, struct agent *agent)
{
    struct gs_master master = {.port = 29500, .candidate_count = 1};
    struct gs_buffer body = {0};

    snprintf(master.candidates[0].address, GS_ADDR_SIZE, "127.1.0.1");
    gs_master_encode(&body, &master);
    say(client, agent, GS_FRAME_MASTER, &body);
}

/* The challenge is answered as slurmstepd does when its tasks are there already. */
static void join(struct client *client, struct agent *agent)
{
    const struct plan *plan = client->plan;
    struct gs_hello hello = {
        .job_id = 1,
        .node_index = agent->node,
        .node_count = plan->nodes,
        .task_count = plan->nodes * plan->tasks_each,
        .wall_us = gs_clock_wall_us(),
        .version = "bench",
        .rank_count = plan->tasks_each,
    };
    struct gs_arrival arrivals[TASKS_MAX] = {0};
    uint32_t ranks[TASKS_MAX];
    struct gs_buffer body = {0};

    if (gs_random(hello.nonce, sizeof(hello.nonce)) < 0)
        die("gs_random");
    snprintf(hello.node_name, sizeof(hello.node_name), "node%05u", agent->node);
    for (uint32_t i = 0; i < plan->tasks_each; i++) {
        ranks[i] = arrivals[i].rank = agent->node * plan->tasks_each + i;
        arrivals[i].visible = GS_NO_RANK;
        arrivals[i].claim = 1;
    }
    gs_hello_encode(&body, &hello, ranks);
    if (gs_conn_queue(&agent->conn, &client->mac, GS_FRAME_HELLO, &body) < 0)
        die("a hello cannot be queued");
    gs_wire_free(&body);
    client->answered++;
    if (agent->node == plan->leaving) {
        gs_conn_flush(&agent->conn);
        return;
    }
    gs_arrivals_encode(&body, agent->node, arrivals, plan->tasks_each);
    say(client, agent, GS_FRAME_ARRIVED, &body);
    if (agent->node == 0)
        offer_master(client, agent);
}

static void answer_probe(struct client *client,
                         struct agent *agent,
                         const struct gs_frame *frame)
{
    struct gs_probe probe;
    struct gs_reach reach = {.node_index = agent->node, .rtt_us = 50};
    struct gs_buffer body = {0};

    if (gs_probe_decode(frame->body, frame->size, &probe, NULL) < 0)
        die("a probe cannot be read");
    reach.round = probe.round;
    gs_reach_encode(&body, &reach);
    say(client, agent, GS_FRAME_REACH, &body);
}

static void take(struct client *client,
                 struct agent *agent,
                 const struct gs_frame *frame)
{
    struct board *board = client->plan->board;

    switch (frame->type) {
    case GS_FRAME_CHALLENGE:
        join(client, agent);
        break;
    case GS_FRAME_PROBE:
        answer_probe(client, agent, frame);
        break;
    case GS_FRAME_GO:
    case GS_FRAME_ABORT:
        atomic_fetch_add(&board->refused, frame->type == GS_FRAME_ABORT);
        atomic_store(&board->last_us, gs_clock_now_us());
        atomic_fetch_add(&board->told, 1);
        break;
    default:
        break;
    }
}

static void serve(struct client *client, struct agent *agent)
{
    struct gs_frame frame;
    int end = gs_conn_fill(&agent->conn, gs_clock_now_us()), rc;

    while ((rc = gs_conn_next(&agent->conn, &client->mac, &frame)) > 0)
        take(client, agent, &frame);
    if ((rc < 0 || end < 0) && !atomic_load(&client->plan->board->done)) {
        atomic_fetch_add(&client->plan->board->broken, 1);
        epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, agent->conn.fd, NULL);
    }
}

/* The one that leaves does so when everybody else waits. */
static void maybe_leave(struct client *client)
{
    struct board *board = client->plan->board;
    struct agent *agent =
        &client->agents[(client->plan->leaving - client->first) / CLIENTS];

    if (client->plan->leaving % CLIENTS != client->first || !atomic_load(&board->ready)
        || atomic_load(&board->left_us))
        return;
    atomic_store(&board->left_us, gs_clock_now_us());
    gs_conn_close(&agent->conn);
}

static uint32_t unanswered(const struct client *client)
{
    if (client->plan->floor) /* both clients' alike */
        return client->opened - atomic_load(&client->plan->board->accepted) / CLIENTS;
    return client->opened - client->answered;
}

static void loop(struct client *client)
{
    struct epoll_event events[EVENTS];
    const struct plan *plan = client->plan;
    int64_t begun_us = gs_clock_now_us();

    while (!atomic_load(&plan->board->done)
           && gs_clock_now_us() < begun_us + LIMIT_US) {
        for (int i = 0; i < 64 && client->opened < client->count
                        && (int32_t)unanswered(client) < WINDOW;
             i++)
            open_one(client);
        if (plan->floor) {
            usleep(PAUSE_US);
            continue;
        }
        int count = epoll_wait(
            client->epoll_fd, events, EVENTS, client->opened < client->count ? 0 : 1);
        for (int i = 0; i < count; i++)
            serve(client, events[i].data.ptr);
        if (plan->leaving != NO_AGENT)
            maybe_leave(client);
    }
}

void client_run(const struct plan *plan, uint32_t first)
{
    struct client client = {.plan = plan, .first = first};

    if (plan->tasks_each > TASKS_MAX) {
        errno = EINVAL;
        die("too many tasks on a node");
    }
    client.count = (plan->nodes - first + CLIENTS - 1) / CLIENTS;
    client.agents = calloc(client.count, sizeof(*client.agents));
    client.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!client.agents || client.epoll_fd < 0)
        die("no room for the nodes");
    gs_mac_init(&client.mac, plan->key);
    while (!atomic_load(&plan->board->go))
        sched_yield();
    loop(&client);
    atomic_fetch_add(&plan->board->client_cpu_us, cpu_us());
    _exit(0);
}
