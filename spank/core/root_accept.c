/* root_accept.c - the root's door: who connects is a stranger until its hello. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "net_private.h"
#include "root_private.h"

#define PAUSE_MS 10 /* when srun itself holds every descriptor it may have */

static void drop_oldest_stranger(struct gs_root *root, int64_t now_us)
{
    struct gs_peer *oldest = NULL;

    for (struct gs_peer *p = root->peers; p; p = p->next)
        if (p->node == GS_NO_RANK)
            oldest = p;
    if (oldest)
        gs_peer_drop(root, oldest, "", now_us);
}

static void welcome(struct gs_root *root, int fd, int64_t now_us)
{
    struct gs_peer *peer = calloc(1, sizeof(*peer));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    struct gs_buffer body = {0};
    uint8_t nonce[GS_NONCE_SIZE];

    if (!peer || gs_random(nonce, sizeof(nonce)) < 0
        || epoll_ctl(root->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        gs_net_reset(fd);
        free(peer);
        return;
    }
    gs_conn_open(&peer->conn, fd, true, now_us);
    peer->node = GS_NO_RANK;
    peer->accepted_us = peer->challenged_us = now_us;
    peer->next = root->peers;
    if (root->peers)
        root->peers->previous = peer;
    root->peers = peer;
    root->stranger_count++;
    body.data = nonce;
    body.size = sizeof(nonce);
    gs_peer_send(root, peer, GS_FRAME_CHALLENGE, &body, now_us);
}

/* Every node that is missing may be among the strangers: all of a large step connect
 * before the first one's hello is read. */
static uint32_t strangers_max(const struct gs_root *root)
{
    return GS_ROOT_STRANGERS + root->gang->node_count - root->gang->connected_count;
}

/* accept() failed for want of a descriptor, which it does with an empty queue too. A
 * connection that stays in the queue would wake us again at once. */
static void make_room(struct gs_root *root, int64_t now_us)
{
    struct pollfd queue = {.fd = root->listen_fd, .events = POLLIN};

    if (poll(&queue, 1, 0) <= 0)
        return;
    if (root->stranger_count)
        drop_oldest_stranger(root, now_us);
    else
        poll(NULL, 0, PAUSE_MS);
}

void gs_peers_accept(struct gs_root *root, int64_t now_us)
{
    /* As much as can wait, since a full queue costs others 1 s; but a crowd must not
     * drive out who came with it before that one had a chance to say a word. */
    for (uint32_t n = 0; n < strangers_max(root) / 2; n++) {
        int fd = gs_net_accept(root->listen_fd);
        if (fd == -EMFILE || fd == -ENFILE) {
            make_room(root, now_us);
            return;
        }
        if (fd < 0)
            return;
        if (root->stranger_count >= strangers_max(root))
            drop_oldest_stranger(root, now_us);
        welcome(root, fd, now_us);
    }
}
