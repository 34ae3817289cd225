/* gang.h - the start barrier's one decision: release, refuse, or keep waiting.
 *
 * Pure bookkeeping: the caller feeds what happened and when (microseconds of one
 * monotonic clock), asks for the outcome, and does all input and output itself. The
 * outcome is decided at one place, once, and never changes afterwards.
 *
 *  - T runs from the first node's hello.
 *  - Release needs every task of every node, and every node wired (if asked for).
 *  - A task that ends before the start refuses at once. But when all tasks of a node
 *    are signalled together, that is what Slurm does to a step on somebody's order: a
 *    cancel, not a failed start. SIGTERM and the like settle it at once; SIGKILL could
 *    also be the kernel short of memory, so another node must confirm it. While a node
 *    has not connected, SIGKILL may as well be Slurm's, which gives up the launch
 *    because of that node: then only the end of srun tells, see gs_gang_end().
 */
#ifndef GS_GANG_H
#define GS_GANG_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "spec.h"
#include "wire.h"

/* How long a node whose tasks were all killed waits for company. slurmctld tells the
 * nodes one after another, and one that does not answer delays the rest. */
#define GS_SETTLE_US 2000000

enum gs_outcome {
    GS_WAITING = 0,
    GS_RELEASED = 1,
    GS_REFUSED = 2,
    GS_CANCELLED = 3 /* somebody ended the step; not a failed start */
};

enum gs_refusal {
    GS_REFUSAL_NONE = 0,
    GS_REFUSAL_TIMEOUT = 1,     /* T is over and somebody is missing */
    GS_REFUSAL_TASK_ENDED = 2,  /* a task ended before the start */
    GS_REFUSAL_LAUNCH = 3,      /* a node's slurmstepd could not launch its tasks */
    GS_REFUSAL_CONFIG = 4,      /* options or environment cannot work */
    GS_REFUSAL_NODE_LOST = 5,   /* a node's connection broke */
    GS_REFUSAL_UNREACHABLE = 6, /* a node cannot reach rank 0's node */
    GS_REFUSAL_MISMATCH = 7,    /* nodes or ranks do not agree on what the step is */
    GS_REFUSAL_ENDED = 8,       /* Slurm ended the launch before everybody arrived */
    GS_REFUSAL_PROGRAM = 9,     /* some nodes can execute the program, others cannot */
    GS_REFUSAL_HEALTH = 10      /* GPUs are not fit, and the step requires it */
};

enum gs_task_state {
    GS_TASK_ABSENT = 0,
    GS_TASK_ARRIVED = 1,
    GS_TASK_ENDED = 2
};

struct gs_task {
    uint32_t node;
    uint8_t state;     /* enum gs_task_state */
    uint8_t fail_kind; /* enum gs_fail_kind when ended */
    bool expected;
    bool mismatch;
    bool apart;            /* in a network namespace that is not its node's */
    uint32_t status;       /* exit code or signal when ended */
    uint32_t claim;        /* what it believes about the step, hashed; 0 = nothing */
    uint32_t visible;      /* GPUs it sees, GS_NO_RANK = not restricted */
    uint32_t program;      /* errno of executing the program there, 0 = fine */
    int64_t arrived_us;    /* -1 = not */
    struct gs_state *info; /* of one that has not arrived; NULL = not known */
    int64_t info_us;       /* in that state since */
};

/* What a node found on its GPUs. */
struct gs_nodehealth {
    uint8_t verdict; /* enum gs_verdict */
    bool none;       /* there is no GPU */
    bool shared_gpu; /* two tasks would use one GPU */
    uint32_t counts[4];
    int64_t took_us, came_us;
    uint64_t alike;
    char why[GS_TEXT_SIZE], binding[GS_TEXT_SIZE];
    char *record; /* JSON */
};

struct gs_node {
    char name[GS_NAME_SIZE];
    uint32_t *ranks;
    uint32_t rank_count;
    uint32_t arrived_count;
    bool ended;        /* all its tasks were ended by signals */
    int64_t hello_us;  /* -1 = never connected */
    int64_t lost_us;   /* -1 = not lost */
    int64_t silent_us; /* last sign of life if it is overdue, else -1 */
    bool gone;         /* said goodbye after the decision */
    bool failed;       /* launch or configuration; text says why */
    bool wired;
    bool probed;                /* a probe's result is in */
    struct gs_reach reach;      /* the last one */
    char address[GS_ADDR_SIZE]; /* it connected from; "" = never */
    int64_t clock_offset_us;    /* its wall clock minus ours, +- half of hello_rtt_us */
    int64_t hello_rtt_us;       /* -1 = not measured */
    char text[GS_TEXT_SIZE];
    struct gs_nodehealth *health; /* NULL = not told (yet) */
};

/* What the step wants to know of its GPUs before it starts. */
enum gs_gang_health {
    GS_GANG_HEALTH_OFF,
    GS_GANG_HEALTH_RECORD,  /* wait for it, at most until T */
    GS_GANG_HEALTH_REQUIRE, /* a failed check refuses the start */
    GS_GANG_HEALTH_STRICT   /* so does what is not known */
};

struct gs_gang {
    uint32_t job_id;
    uint32_t step_id;
    uint32_t restart_count;
    uint32_t node_count;
    uint32_t task_count;
    int64_t timeout_us;
    char step_nodes[2048]; /* node list told by a node, "" = none */
    bool wiring;           /* release waits for every node's proof */
    enum gs_gang_health health;
    struct gs_node *nodes;
    struct gs_task *tasks;
    uint32_t connected_count; /* nodes that said hello */
    uint32_t arrived_count;   /* tasks */
    uint32_t wired_count;     /* nodes */
    uint32_t probed_count;    /* nodes whose probe's result is in */
    uint32_t health_count;    /* nodes that told about their GPUs */
    int64_t unfit_us;         /* the first unfit one, -1 = none */
    int64_t ready_us;         /* all else was ready, -1 = not yet */
    int64_t health_until_us;  /* T is over, GPUs are waited for till then; -1 = no */
    bool compared;            /* all arrived, and they agree about the step */
    uint32_t stale_count;     /* hellos of another step or an earlier run of this one */
    uint32_t ended_count;     /* nodes that ended so */
    int64_t first_us;         /* first hello, -1 = none */
    int64_t deadline_us;      /* first_us + T (+ time srun itself was stopped) */
    int64_t decided_us;
    int64_t suspect_us; /* the first of them, -1 = none */
    uint32_t suspect_rank;
    enum gs_outcome outcome;
    enum gs_refusal reason;
    uint8_t code;                 /* exit code of a refusal: 69, 75 or 78 */
    uint32_t fail_node;           /* node the reason is about, GS_NO_RANK = several */
    uint32_t fail_rank;           /* task the reason is about, GS_NO_RANK = none */
    char fail_text[GS_TEXT_SIZE]; /* what its node knows about it */
};

/* A gang of node_count nodes and task_count tasks; NULL when memory is short or a
 * count is over 16 million. 0 and 0: not known yet, the first hello tells (the parts of
 * a heterogeneous step know only themselves). Destroy with gs_gang_destroy() (NULL is
 * fine). */
struct gs_gang *gs_gang_create(uint32_t node_count,
                               uint32_t task_count,
                               int64_t timeout_us);
void gs_gang_destroy(struct gs_gang *gang);

/* Says how large it is, once. 0, -ENOMEM, or -EINVAL as above. */
int gs_gang_size(struct gs_gang *gang, uint32_t node_count, uint32_t task_count);

/* Gives the nodes that have no name yet those names of a node list that no other node
 * has, in order: as a set they are right, one by one they may not be. */
void gs_gang_name_rest(struct gs_gang *gang);

/* Says which node has which ranks, before anything else is fed for that node. Returns
 * 0, -ENOMEM, or -EINVAL (node or rank out of range, rank given twice). */
int gs_gang_expect(struct gs_gang *gang,
                   uint32_t node,
                   const char *name,
                   const uint32_t *ranks,
                   uint32_t rank_count);

/* Whether an arrival belongs to this step and this run of it; counts it if not. */
bool gs_gang_is_ours(struct gs_gang *gang,
                     uint32_t job_id,
                     uint32_t step_id,
                     uint32_t restart_count);

/* A node said hello. Returns 0; -ESTALE: of another step or run, counted and ignored;
 * -EALREADY: said before; -EINVAL: does not fit the step, with a sentence. The last
 * one is also remembered as the node's failure. */
int gs_gang_hello(struct gs_gang *gang,
                  const struct gs_hello *hello,
                  int64_t now_us,
                  struct gs_error *error);

/* A task reached the barrier at when_us. A rank that is not the node's own refuses the
 * start, naming that node (-EINVAL); repeated arrivals are ignored. */
int gs_gang_arrive(struct gs_gang *gang,
                   uint32_t node,
                   uint32_t rank,
                   uint32_t claim,
                   int64_t when_us);

/* Marks a rank as contradicting the step; decided when all arrived or T is over. */
void gs_gang_mismatch(struct gs_gang *gang, uint32_t rank);

/* What a task that has not arrived is doing; ignored for others. */
void gs_gang_state(struct gs_gang *gang, const struct gs_state *state, int64_t now_us);

/* A task or node cannot start; with a text the cause is known, so it is no cancel.
 * -EINVAL: no such node, or the rank is not its own. */
int gs_gang_fail(struct gs_gang *gang, const struct gs_fail *fail, int64_t now_us);

/* The node's connection broke. text: how. Ignored after the decision. */
void gs_gang_lost(struct gs_gang *gang,
                  uint32_t node,
                  const char *text,
                  int64_t now_us);

/* What a SPEC asks for. */
enum gs_gang_health gs_gang_health_mode(const struct gs_spec *spec);
/* What a node found on its GPUs; the first word counts. 0, -EINVAL: no such node,
 * -ENOMEM. */
int gs_gang_health(struct gs_gang *gang,
                   const struct gs_healthmsg *health,
                   int64_t now_us);
/* Whether a node's GPUs are not what the step requires. */
bool gs_gang_unfit(const struct gs_gang *gang, const struct gs_node *node);

/* A node's result of the current probe round. OK makes it wired. */
void gs_gang_reach(struct gs_gang *gang, const struct gs_reach *reach);
/* Forgets all probe results: another address is tried. */
void gs_gang_unwire(struct gs_gang *gang);
/* No address is left to try: refuse, naming the nodes that failed their probe. */
void gs_gang_unreachable(struct gs_gang *gang, int64_t now_us);

/* Slurm ended the launch: cancelled = on somebody's order. */
void gs_gang_end(struct gs_gang *gang, bool cancelled, int64_t now_us);

/* The deciding process itself was stopped for this long: T does not count it. */
void gs_gang_stretch(struct gs_gang *gang, int64_t stopped_us);

/* Decides if it can; call after feeding and when gs_gang_next_us() has come. */
enum gs_outcome gs_gang_tick(struct gs_gang *gang, int64_t now_us);

/* The next moment at which a tick may decide by itself, -1 = none. */
int64_t gs_gang_next_us(const struct gs_gang *gang);

/* The task that arrived last, GS_NO_RANK = nobody arrived. */
uint32_t gs_gang_last(const struct gs_gang *gang);
/* The task that arrived first, GS_NO_RANK = nobody arrived. */
uint32_t gs_gang_first(const struct gs_gang *gang);

#endif
