/* root.c - see root.h. One epoll; every wait is bounded by the caller and by the
 * gang's own next moment. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock_private.h"
#include "error_private.h"
#include "net_private.h"
#include "root_private.h"
#include "story.h"
#include "wire_private.h"

#define EVENTS 256
#define WATCH_US 250000
#define STOPPED_US 1500000 /* a step later than this: the process was stopped */

static int watch(struct gs_root *root, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

    if (fd == root->listen_fd)
        event.data.ptr = &root->listen_fd;
    return epoll_ctl(root->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

struct gs_root *gs_root_create(struct gs_gang *gang,
                               const uint8_t *key,
                               int listen_fd,
                               const char *version,
                               struct gs_error *error)
{
    struct gs_root *root = calloc(1, sizeof(*root));

    if (!root) {
        gs_error_set(error, ENOMEM, "out of memory");
        close(listen_fd);
        return NULL;
    }
    root->gang = gang;
    root->listen_fd = listen_fd;
    root->misfit_us = -1;
    snprintf(root->version, sizeof(root->version), "%s", version);
    gs_mac_init(&root->mac, key);
    root->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    root->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* What is accepted inherits it: six system calls less per node. */
    gs_net_tune(listen_fd, GS_ROOT_SILENT_US / 1000 * 3);
    if (gang->node_count)
        root->by_node = calloc(gang->node_count, sizeof(*root->by_node));
    if ((gang->node_count && !root->by_node) || root->epoll_fd < 0 || root->wake_fd < 0
        || watch(root, listen_fd) < 0 || watch(root, root->wake_fd) < 0) {
        gs_error_set(
            error, errno, "the start barrier cannot be set up: %s", strerror(errno));
        gs_root_destroy(root);
        return NULL;
    }
    return root;
}

void gs_root_destroy(struct gs_root *root)
{
    if (!root)
        return;
    root->decided = true;
    while (root->peers)
        gs_peer_drop(root, root->peers, "", 0);
    close(root->listen_fd);
    if (root->epoll_fd >= 0)
        close(root->epoll_fd);
    if (root->wake_fd >= 0)
        close(root->wake_fd);
    gs_mac_wipe(&root->mac);
    free(root->by_node);
    free(root);
}

void gs_root_wake(struct gs_root *root)
{
    uint64_t one = 1;
    ssize_t put = write(root->wake_fd, &one, sizeof(one));

    (void)put; /* full: it is awake anyway */
}

void gs_root_end(struct gs_root *root, bool cancelled)
{
    atomic_store(&root->end, cancelled ? 2 : 1);
    gs_root_wake(root);
}

static void drain_wake(struct gs_root *root)
{
    uint64_t value;

    while (read(root->wake_fd, &value, sizeof(value)) > 0)
        ;
}

static int wait_ms(const struct gs_root *root, int max_wait_ms, int64_t now_us)
{
    int64_t next = gs_gang_next_us(root->gang), left = max_wait_ms;

    if (next >= 0 && (next - now_us + 999) / 1000 < left)
        left = (next - now_us + 999) / 1000;
    if (root->peers && left > WATCH_US / 1000)
        left = WATCH_US / 1000;
    return left < 0 ? 0 : (int)left;
}

/* A stopped srun (Ctrl-Z, a debugger) hears nothing and must not blame the nodes. */
static void notice_stop(struct gs_root *root, int64_t now_us)
{
    int64_t gap = root->step_us ? now_us - root->step_us : 0;

    root->step_us = now_us;
    if (gap < STOPPED_US)
        return;
    gs_gang_stretch(root->gang, gap);
    for (struct gs_peer *p = root->peers; p; p = p->next)
        p->conn.heard_us = p->accepted_us = now_us;
}

/* All events of a batch belong to living peers: a handler drops only its own. */
static void handle(struct gs_root *root, int max_wait_ms)
{
    struct epoll_event events[EVENTS];
    int64_t now_us = gs_clock_now_us();
    int count =
        epoll_wait(root->epoll_fd, events, EVENTS, wait_ms(root, max_wait_ms, now_us));
    bool accept = false;

    now_us = gs_clock_now_us();
    /* Before the events: what comes in only now must not count as having waited. */
    notice_stop(root, now_us);
    for (int i = 0; i < count; i++) {
        void *ptr = events[i].data.ptr;
        if (ptr == NULL)
            drain_wake(root);
        else if (ptr == &root->listen_fd)
            accept = true;
        else
            gs_peer_event(root, ptr, events[i].events, now_us);
    }
    /* After the others: making room may drop a stranger whose event is in the batch. */
    if (accept)
        gs_peers_accept(root, now_us);
}

/* Everything but reports is for all nodes alike: a peer that relays passes it on. */
static void tell_go(struct gs_root *root, int64_t now_us)
{
    struct gs_go go = {.master_port = root->master.port, .t0_us = gs_clock_wall_us()};
    struct gs_buffer body = {0};

    snprintf(go.master_addr, sizeof(go.master_addr), "%s", gs_root_master_addr(root));
    gs_go_encode(&body, &go);
    for (struct gs_peer *peer = root->peers; peer; peer = peer->next)
        if (peer->node != GS_NO_RANK)
            gs_peer_send(root, peer, GS_FRAME_GO, &body, now_us);
    gs_wire_free(&body);
}

void gs_root_abort(struct gs_root *root, struct gs_peer *peer, int64_t now_us)
{
    const struct gs_gang *gang = root->gang;
    struct gs_abort abort = {.code = gang->outcome == GS_CANCELLED ? 143 : gang->code};
    struct gs_buffer body = {0};

    snprintf(abort.text,
             sizeof(abort.text),
             "%s",
             gang->outcome == GS_CANCELLED ? "cancelled"
                                           : gs_refusal_name(gang->reason));
    gs_abort_encode(&body, &abort);
    gs_peer_send(root, peer, GS_FRAME_ABORT, &body, now_us);
    gs_wire_free(&body);
}

static void tell(struct gs_root *root, int64_t now_us)
{
    root->decided = true;
    root->ending_us = now_us;
    if (root->gang->outcome == GS_RELEASED) {
        tell_go(root, now_us);
        return;
    }
    for (struct gs_peer *peer = root->peers; peer; peer = peer->next)
        if (peer->node != GS_NO_RANK)
            gs_root_abort(root, peer, now_us);
}

bool gs_root_all_gone(const struct gs_root *root)
{
    return root->gang->node_count && root->goodbye_count >= root->gang->node_count;
}

static bool is_done(const struct gs_root *root, int64_t now_us)
{
    return !root->open_count || now_us > root->ending_us + GS_ROOT_END_US;
}

/* Nothing is judged any more but what a node gives as the reason. */
static void end(struct gs_root *root, int64_t now_us)
{
    bool cancelled = atomic_load(&root->end) == 2;

    if (!root->end_us)
        root->end_us = now_us;
    if (cancelled || now_us > root->end_us + GS_ROOT_LAST_US)
        gs_gang_end(root->gang, cancelled, now_us);
}

enum gs_rootevent gs_root_step(struct gs_root *root, int max_wait_ms)
{
    int64_t now_us;

    handle(root, max_wait_ms);
    now_us = gs_clock_now_us();
    if (now_us > root->watch_us + WATCH_US) {
        root->watch_us = now_us;
        gs_peers_watch(root, now_us);
    }
    if (root->decided)
        return is_done(root, now_us) ? GS_ROOT_DONE : GS_ROOT_ENDING;
    if (atomic_load(&root->end)) {
        end(root, now_us);
    } else {
        gs_root_next_candidate(root, now_us);
        gs_gang_tick(root->gang, now_us);
    }
    if (root->gang->outcome == GS_WAITING)
        return GS_ROOT_WAITING;
    gs_gang_name_rest(root->gang);
    if (root->before_tell)
        root->before_tell(root->before_tell_arg);
    tell(root, now_us);
    return GS_ROOT_DECIDED;
}

uint32_t gs_root_keeper(const struct gs_root *root)
{
    if (!root->by_node)
        return GS_NO_RANK;

    uint32_t node = root->gang->task_count ? root->gang->tasks[0].node : GS_NO_RANK;

    if (node < root->gang->node_count && root->by_node[node])
        return node;
    for (node = 0; node < root->gang->node_count; node++)
        if (root->by_node[node])
            return node;
    return GS_NO_RANK;
}

static void send_piece(
    struct gs_root *root, uint32_t node, const char *piece, size_t size, int64_t now_us)
{
    struct gs_buffer body = {0};

    gs_index_encode(&body, node);
    gs_put_bytes(&body, piece, size);
    gs_peer_send(root, root->by_node[node], GS_FRAME_REPORT, &body, now_us);
    gs_wire_free(&body);
}

void gs_root_send_report(struct gs_root *root, uint32_t node, const char *report)
{
    size_t size = strlen(report);
    int64_t now_us = gs_clock_now_us();

    if (!root->by_node || !root->by_node[node])
        return;
    for (size_t at = 0; at < size; at += GS_ROOT_PIECE)
        send_piece(root,
                   node,
                   report + at,
                   size - at < GS_ROOT_PIECE ? size - at : GS_ROOT_PIECE,
                   now_us);
    send_piece(root, node, "", 0, now_us);
}
