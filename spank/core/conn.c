/* conn.c - see conn_private.h. Bytes of a peer that has not proven the key yet are
 * only counted, never interpreted beyond the fixed header. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn_private.h"

#define FRAME_SIZE(body) (GS_HEADER_SIZE + (body) + GS_MAC_SIZE)
#define FIRST_ROOM 256 /* a hello and the arrivals of a usual node fit */

void gs_conn_open(struct gs_conn *conn, int fd, bool is_root, int64_t now_us)
{
    memset(conn, 0, sizeof(*conn));
    conn->fd = fd;
    conn->is_root = is_root;
    conn->heard_us = now_us;
}

void gs_conn_close(struct gs_conn *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    free(conn->in);
    free(conn->out);
    memset(conn, 0, sizeof(*conn));
    conn->fd = -1;
}

static int grow(uint8_t **data, size_t *room, size_t need)
{
    uint8_t *more;

    if (need <= *room)
        return 0;
    need = need < FIRST_ROOM ? FIRST_ROOM : need;
    more = realloc(*data, need);
    if (!more)
        return -ENOMEM;
    *data = more;
    *room = need;
    return 0;
}

/* Bytes of the frame that starts at in_at, 0 = header not complete, < 0 = nonsense. */
static ssize_t frame_size(const struct gs_conn *conn, struct gs_header *ret_header)
{
    if (conn->in_size - conn->in_at < GS_HEADER_SIZE)
        return 0;
    if (gs_header_decode(conn->in + conn->in_at, ret_header) < 0)
        return -EBADMSG;
    return (ssize_t)FRAME_SIZE(ret_header->size);
}

int gs_conn_fill(struct gs_conn *conn, int64_t now_us)
{
    struct gs_header header;
    ssize_t want = 0, got;

    if (conn->in_at) {
        memmove(conn->in, conn->in + conn->in_at, conn->in_size - conn->in_at);
        conn->in_size -= conn->in_at;
        conn->in_at = 0;
    }
    want = frame_size(conn, &header);
    if (want < 0)
        return -EBADMSG;
    if (grow(&conn->in, &conn->in_room, (size_t)want) < 0
        || grow(&conn->in, &conn->in_room, FIRST_ROOM) < 0)
        return -ENOMEM;
    if (conn->in_size == conn->in_room)
        return 0;
    got = recv(conn->fd, conn->in + conn->in_size, conn->in_room - conn->in_size, 0);
    if (got == 0)
        return -ECONNRESET;
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    conn->in_size += (size_t)got;
    conn->heard_us = now_us;
    return 0;
}

static void seal(const struct gs_conn *conn,
                 const struct gs_mac *mac,
                 bool from_root,
                 const uint8_t *frame,
                 size_t size,
                 uint8_t *ret_sum)
{
    uint8_t head[1 + 2 * GS_NONCE_SIZE] = {from_root ? 'R' : 'N'};

    memcpy(head + 1, conn->nonce_root, GS_NONCE_SIZE);
    memcpy(head + 1 + GS_NONCE_SIZE, conn->nonce_node, GS_NONCE_SIZE);
    gs_mac_sum(mac, head, sizeof(head), frame, size, ret_sum);
}

/* The challenge brings the root's nonce, the hello the node's. Each is the first frame
 * of its direction, has the nonce first in its body, and is sealed without it. */
static void adopt_nonce(struct gs_conn *conn,
                        uint32_t nth,
                        const struct gs_frame *frame)
{
    if (nth != 1 || frame->size < GS_NONCE_SIZE)
        return;
    if (frame->type == GS_FRAME_CHALLENGE)
        memcpy(conn->nonce_root, frame->body, GS_NONCE_SIZE);
    if (frame->type == GS_FRAME_HELLO)
        memcpy(conn->nonce_node, frame->body, GS_NONCE_SIZE);
}

int gs_conn_next(struct gs_conn *conn,
                 const struct gs_mac *mac,
                 struct gs_frame *ret_frame)
{
    struct gs_header header;
    ssize_t size = frame_size(conn, &header);
    const uint8_t *frame = conn->in + conn->in_at;
    uint8_t sum[GS_MAC_SIZE];

    if (size < 0)
        return -EBADMSG;
    if (size == 0 || conn->in_size - conn->in_at < (size_t)size)
        return 0;
    seal(conn, mac, !conn->is_root, frame, (size_t)size - GS_MAC_SIZE, sum);
    if (!gs_mac_equal(sum, frame + size - GS_MAC_SIZE)
        || header.sequence != conn->received)
        return -EBADMSG;
    conn->received++;
    conn->in_at += (size_t)size;
    ret_frame->type = header.type;
    ret_frame->body = frame + GS_HEADER_SIZE;
    ret_frame->size = header.size;
    adopt_nonce(conn, conn->received, ret_frame);
    return 1;
}

int gs_conn_queue(struct gs_conn *conn,
                  const struct gs_mac *mac,
                  uint8_t type,
                  const struct gs_buffer *body)
{
    struct gs_header header = {.type = type, .sequence = conn->sent};
    struct gs_frame frame = {.type = type};
    uint8_t *at;

    if (conn->fd < 0)
        return -ENOTCONN;
    if (body && body->failed)
        return -ENOMEM;
    header.size = body ? (uint32_t)body->size : 0;
    if (conn->out_size + FRAME_SIZE(header.size) > GS_CONN_QUEUE)
        return -ENOBUFS;
    if (grow(&conn->out, &conn->out_room, conn->out_size + FRAME_SIZE(header.size)) < 0)
        return -ENOMEM;
    at = conn->out + conn->out_size;
    gs_header_encode(at, &header);
    if (header.size)
        memcpy(at + GS_HEADER_SIZE, body->data, header.size);
    frame.body = at + GS_HEADER_SIZE;
    frame.size = header.size;
    seal(conn,
         mac,
         conn->is_root,
         at,
         GS_HEADER_SIZE + header.size,
         at + GS_HEADER_SIZE + header.size);
    conn->out_size += FRAME_SIZE(header.size);
    adopt_nonce(conn, ++conn->sent, &frame);
    return 0;
}

int gs_conn_send(struct gs_conn *conn,
                 const struct gs_mac *mac,
                 uint8_t type,
                 const struct gs_buffer *body)
{
    int rc = gs_conn_queue(conn, mac, type, body);

    return rc < 0 ? rc : gs_conn_flush(conn);
}

int gs_conn_flush(struct gs_conn *conn)
{
    while (conn->out_at < conn->out_size) {
        ssize_t put = send(conn->fd,
                           conn->out + conn->out_at,
                           conn->out_size - conn->out_at,
                           MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno == EAGAIN ? 0 : -errno;
        conn->out_at += (size_t)put;
    }
    conn->out_at = conn->out_size = 0;
    return 0;
}

bool gs_conn_pending(const struct gs_conn *conn)
{
    return conn->out_at < conn->out_size;
}
