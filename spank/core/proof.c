/* proof.c - see proof_private.h. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_private.h"
#include "proof_private.h"

static const uint8_t hello[4] = {'G', 'S', 'M', '1'};

static void answer_of(const struct gs_mac *mac,
                      const uint8_t *ask,
                      uint8_t ret_sum[GS_MAC_SIZE])
{
    static const uint8_t domain = 'M';

    gs_mac_sum(mac, &domain, 1, ask, GS_PROOF_ASK, ret_sum);
}

static void drop_peer(struct gs_holder *holder, uint32_t i)
{
    gs_net_reset(holder->peers[i].fd);
    holder->peers[i] = holder->peers[--holder->peer_count];
}

/* Reads the question and answers it. Returns true when the peer is done with: it
 * hung up, or talks nonsense. An answered peer hangs up first. */
static bool serve_peer(struct gs_holder *holder, uint32_t i, const struct gs_mac *mac)
{
    uint8_t sum[GS_MAC_SIZE], extra;
    bool answered = holder->peers[i].got == GS_PROOF_ASK;
    ssize_t got = answered ? recv(holder->peers[i].fd, &extra, 1, 0)
                           : recv(holder->peers[i].fd,
                                  holder->peers[i].ask + holder->peers[i].got,
                                  GS_PROOF_ASK - holder->peers[i].got,
                                  0);

    if (got < 0)
        return errno != EAGAIN && errno != EINTR;
    if (got == 0 || answered)
        return true;
    holder->peers[i].got += (uint32_t)got;
    if (holder->peers[i].got < GS_PROOF_ASK)
        return false;
    if (memcmp(holder->peers[i].ask, hello, sizeof(hello)) != 0)
        return true;
    answer_of(mac, holder->peers[i].ask, sum);
    return send(holder->peers[i].fd, sum, sizeof(sum), MSG_NOSIGNAL) != sizeof(sum);
}

static uint32_t oldest_peer(const struct gs_holder *holder)
{
    uint32_t oldest = 0;

    for (uint32_t i = 1; i < holder->peer_count; i++)
        if (holder->peers[i].since_us < holder->peers[oldest].since_us)
            oldest = i;
    return oldest;
}

/* A table full of strangers keeps nobody out: the oldest makes room. No more than the
 * table holds are taken at once, so that each is listened to before it has to go. */
void gs_holder_serve(struct gs_holder *holder, const struct gs_mac *mac, int64_t now_us)
{
    int fd;

    for (uint32_t n = 0;
         n < GS_PROOF_PEERS && holder->fd >= 0 && (fd = gs_net_accept(holder->fd)) >= 0;
         n++) {
        if (holder->peer_count == GS_PROOF_PEERS)
            drop_peer(holder, oldest_peer(holder));
        memset(&holder->peers[holder->peer_count], 0, sizeof(holder->peers[0]));
        holder->peers[holder->peer_count].fd = fd;
        holder->peers[holder->peer_count++].since_us = now_us;
    }
    for (uint32_t i = holder->peer_count; i-- > 0;)
        if (serve_peer(holder, i, mac)
            || now_us > holder->peers[i].since_us + GS_PROOF_PEER_US)
            drop_peer(holder, i);
}

void gs_holder_close(struct gs_holder *holder)
{
    while (holder->peer_count)
        drop_peer(holder, holder->peer_count - 1);
    if (holder->fd >= 0)
        close(holder->fd);
    holder->fd = -1;
}

void gs_prober_stop(struct gs_prober *prober)
{
    if (prober->active && prober->fd >= 0)
        close(prober->fd);
    prober->active = false;
    prober->fd = -1;
}

void gs_prober_start(struct gs_prober *prober,
                     const struct gs_probe *probe,
                     int64_t now_us)
{
    gs_prober_stop(prober);
    memset(prober, 0, sizeof(*prober));
    prober->active = true;
    prober->fd = -1;
    prober->probe = *probe;
    prober->begun_us = now_us;
    prober->last_error = ETIMEDOUT;
}

short gs_prober_events(const struct gs_prober *prober)
{
    if (!prober->active || prober->fd < 0)
        return 0;
    return prober->asked ? POLLIN : POLLOUT;
}

/* One try failed: the next one begins with the next slice of time. */
static void try_failed(struct gs_prober *prober, int code)
{
    if (prober->fd >= 0)
        close(prober->fd);
    prober->fd = -1;
    prober->asked = false;
    prober->got = 0;
    prober->last_error = code;
}

static void ask(struct gs_prober *prober)
{
    uint8_t question[GS_PROOF_ASK];
    int rc = gs_net_connected(prober->fd);

    memcpy(question, hello, sizeof(hello));
    if (rc == 0)
        rc = gs_random(prober->nonce, sizeof(prober->nonce));
    memcpy(question + sizeof(hello), prober->nonce, sizeof(prober->nonce));
    if (rc == 0
        && send(prober->fd, question, sizeof(question), MSG_NOSIGNAL)
               != (ssize_t)sizeof(question))
        rc = -errno;
    if (rc < 0)
        try_failed(prober, -rc);
    else
        prober->asked = true;
}

/* Returns 1: proven, 0: not yet, -EBADMSG: a stranger answered. */
static int listen_for_answer(struct gs_prober *prober, const struct gs_mac *mac)
{
    uint8_t question[GS_PROOF_ASK], sum[GS_MAC_SIZE];
    ssize_t got = recv(prober->fd,
                       prober->answer + prober->got,
                       sizeof(prober->answer) - prober->got,
                       0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0) {
        try_failed(prober, got < 0 ? errno : ECONNRESET);
        return 0;
    }
    prober->got += (uint32_t)got;
    if (prober->got < sizeof(prober->answer))
        return 0;
    memcpy(question, hello, sizeof(hello));
    memcpy(question + sizeof(hello), prober->nonce, sizeof(prober->nonce));
    answer_of(mac, question, sum);
    return gs_mac_equal(sum, prober->answer) ? 1 : -EBADMSG;
}

static void begin_try(struct gs_prober *prober, int64_t now_us)
{
    int fd;

    prober->try_us = now_us;
    fd = gs_net_connect(prober->probe.address, prober->probe.port);
    if (fd < 0)
        try_failed(prober, -fd);
    else
        prober->fd = fd;
}

static bool is_ready(int fd, short events)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};

    return poll(&poll_fd, 1, 0) > 0;
}

bool gs_prober_step(struct gs_prober *prober,
                    const struct gs_mac *mac,
                    int64_t now_us,
                    struct gs_reach *ret_reach)
{
    int64_t limit_us;
    int verdict = 0;

    if (!prober->active)
        return false;
    if (prober->fd >= 0 && now_us > prober->try_us + GS_PROBE_TRY_US && !prober->asked)
        try_failed(prober, ETIMEDOUT);
    if (prober->fd < 0
        && (!prober->try_us || now_us >= prober->try_us + GS_PROBE_TRY_US / 2))
        begin_try(prober, now_us);
    if (prober->fd >= 0 && !prober->asked && is_ready(prober->fd, POLLOUT))
        ask(prober);
    if (prober->fd >= 0 && prober->asked)
        verdict = listen_for_answer(prober, mac);
    limit_us = prober->asked ? GS_PROBE_ANSWER_US : GS_PROBE_US;
    if (verdict == 0 && now_us < prober->begun_us + limit_us)
        return false;
    ret_reach->result = (uint8_t)(verdict > 0   ? GS_REACH_OK
                                  : verdict < 0 ? GS_REACH_STRANGER
                                                : GS_REACH_CONNECT);
    ret_reach->detail = verdict ? 0 : (uint32_t)prober->last_error;
    ret_reach->rtt_us = (uint32_t)(now_us - prober->try_us);
    gs_prober_stop(prober);
    return true;
}
