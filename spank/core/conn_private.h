/* conn_private.h - one sealed, framed connection over a non-blocking socket. */
#ifndef GS_CONN_PRIVATE_H
#define GS_CONN_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define GS_CONN_QUEUE (32 << 20) /* bytes not taken by the peer: more it never gets */

struct gs_conn {
    int fd;
    bool is_root; /* our side is the one that decides */
    uint8_t nonce_root[GS_NONCE_SIZE];
    uint8_t nonce_node[GS_NONCE_SIZE]; /* zero until the hello is sent or verified */
    uint32_t sent, received;           /* frames; the sequence numbers */
    int64_t heard_us;                  /* last byte from the peer */
    uint8_t *in, *out;
    size_t in_at, in_size, in_room;
    size_t out_at, out_size, out_room;
};

struct gs_frame {
    uint8_t type;
    const uint8_t *body; /* valid until the next gs_conn_fill() */
    size_t size;
};

/* Takes over fd. */
void gs_conn_open(struct gs_conn *conn, int fd, bool is_root, int64_t now_us);
/* Closes and frees; a conn that was never opened must have fd -1. Idempotent. */
void gs_conn_close(struct gs_conn *conn);

/* Reads what is there. Returns 0 (also when nothing was there), -ECONNRESET at the
 * end of the stream, or another -errno. */
int gs_conn_fill(struct gs_conn *conn, int64_t now_us);

/* The next complete and verified frame: 1; 0 = none yet; -EBADMSG: the peer does not
 * hold the key, replays, or talks nonsense; drop it. A hello's nonce is adopted. */
int gs_conn_next(struct gs_conn *conn,
                 const struct gs_mac *mac,
                 struct gs_frame *ret_frame);

/* Seals and queues a frame, to be sent together with the next one or by a flush.
 * Returns 0 or -errno (the connection is then useless). body may be a failed buffer:
 * -ENOMEM. -ENOBUFS: the peer has not read for long; nothing was queued. */
int gs_conn_queue(struct gs_conn *conn,
                  const struct gs_mac *mac,
                  uint8_t type,
                  const struct gs_buffer *body);

/* The same, then tries to send. */
int gs_conn_send(struct gs_conn *conn,
                 const struct gs_mac *mac,
                 uint8_t type,
                 const struct gs_buffer *body);

/* Sends what is queued. Returns 0 or -errno. */
int gs_conn_flush(struct gs_conn *conn);

/* Whether something is queued: wait for POLLOUT. */
bool gs_conn_pending(const struct gs_conn *conn);

#endif
