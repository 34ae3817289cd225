/* relay.c - see relay_private.h. A child that breaks the rules is dropped; one that is
 * lost before the decision is told upwards as lost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent_private.h"
#include "net_private.h"
#include "wire_private.h"

#define STRANGER_US 5000000
#define CHILDREN 4096
#define DEAD_MS 10000

void gs_relay_init(struct gs_relay *relay)
{
    memset(relay, 0, sizeof(*relay));
    relay->listen_fd = relay->epoll_fd = -1;
}

static int watch(const struct gs_relay *relay, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(relay->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int gs_relay_open(struct gs_relay *relay, const uint16_t ports[2])
{
    int fd = -EADDRINUSE;

    for (int i = 0; i < 2 && fd < 0; i++) {
        fd = gs_net_listen(ports[i], false);
        relay->port = ports[i];
    }
    if (fd < 0)
        return fd;
    relay->listen_fd = fd;
    relay->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (relay->epoll_fd >= 0 && watch(relay, fd) == 0)
        return 0;
    gs_relay_close(relay);
    return -ENOMEM;
}

int gs_relay_give(struct gs_relay *relay)
{
    int fd = relay->listen_fd;

    relay->listen_fd = -1;
    gs_relay_close(relay);
    return fd;
}

void gs_relay_close(struct gs_relay *relay)
{
    while (relay->children) {
        struct gs_relaychild *child = relay->children;
        relay->children = child->next;
        gs_conn_close(&child->conn);
        free(child);
    }
    relay->count = 0;
    if (relay->listen_fd >= 0)
        close(relay->listen_fd);
    if (relay->epoll_fd >= 0)
        close(relay->epoll_fd);
    relay->listen_fd = relay->epoll_fd = -1;
}

static bool welcome(struct gs_relay *relay, const struct gs_mac *mac, int64_t now_us)
{
    uint8_t nonce[GS_NONCE_SIZE];
    struct gs_buffer body = {.data = nonce, .size = sizeof(nonce)};
    struct gs_relaychild *child;
    int fd = gs_net_accept(relay->listen_fd);

    if (fd < 0)
        return false;
    child = relay->count < CHILDREN ? calloc(1, sizeof(*child)) : NULL;
    if (!child || gs_random(nonce, sizeof(nonce)) < 0 || watch(relay, fd) < 0) {
        gs_net_reset(fd);
        free(child);
        return true;
    }
    gs_net_tune(fd, DEAD_MS);
    gs_conn_open(&child->conn, fd, true, now_us);
    child->node = GS_NO_RANK;
    child->accepted_us = now_us;
    child->next = relay->children;
    relay->children = child;
    relay->count++;
    gs_conn_send(&child->conn, mac, GS_FRAME_CHALLENGE, &body);
    return true;
}

static int pass_up(struct gs_agent *agent, const struct gs_frame *frame)
{
    struct gs_buffer body = {0};
    int rc;

    gs_put_bytes(&body, frame->body, frame->size);
    rc = gs_conn_send(&agent->conn, &agent->mac, frame->type, &body);
    gs_wire_free(&body);
    return rc;
}

/* One frame of a child. Returns 0; -EBADMSG: drop it. *up: failure of our own
 * connection. */
static int on_frame(struct gs_agent *agent,
                    struct gs_relaychild *child,
                    const struct gs_frame *frame,
                    int *up)
{
    struct gs_hello hello;

    if (child->node == GS_NO_RANK) {
        if (frame->type != GS_FRAME_HELLO
            || gs_hello_decode(frame->body, frame->size, &hello, NULL) < 0)
            return -EBADMSG;
        child->node = hello.node_index;
    } else if (frame->type == GS_FRAME_HELLO) {
        return -EBADMSG; /* one hop: a child does not relay */
    }
    /* Its answer to a ping of srun that was passed down. To answer an answer would
     * never end. */
    if (frame->type == GS_FRAME_PING)
        return 0;
    if (frame->type == GS_FRAME_BYE)
        child->gone = true;
    *up = pass_up(agent, frame);
    return 0;
}

static int lost(struct gs_agent *agent, const struct gs_relaychild *child)
{
    struct gs_fail fail = {.node_index = child->node,
                           .rank = GS_NO_RANK,
                           .kind = GS_FAIL_LOST,
                           .text = "connection to the first node lost"};
    struct gs_buffer body = {0};
    int rc;

    if (child->node == GS_NO_RANK || child->gone)
        return 0;
    if (!agent->decided_us)
        return gs_agent_send_fail(agent, &fail);
    gs_index_encode(&body, child->node);
    rc = gs_conn_send(&agent->conn, &agent->mac, GS_FRAME_BYE, &body);
    gs_wire_free(&body);
    return rc;
}

/* Returns false when the child is done with. */
static bool serve(struct gs_agent *agent,
                  struct gs_relaychild *child,
                  int64_t now_us,
                  int *up)
{
    struct gs_frame frame;
    int rc = 0, end = gs_conn_fill(&child->conn, now_us);

    while (rc == 0 && *up == 0
           && (rc = gs_conn_next(&child->conn, &agent->mac, &frame)) > 0)
        rc = on_frame(agent, child, &frame, up);
    if (child->node == GS_NO_RANK && now_us > child->accepted_us + STRANGER_US)
        rc = -EBADMSG;
    return rc == 0 && end == 0 && gs_conn_flush(&child->conn) == 0;
}

int gs_relay_serve(struct gs_relay *relay, struct gs_agent *agent, int64_t now_us)
{
    struct gs_relaychild **at = &relay->children;
    int up = 0;

    if (relay->listen_fd < 0)
        return 0;
    for (int i = 0; i < 64 && welcome(relay, &agent->mac, now_us); i++)
        ;
    while (*at && up == 0) {
        struct gs_relaychild *child = *at;
        if (serve(agent, child, now_us, &up)) {
            at = &child->next;
            continue;
        }
        up = up ? up : lost(agent, child);
        *at = child->next;
        relay->count--;
        gs_conn_close(&child->conn);
        free(child);
    }
    return up;
}

static void pass_down(struct gs_relaychild *child,
                      const struct gs_mac *mac,
                      const struct gs_frame *frame)
{
    struct gs_buffer body = {0};

    gs_put_bytes(&body, frame->body, frame->size);
    gs_conn_send(&child->conn, mac, frame->type, &body);
    gs_wire_free(&body);
}

void gs_relay_all(struct gs_relay *relay,
                  const struct gs_mac *mac,
                  const struct gs_frame *frame)
{
    for (struct gs_relaychild *child = relay->children; child; child = child->next)
        if (child->node != GS_NO_RANK)
            pass_down(child, mac, frame);
}

bool gs_relay_one(struct gs_relay *relay,
                  const struct gs_mac *mac,
                  uint32_t node,
                  const struct gs_frame *frame)
{
    for (struct gs_relaychild *child = relay->children; child; child = child->next) {
        if (child->node != node)
            continue;
        pass_down(child, mac, frame);
        return true;
    }
    return false;
}
