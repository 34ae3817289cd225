/* root_private.h - the root's tables, shared by root.c, root_peer.c, root_master.c. */
#ifndef GS_ROOT_PRIVATE_H
#define GS_ROOT_PRIVATE_H

#include <stdatomic.h>

#include "conn_private.h"
#include "root.h"

struct gs_peer {
    struct gs_conn conn;
    uint32_t node;         /* its own; GS_NO_RANK until its hello is verified */
    uint32_t node_count;   /* it speaks for: more than 1 if it relays */
    int64_t accepted_us;   /* or since when srun runs again */
    int64_t challenged_us; /* its hello is the answer: a round trip */
    bool watching_out;     /* epoll waits for room to send */
    struct gs_peer *next, *previous;
};

struct gs_root {
    struct gs_gang *gang;
    struct gs_mac mac;
    char version[32];
    int listen_fd, epoll_fd, wake_fd;
    struct gs_peer *peers; /* newest first */
    uint32_t stranger_count;
    struct gs_peer **by_node;
    uint32_t open_count; /* nodes that have a peer and did not say goodbye */
    uint32_t goodbye_count;
    int64_t ping_us, watch_us, step_us, ending_us, end_us;
    bool decided, told;
    bool have_master;
    struct gs_master master;
    uint32_t candidate, round;
    int64_t misfit_us;              /* first failed probe of this round, -1 = none */
    void (*before_tell)(void *arg); /* NULL = nothing; the decision is made */
    void *before_tell_arg;
    _Atomic int end; /* 0, 1 = ended by Slurm, 2 = cancelled */
};

/* Tells one node that the start is refused or cancelled. */
void gs_root_abort(struct gs_root *root, struct gs_peer *peer, int64_t now_us);

/* Peers: root_peer.c. A peer speaks for its own node and for those it relays. */
bool gs_peer_speaks_for(const struct gs_root *root,
                        const struct gs_peer *peer,
                        uint32_t node);
void gs_peers_accept(struct gs_root *root, int64_t now_us);
void gs_peer_event(struct gs_root *root,
                   struct gs_peer *peer,
                   uint32_t events,
                   int64_t now_us);
void gs_peer_send(struct gs_root *root,
                  struct gs_peer *peer,
                  uint8_t type,
                  const struct gs_buffer *body,
                  int64_t now_us);
void gs_peer_drop(struct gs_root *root,
                  struct gs_peer *peer,
                  const char *why,
                  int64_t now_us);
void gs_peers_watch(struct gs_root *root, int64_t now_us);

/* Rank 0's node: root_master.c. */
int gs_root_on_master(struct gs_root *root,
                      const struct gs_peer *peer,
                      const struct gs_frame *frame,
                      int64_t now_us);
int gs_root_on_reach(struct gs_root *root,
                     const struct gs_peer *peer,
                     const struct gs_frame *frame,
                     int64_t now_us);
void gs_root_probe(struct gs_root *root, struct gs_peer *peer, int64_t now_us);
void gs_root_next_candidate(struct gs_root *root, int64_t now_us);

#endif
