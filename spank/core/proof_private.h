/* proof_private.h - proof that an address really leads to rank 0's node.
 *
 * A connection alone proves nothing: the same private address may exist on every host.
 * So the prober sends "GSM1" and a nonce, and the holder of MASTER_PORT answers with an
 * HMAC that only a node of this step can make.
 */
#ifndef GS_PROOF_PRIVATE_H
#define GS_PROOF_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

#define GS_PROOF_ASK (4 + GS_NONCE_SIZE)
#define GS_PROOF_PEERS 256
#define GS_PROOF_PEER_US 2000000
#define GS_PROBE_TRY_US 200000
#define GS_PROBE_US 1500000
/* From a connection that stands: the network is proven, and the other node's processes
 * may have to wait for a processor while it imports a container, say. */
#define GS_PROBE_ANSWER_US 10000000

/* The holder's side: MASTER_PORT is bound and answers until gs_holder_close(). */
struct gs_holder {
    int fd; /* listening, -1 = not held */
    uint32_t peer_count;
    struct {
        int fd;
        int64_t since_us;
        uint32_t got;
        uint8_t ask[GS_PROOF_ASK];
    } peers[GS_PROOF_PEERS];
};

/* Accepts and answers whatever is ready; never blocks. */
void gs_holder_serve(struct gs_holder *holder,
                     const struct gs_mac *mac,
                     int64_t now_us);
/* Gives the port up at once: connections are reset, nothing stays in TIME_WAIT. */
void gs_holder_close(struct gs_holder *holder);

/* The prober's side: one address, tried again until GS_PROBE_US have passed;
 * once connected it waits for the answer for up to GS_PROBE_ANSWER_US. */
struct gs_prober {
    bool active;
    int fd; /* -1 between tries */
    struct gs_probe probe;
    int64_t begun_us, try_us;
    bool asked;
    uint32_t got;
    uint8_t nonce[GS_NONCE_SIZE];
    uint8_t answer[GS_MAC_SIZE];
    int last_error;
};

/* Starts; any probe under way is dropped. */
void gs_prober_start(struct gs_prober *prober,
                     const struct gs_probe *probe,
                     int64_t now_us);
void gs_prober_stop(struct gs_prober *prober);

/* Goes on; never blocks. Returns true when a result is in, the prober is then idle;
 * ret_reach gets result, detail and rtt_us. */
bool gs_prober_step(struct gs_prober *prober,
                    const struct gs_mac *mac,
                    int64_t now_us,
                    struct gs_reach *ret_reach);
/* The poll events it waits for on its fd (0 when there is none). */
short gs_prober_events(const struct gs_prober *prober);

#endif
