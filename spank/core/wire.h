/* wire.h - what crosses the network between a node and the place that decides.
 *
 * A frame is  header (16) | body (0..GS_BODY_MAX) | seal (32):
 *   0 magic "GSW1" | 4 type | 5 protocol version | 6 zero | 8 body size | 12 sequence
 * All numbers are big-endian. The seal is an HMAC over the direction, both nonces of
 * the connection, header and body, and it is checked before the body is looked at.
 *
 * Messages about nodes carry the node's index in the step instead of relying on the
 * connection they came by, so that a relaying node can pass on those of others.
 * Everything here is pure: bytes in, values out.
 */
#ifndef GS_WIRE_H
#define GS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "mac.h"

#define GS_WIRE_VERSION 1
#define GS_HEADER_SIZE 16
#define GS_BODY_MAX 65536
#define GS_NAME_SIZE 256
#define GS_ADDR_SIZE 64
#define GS_TEXT_SIZE 512
#define GS_NAMES_SIZE 128 /* a few short names, "a, b" */
#define GS_NO_RANK 0xffffffff
#define GS_CANDIDATE_MAX 8

enum gs_frame_type {
    GS_FRAME_CHALLENGE = 1, /* root: nonce */
    GS_FRAME_HELLO = 2,     /* node: who it is, its ranks */
    GS_FRAME_ARRIVED = 3,   /* node: ranks that reached the barrier */
    GS_FRAME_FAIL = 4,      /* node: a task or the node cannot start */
    GS_FRAME_MASTER = 5,    /* rank 0's node: port held, addresses to try */
    GS_FRAME_PROBE = 6,     /* root: try to reach this address */
    GS_FRAME_REACH = 7,     /* node: result of a probe */
    GS_FRAME_PING = 8,      /* both ways */
    GS_FRAME_GO = 9,        /* root: release */
    GS_FRAME_ABORT = 10,    /* root: refuse */
    GS_FRAME_REPORT = 11,   /* root: a piece of the report, for the node it names */
    GS_FRAME_BYE = 12,      /* node: all its tasks are gone */
    GS_FRAME_STATE = 13,    /* node: what a task that has not arrived is doing */
    GS_FRAME_HEALTH = 14    /* node: what was found on its GPUs */
};

enum gs_fail_kind {
    GS_FAIL_EXIT = 1,   /* task exited before the start; status = exit code */
    GS_FAIL_SIGNAL = 2, /* task was killed before the start; status = signal */
    GS_FAIL_ASKED = 3,  /* task ended itself on a signal it was sent; status = signal */
    GS_FAIL_LAUNCH = 4, /* slurmstepd gave up before its tasks reached the barrier */
    GS_FAIL_CONFIG = 5, /* options or environment cannot work; text says why */
    GS_FAIL_LOST = 6,   /* a relayed node's connection broke; text says how */
};

enum gs_reach_result {
    GS_REACH_OK = 0,
    GS_REACH_CONNECT = 1,  /* no connection; detail = errno */
    GS_REACH_STRANGER = 2, /* something else answers there */
    GS_REACH_RESOLVE = 3,  /* the name does not resolve here */
    GS_REACH_ELSEWHERE = 4 /* the name resolves to another address here; text = it */
};

struct gs_header {
    uint8_t type;
    uint32_t size; /* of the body */
    uint32_t sequence;
};

struct gs_hello {
    uint8_t nonce[GS_NONCE_SIZE];
    uint32_t job_id;
    uint32_t step_id;
    uint32_t restart_count;
    uint32_t node_index;
    uint32_t node_count;
    uint32_t task_count; /* of the whole step */
    int64_t wall_us;     /* the node's wall clock when it wrote this */
    char node_name[GS_NAME_SIZE];
    char version[32];      /* of the plugin */
    char step_nodes[2048]; /* the step's node list where its order is not the nodes' */
    uint32_t rank_count;
    const uint8_t *ranks; /* rank_count big-endian words inside the frame */
};

struct gs_fail {
    uint32_t node_index;
    uint32_t rank; /* GS_NO_RANK: the node as a whole */
    uint8_t kind;  /* enum gs_fail_kind */
    uint32_t status;
    uint32_t siblings; /* tasks of the node that live on and were not signalled */
    char text[GS_TEXT_SIZE];
};

struct gs_candidate {
    char address[GS_ADDR_SIZE]; /* numeric, no brackets */
    char interface[GS_ADDR_SIZE];
    char why[GS_ADDR_SIZE]; /* for the report: why it is (or is not) first */
};

struct gs_master {
    uint32_t node_index;
    uint16_t port;
    char export_as[GS_NAME_SIZE]; /* what MASTER_ADDR shall say; "" = the address */
    bool user_address;            /* export_as is the user's own MASTER_ADDR */
    bool user_port;
    bool must_match; /* export_as must resolve to the address everywhere */
    uint32_t candidate_count;
    struct gs_candidate candidates[GS_CANDIDATE_MAX];
};

struct gs_probe {
    uint32_t round;
    uint16_t port;
    bool must_match;
    char address[GS_ADDR_SIZE]; /* "" = only resolve the name */
    char name[GS_NAME_SIZE];    /* "" = nothing to resolve */
};

struct gs_reach {
    uint32_t node_index;
    uint32_t round;
    uint8_t result; /* enum gs_reach_result */
    uint32_t detail;
    uint32_t rtt_us;
    char text[GS_ADDR_SIZE];
};

struct gs_go {
    char master_addr[GS_NAME_SIZE];
    uint16_t master_port;
    int64_t t0_us; /* wall clock of the decision, microseconds since the epoch */
};

struct gs_abort {
    uint8_t code; /* exit code of the waiting tasks */
    char text[GS_TEXT_SIZE];
};

/* A task that was forked and has not arrived. */
struct gs_state {
    uint32_t node_index;
    uint32_t rank;
    uint32_t pid;
    uint8_t letter;            /* as in /proc/PID/stat */
    char wchan[32];            /* where in the kernel it sleeps, "" = not known */
    char command[32];          /* its name */
    char child[32];            /* name of a process that it has started, "" = none */
    char ahead[GS_NAMES_SIZE]; /* plugins with a task_init before ours, "" = none */
};

/* What was found on a node's GPUs before the start. */
struct gs_healthmsg {
    uint32_t node_index;
    uint8_t verdict;    /* enum gs_verdict */
    bool none;          /* there is no GPU */
    bool shared_gpu;    /* two of its tasks would use one GPU; binding says which */
    uint32_t counts[4]; /* GPUs by verdict */
    uint32_t took_us;
    uint64_t alike; /* equal on nodes with the same kind of GPUs */
    char why[GS_TEXT_SIZE];
    char binding[GS_TEXT_SIZE]; /* "" = each task has its own GPU */
    const uint8_t *record;      /* JSON, not terminated, inside the frame */
    uint32_t record_size;
};

/* One rank's arrival. */
struct gs_arrival {
    uint32_t rank;
    uint32_t age_us;  /* how long before the frame was written it arrived */
    uint32_t visible; /* GPUs the task can see, GS_NO_RANK: not restricted */
    uint32_t claim;   /* hash of what it believes about the step, 0 = nothing */
    uint32_t program; /* errno of executing the program here, 0 = it can be */
    uint32_t apart; /* 1: its network namespace is not its node's, as in a container */
};

/* Growing output buffer; text and numbers are appended, errors stick. Zero it first,
 * free data with gs_wire_free(). */
struct gs_buffer {
    uint8_t *data;
    size_t size;
    size_t room;
    bool failed; /* out of memory or over GS_BODY_MAX */
};

void gs_wire_free(struct gs_buffer *buffer);

/* Body encoders: append to buffer. Texts longer than their field are cut. */
void gs_hello_encode(struct gs_buffer *buffer,
                     const struct gs_hello *hello,
                     const uint32_t *ranks);
void gs_fail_encode(struct gs_buffer *buffer, const struct gs_fail *fail);
void gs_master_encode(struct gs_buffer *buffer, const struct gs_master *master);
void gs_probe_encode(struct gs_buffer *buffer, const struct gs_probe *probe);
void gs_reach_encode(struct gs_buffer *buffer, const struct gs_reach *reach);
void gs_go_encode(struct gs_buffer *buffer, const struct gs_go *go);
void gs_abort_encode(struct gs_buffer *buffer, const struct gs_abort *abort);
void gs_state_encode(struct gs_buffer *buffer, const struct gs_state *state);
void gs_healthmsg_encode(struct gs_buffer *buffer, const struct gs_healthmsg *health);
void gs_arrivals_encode(struct gs_buffer *buffer,
                        uint32_t node_index,
                        const struct gs_arrival *arrivals,
                        uint32_t count);

/* Body decoders: 0 or -EBADMSG with a sentence; ret_* untouched on failure. The
 * whole body must be used up, texts must be printable, counts must fit. */
int gs_hello_decode(const uint8_t *body,
                    size_t size,
                    struct gs_hello *ret_hello,
                    struct gs_error *error);
int gs_fail_decode(const uint8_t *body,
                   size_t size,
                   struct gs_fail *ret_fail,
                   struct gs_error *error);
int gs_master_decode(const uint8_t *body,
                     size_t size,
                     struct gs_master *ret_master,
                     struct gs_error *error);
int gs_probe_decode(const uint8_t *body,
                    size_t size,
                    struct gs_probe *ret_probe,
                    struct gs_error *error);
int gs_reach_decode(const uint8_t *body,
                    size_t size,
                    struct gs_reach *ret_reach,
                    struct gs_error *error);
int gs_go_decode(const uint8_t *body,
                 size_t size,
                 struct gs_go *ret_go,
                 struct gs_error *error);
int gs_abort_decode(const uint8_t *body,
                    size_t size,
                    struct gs_abort *ret_abort,
                    struct gs_error *error);

int gs_state_decode(const uint8_t *body,
                    size_t size,
                    struct gs_state *ret_state,
                    struct gs_error *error);

int gs_healthmsg_decode(const uint8_t *body,
                        size_t size,
                        struct gs_healthmsg *ret_health,
                        struct gs_error *error);

/* A body that begins with a node's index: a goodbye (nothing follows), a piece of the
 * report (bytes follow; none: the end). */
void gs_index_encode(struct gs_buffer *buffer, uint32_t node_index);
int gs_index_decode(const uint8_t *body, size_t size, uint32_t *ret_node_index);

/* Number of arrivals in the body and the node they are of, or -EBADMSG. */
int gs_arrivals_count(const uint8_t *body, size_t size, uint32_t *ret_node_index);
/* The i-th arrival of a body that gs_arrivals_count() accepted. */
void gs_arrivals_get(const uint8_t *body, uint32_t i, struct gs_arrival *ret_arrival);
/* The i-th rank of a decoded hello. */
uint32_t gs_hello_rank(const struct gs_hello *hello, uint32_t i);

/* Header of GS_HEADER_SIZE bytes. decode: 0 or -EBADMSG (magic, version, reserved
 * bytes, type or size out of bounds). */
void gs_header_encode(uint8_t *ret_bytes, const struct gs_header *header);
int gs_header_decode(const uint8_t *bytes, struct gs_header *ret_header);

#endif
