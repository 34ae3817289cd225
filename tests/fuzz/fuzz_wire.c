/* fuzz_wire.c - frames. First byte: what the rest is.
 *
 *   0 a header and a body, given to every decoder: what is taken is encoded again to
 *     the same bytes
 *   1 a stream from a stranger: nothing of it becomes a frame
 *   2 a conversation between two that hold the key, of which one byte is changed on the
 *     way: what comes before it arrives as it was sent, it and what follows never */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn_private.h"
#include "fuzz.h"

#define FRAMES 64

static const uint8_t key[GS_KEY_SIZE] = "a key that strangers do not have";

static void same(struct gs_buffer *buffer, const uint8_t *body, size_t size)
{
    MUST(!buffer->failed && buffer->size == size);
    MUST(size == 0 || memcmp(buffer->data, body, size) == 0);
    gs_wire_free(buffer);
}

static void read_hello(const uint8_t *body, size_t size)
{
    static uint32_t ranks[GS_BODY_MAX / 4];
    struct gs_buffer buffer = {0};
    struct gs_hello hello;

    if (gs_hello_decode(body, size, &hello, NULL) < 0)
        return;
    for (uint32_t i = 0; i < hello.rank_count; i++)
        ranks[i] = gs_hello_rank(&hello, i);
    gs_hello_encode(&buffer, &hello, ranks);
    same(&buffer, body, size);
}

static void read_arrivals(const uint8_t *body, size_t size)
{
    static struct gs_arrival arrivals[GS_BODY_MAX / 24];
    struct gs_buffer buffer = {0};
    uint32_t node;
    int count = gs_arrivals_count(body, size, &node);

    if (count < 0)
        return;
    for (uint32_t i = 0; i < (uint32_t)count; i++)
        gs_arrivals_get(body, i, &arrivals[i]);
    gs_arrivals_encode(&buffer, node, arrivals, (uint32_t)count);
    same(&buffer, body, size);
}

#define READ(name)                                                                     \
    static void read_##name(const uint8_t *body, size_t size)                          \
    {                                                                                  \
        struct gs_buffer buffer = {0};                                                 \
        struct gs_##name value;                                                        \
                                                                                       \
        if (gs_##name##_decode(body, size, &value, NULL) < 0)                          \
            return;                                                                    \
        gs_##name##_encode(&buffer, &value);                                           \
        same(&buffer, body, size);                                                     \
    }
READ(fail)
READ(master)
READ(probe)
READ(reach)
READ(go)
READ(abort)
READ(state)
READ(healthmsg)

static void read_all(const uint8_t *data, size_t size)
{
    uint8_t written[GS_HEADER_SIZE];
    struct gs_header header;
    uint32_t node;

    if (size < GS_HEADER_SIZE)
        return;
    if (gs_header_decode(data, &header) == 0) {
        gs_header_encode(written, &header);
        MUST(memcmp(written, data, sizeof(written)) == 0);
    }
    data += GS_HEADER_SIZE;
    size -= GS_HEADER_SIZE;
    read_hello(data, size);
    read_arrivals(data, size);
    read_fail(data, size);
    read_master(data, size);
    read_probe(data, size);
    read_reach(data, size);
    read_go(data, size);
    read_abort(data, size);
    read_state(data, size);
    read_healthmsg(data, size);
    if (gs_index_decode(data, size, &node) == 0)
        MUST(size >= 4);
}

static void make_pair(int ends[2])
{
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
}

static void listen_to_stranger(const uint8_t *data, size_t size)
{
    struct gs_mac mac;
    struct gs_conn conn;
    struct gs_frame frame;
    int ends[2], rc = 0;

    make_pair(ends);
    gs_mac_init(&mac, key);
    gs_conn_open(&conn, ends[0], true, 0);
    for (size_t at = 0, n; rc == 0 && at < size; at += n) {
        n = size - at < 1 + data[at] ? size - at : 1 + data[at];
        MUST(write(ends[1], data + at, n) == (ssize_t)n);
        rc = gs_conn_fill(&conn, 0);
        if (rc == 0)
            rc = gs_conn_next(&conn, &mac, &frame);
        MUST(rc <= 0);
    }
    gs_conn_close(&conn);
    close(ends[1]);
}

struct sent {
    uint8_t type;
    const uint8_t *body;
    size_t size, end; /* where it ends in the stream */
};

/* Takes (type, size, body)* from the input and sends it. Returns how many. */
static uint32_t say(struct gs_conn *conn,
                    const uint8_t *data,
                    size_t size,
                    struct sent sent[FRAMES])
{
    struct gs_mac mac;
    uint32_t count = 0;
    size_t end = 0;

    gs_mac_init(&mac, key);
    for (; count < FRAMES && size >= 2; count++) {
        struct sent *one = &sent[count];
        struct gs_buffer body = {0};
        one->type = (uint8_t)(GS_FRAME_CHALLENGE + data[0] % GS_FRAME_STATE);
        one->size = data[1] < size - 2 ? data[1] : size - 2;
        one->body = data + 2;
        end += GS_HEADER_SIZE + one->size + GS_MAC_SIZE;
        one->end = end;
        body.size = one->size;
        body.data = (uint8_t *)fuzz_text(one->body, one->size);
        MUST(gs_conn_send(conn, &mac, one->type, &body) == 0);
        gs_wire_free(&body);
        data += 2 + one->size;
        size -= 2 + one->size;
    }
    return count;
}

/* The first bytes of the input say which byte is changed, and how. */
static void converse(const uint8_t *data, size_t size)
{
    static uint8_t stream[1 << 17];
    struct sent sent[FRAMES];
    struct gs_conn from, to;
    struct gs_frame frame;
    struct gs_mac mac;
    int there[2], back[2], rc = 0;
    uint32_t count, heard = 0;
    size_t changed, step;
    uint8_t peeked;
    ssize_t got;

    if (size < 4)
        return;
    make_pair(there);
    make_pair(back);
    gs_mac_init(&mac, key);
    gs_conn_open(&from, there[0], false, 0);
    gs_conn_open(&to, back[0], true, 0);
    count = say(&from, data + 4, size - 4, sent);
    got = recv(there[1], stream, sizeof(stream), 0);
    got = got < 0 ? 0 : got;
    changed = (size_t)(data[0] << 8 | data[1]);
    step = 1 + (size_t)data[3] * 8 + (size_t)got / 64; /* few enough to be quick */
    if (changed < (size_t)got && data[2])
        stream[changed] ^= data[2];
    else
        changed = (size_t)got;
    for (size_t at = 0, n; rc == 0 && at < (size_t)got; at += n) {
        n = (size_t)got - at < step ? (size_t)got - at : step;
        MUST(write(back[1], stream + at, n) == (ssize_t)n);
        while (rc == 0 && recv(to.fd, &peeked, 1, MSG_PEEK) > 0) {
            rc = gs_conn_fill(&to, 0);
            while (rc == 0 && (rc = gs_conn_next(&to, &mac, &frame)) > 0) {
                MUST(heard < count && sent[heard].end <= changed);
                MUST(frame.type == sent[heard].type && frame.size == sent[heard].size);
                MUST(memcmp(frame.body, sent[heard].body, frame.size) == 0);
                heard++;
                rc = 0;
            }
        }
    }
    if (changed == (size_t)got)
        MUST(rc == 0 && heard == count);
    gs_conn_close(&from);
    gs_conn_close(&to);
    close(there[1]);
    close(back[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const uses[])(const uint8_t *,
                                size_t) = {read_all, listen_to_stranger, converse};
    uint8_t *own;

    if (size == 0)
        return 0;
    /* Memory of its own size, so that reading beyond its end is noticed. */
    own = (uint8_t *)fuzz_text(data + 1, size - 1);
    uses[data[0] % 3](own, size - 1);
    free(own);
    return 0;
}
