/* root_peer.c - the root's connections: hellos, frames, signs of life.
 *
 * A peer that breaks the rules is dropped; before its hello that concerns nobody,
 * after it the node counts as lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "clock_private.h"
#include "error_private.h"
#include "net_private.h"
#include "root_private.h"

static void watch_out(struct gs_root *root, struct gs_peer *peer)
{
    bool pending = gs_conn_pending(&peer->conn);
    struct epoll_event event = {.events = pending ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                .data.ptr = peer};

    if (pending == peer->watching_out)
        return;
    peer->watching_out = pending;
    epoll_ctl(root->epoll_fd, EPOLL_CTL_MOD, peer->conn.fd, &event);
}

bool gs_peer_speaks_for(const struct gs_root *root,
                        const struct gs_peer *peer,
                        uint32_t node)
{
    return node < root->gang->node_count && root->by_node[node] == peer;
}

static void forget(struct gs_root *root, struct gs_peer *peer)
{
    if (peer->node == GS_NO_RANK)
        root->stranger_count--;
    if (peer->previous)
        peer->previous->next = peer->next;
    else
        root->peers = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    gs_conn_close(&peer->conn);
    free(peer);
}

/* A node will say nothing more: before the decision it is lost, after it gone. */
static void node_left(struct gs_root *root,
                      uint32_t node,
                      const char *why,
                      int64_t now_us)
{
    root->by_node[node] = NULL;
    root->open_count -= !root->gang->nodes[node].gone;
    if ((root->decided || root->gang->nodes[node].ended)
        && !root->gang->nodes[node].gone) {
        root->goodbye_count++;
        root->gang->nodes[node].gone = true;
    }
    if (!root->decided)
        gs_gang_lost(root->gang, node, why, now_us);
}

void gs_peer_drop(struct gs_root *root,
                  struct gs_peer *peer,
                  const char *why,
                  int64_t now_us)
{
    uint32_t left = peer->node_count;

    if (left && root->by_node[peer->node] == peer) {
        node_left(root, peer->node, why, now_us);
        left--;
    }
    for (uint32_t i = 0; left && i < root->gang->node_count; i++)
        if (root->by_node[i] == peer) {
            node_left(root, i, why, now_us);
            left--;
        }
    forget(root, peer);
}

void gs_peer_send(struct gs_root *root,
                  struct gs_peer *peer,
                  uint8_t type,
                  const struct gs_buffer *body,
                  int64_t now_us)
{
    /* A failure shows up as an event on the socket, where the peer is dropped. */
    (void)now_us;
    if (gs_conn_send(&peer->conn, &root->mac, type, body) == 0)
        watch_out(root, peer);
}

static int refuse_version(struct gs_root *root,
                          const struct gs_hello *hello,
                          int64_t now_us)
{
    struct gs_fail fail = {
        .node_index = hello->node_index, .rank = GS_NO_RANK, .kind = GS_FAIL_CONFIG};
    struct gs_error error;

    gs_error_set(
        &error,
        EPROTO,
        "the plugin is %s on %s and %s in srun: install one version everywhere",
        hello->version,
        hello->node_name,
        root->version);
    memcpy(fail.text, error.text, sizeof(fail.text));
    return gs_gang_fail(root->gang, &fail, now_us);
}

/* Room for the nodes, as soon as their number is known. */
static bool has_table(struct gs_root *root)
{
    if (!root->by_node && root->gang->node_count)
        root->by_node = calloc(root->gang->node_count, sizeof(*root->by_node));
    return root->by_node != NULL;
}

static void note_address(struct gs_root *root,
                         const struct gs_peer *peer,
                         const struct gs_hello *hello,
                         int64_t now_us)
{
    struct gs_node *node = &root->gang->nodes[hello->node_index];
    int64_t rtt_us = now_us - peer->challenged_us;

    gs_net_peer_text(peer->conn.fd, node->address);
    node->hello_rtt_us = rtt_us;
    if (hello->wall_us >= 0)
        node->clock_offset_us = hello->wall_us - (gs_clock_wall_us() - rtt_us / 2);
}

/* The first hello of a connection is its own; further ones are of nodes it relays. */
static int on_hello(struct gs_root *root,
                    struct gs_peer *peer,
                    const struct gs_frame *frame,
                    int64_t now_us)
{
    struct gs_hello hello;
    struct gs_error error;
    bool own = peer->node == GS_NO_RANK;
    int rc = gs_hello_decode(frame->body, frame->size, &hello, &error);

    if (rc == 0 && !root->decided)
        rc = gs_gang_hello(root->gang, &hello, now_us, &error);
    if (rc < 0 || !has_table(root) || hello.node_index >= root->gang->node_count
        || root->by_node[hello.node_index])
        return rc < 0 ? rc : -EBADMSG;
    root->by_node[hello.node_index] = peer;
    root->open_count++;
    peer->node_count++;
    if (own) {
        root->stranger_count--;
        peer->node = hello.node_index;
    }
    if (root->decided) { /* too late: it must not keep its tasks waiting */
        gs_root_abort(root, peer, now_us);
        return 0;
    }
    if (own)
        note_address(root, peer, &hello, now_us);
    if (strcmp(hello.version, root->version) != 0)
        return refuse_version(root, &hello, now_us);
    gs_root_probe(root, peer, now_us);
    return 0;
}

static int on_arrived(struct gs_root *root,
                      const struct gs_peer *peer,
                      const struct gs_frame *frame,
                      int64_t now_us)
{
    uint32_t node;
    int count = gs_arrivals_count(frame->body, frame->size, &node);

    if (count < 0 || !gs_peer_speaks_for(root, peer, node))
        return -EBADMSG;
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        struct gs_arrival one;
        gs_arrivals_get(frame->body, i, &one);
        if (gs_gang_arrive(root->gang, node, one.rank, one.claim, now_us - one.age_us)
            < 0)
            return -EBADMSG;
        root->gang->tasks[one.rank].visible = one.visible;
        root->gang->tasks[one.rank].program = one.program;
        root->gang->tasks[one.rank].apart = one.apart != 0;
    }
    return 0;
}

static int on_state(struct gs_root *root,
                    const struct gs_peer *peer,
                    const struct gs_frame *frame,
                    int64_t now_us)
{
    struct gs_state state;
    int rc = gs_state_decode(frame->body, frame->size, &state, NULL);

    if (rc < 0 || !gs_peer_speaks_for(root, peer, state.node_index))
        return -EBADMSG;
    gs_gang_state(root->gang, &state, now_us);
    return 0;
}

static int on_health(struct gs_root *root,
                     const struct gs_peer *peer,
                     const struct gs_frame *frame,
                     int64_t now_us)
{
    struct gs_healthmsg health;
    int rc = gs_healthmsg_decode(frame->body, frame->size, &health, NULL);

    if (rc < 0 || !gs_peer_speaks_for(root, peer, health.node_index))
        return -EBADMSG;
    return root->decided ? 0 : gs_gang_health(root->gang, &health, now_us);
}

static int on_fail(struct gs_root *root,
                   const struct gs_peer *peer,
                   const struct gs_frame *frame,
                   int64_t now_us)
{
    struct gs_fail fail;
    int rc = gs_fail_decode(frame->body, frame->size, &fail, NULL);

    if (rc < 0)
        return rc;
    return gs_peer_speaks_for(root, peer, fail.node_index)
               ? gs_gang_fail(root->gang, &fail, now_us)
               : -EBADMSG;
}

static int on_bye(struct gs_root *root,
                  const struct gs_peer *peer,
                  const struct gs_frame *frame)
{
    uint32_t node;

    if (gs_index_decode(frame->body, frame->size, &node) < 0
        || !gs_peer_speaks_for(root, peer, node))
        return -EBADMSG;
    if (!root->gang->nodes[node].gone) {
        root->goodbye_count++;
        root->open_count--;
    }
    root->gang->nodes[node].gone = true;
    return 0;
}

static int on_frame(struct gs_root *root,
                    struct gs_peer *peer,
                    const struct gs_frame *frame,
                    int64_t now_us)
{
    if (peer->node == GS_NO_RANK)
        return frame->type == GS_FRAME_HELLO ? on_hello(root, peer, frame, now_us)
                                             : -EBADMSG;
    switch (frame->type) {
    case GS_FRAME_ARRIVED:
        return on_arrived(root, peer, frame, now_us);
    case GS_FRAME_FAIL:
        return on_fail(root, peer, frame, now_us);
    case GS_FRAME_STATE:
        return on_state(root, peer, frame, now_us);
    case GS_FRAME_HEALTH:
        return on_health(root, peer, frame, now_us);
    case GS_FRAME_MASTER:
        return gs_root_on_master(root, peer, frame, now_us);
    case GS_FRAME_REACH:
        return gs_root_on_reach(root, peer, frame, now_us);
    case GS_FRAME_PING:
        return 0;
    case GS_FRAME_BYE:
        return on_bye(root, peer, frame);
    case GS_FRAME_HELLO:
        return on_hello(root, peer, frame, now_us);
    default:
        return -EBADMSG;
    }
}

void gs_peer_event(struct gs_root *root,
                   struct gs_peer *peer,
                   uint32_t events,
                   int64_t now_us)
{
    struct gs_frame frame;
    struct gs_error why;
    int end = 0, rc = 0;

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        end = gs_conn_fill(&peer->conn, now_us);
    while (rc == 0 && (rc = gs_conn_next(&peer->conn, &root->mac, &frame)) > 0)
        rc = on_frame(root, peer, &frame, now_us);
    if (rc == 0 && end == 0)
        rc = gs_conn_flush(&peer->conn);
    if (rc == 0 && end == 0) {
        watch_out(root, peer);
        return;
    }
    gs_error_set(&why,
                 0,
                 "%s",
                 rc == -EBADMSG ? "its frames break the protocol"
                                : strerror(rc ? -rc : -end));
    gs_peer_drop(root, peer, why.text, now_us);
}

static void watch_one(struct gs_root *root, struct gs_peer *peer, int64_t now_us)
{
    struct gs_error why;
    int64_t silent_us = now_us - peer->conn.heard_us;

    if (peer->node == GS_NO_RANK) {
        if (now_us > peer->accepted_us + GS_ROOT_STRANGER_US)
            gs_peer_drop(root, peer, "", now_us);
        return;
    }
    root->gang->nodes[peer->node].silent_us =
        silent_us > GS_ROOT_SILENT_US ? peer->conn.heard_us : -1;
    if (root->decided || silent_us <= GS_ROOT_SILENT_US
        || gs_net_unacked_ms(peer->conn.fd) < GS_ROOT_SILENT_US / 1000 - 500)
        return;
    gs_error_set(
        &why,
        0,
        "nothing heard for %lld s and nothing acknowledged: node down or cut off",
        (long long)silent_us / 1000000);
    gs_peer_drop(root, peer, why.text, now_us);
}

void gs_peers_watch(struct gs_root *root, int64_t now_us)
{
    bool ping = !root->decided && now_us > root->ping_us + GS_ROOT_PING_US;
    struct gs_peer *next;

    if (ping)
        root->ping_us = now_us;
    for (struct gs_peer *peer = root->peers; peer; peer = next) {
        next = peer->next;
        /* Who has just spoken lives: in a large start that is nearly everybody. */
        if (ping && peer->node != GS_NO_RANK
            && now_us > peer->conn.heard_us + GS_ROOT_PING_US)
            gs_peer_send(root, peer, GS_FRAME_PING, NULL, now_us);
        watch_one(root, peer, now_us);
    }
}
