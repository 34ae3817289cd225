/* relay_private.h - the first node's second role: a way for nodes that cannot reach
 * srun.
 *
 * It listens from the beginning. If its own connection to srun stands, it passes their
 * frames on and the decision back; if it has none either, the listening socket is given
 * to a decider (decider_private.h) and everybody, this node included, connects there.
 * A start needs all nodes at one decider, so two can never both release. */
#ifndef GS_RELAY_PRIVATE_H
#define GS_RELAY_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "conn_private.h"

struct gs_relaychild {
    struct gs_conn conn;
    uint32_t node; /* GS_NO_RANK until its hello is verified */
    bool gone;
    int64_t accepted_us;
    struct gs_relaychild *next;
};

struct gs_relay {
    int listen_fd, epoll_fd; /* -1 = not open; epoll_fd is ready when anything is */
    uint16_t port;
    uint32_t count, strangers; /* children, and how many of them have no node */
    struct gs_relaychild *children;
};

struct gs_agent;

void gs_relay_init(struct gs_relay *relay);
/* Listens on the first of two ports that is free. Returns 0 or -errno. */
int gs_relay_open(struct gs_relay *relay, const uint16_t ports[2]);
/* Hands the listening socket over (to a decider); -1 if there is none. */
int gs_relay_give(struct gs_relay *relay);
void gs_relay_close(struct gs_relay *relay);

/* Takes in children and passes their frames to agent's connection. Returns 0 or the
 * -errno of that connection. */
int gs_relay_serve(struct gs_relay *relay, struct gs_agent *agent, int64_t now_us);

/* Passes a frame of the deciding side down: to all, or to the one it names (false if
 * that is none of ours). */
void gs_relay_all(struct gs_relay *relay,
                  const struct gs_mac *mac,
                  const struct gs_frame *frame);
bool gs_relay_one(struct gs_relay *relay,
                  const struct gs_mac *mac,
                  uint32_t node,
                  const struct gs_frame *frame);

#endif
