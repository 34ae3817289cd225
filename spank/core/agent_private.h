/* agent_private.h - a node's side of the start barrier.
 *
 * Runs as one thread of slurmstepd: carries the arrivals and deaths of the node's
 * tasks to the place that decides, proves that rank 0's node can be reached, holds
 * MASTER_PORT if rank 0 lives here, and hands the decision to the waiting tasks. It
 * decides nothing itself except to give up when it hears nothing any more.
 */
#ifndef GS_AGENT_PRIVATE_H
#define GS_AGENT_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "conn_private.h"
#include "decider_private.h"
#include "error.h"
#include "health.h"
#include "hold_private.h"
#include "page_private.h"
#include "proof_private.h"
#include "relay_private.h"
#include "resolve_private.h"
#include "spec.h"
#include "spool.h"
#include "wire.h"

#define GS_AGENT_TRY_US 200000    /* one connect; a lost SYN costs this, not 1 s */
#define GS_AGENT_SRUN_US 3000000  /* without an answer for this long: not reachable */
#define GS_AGENT_MUTE_US 10000000 /* connected, but the other side says nothing */
#define GS_AGENT_KIN_US 20000     /* a killed task's siblings die within this, or not */
#define GS_AGENT_STATE_US 1000000 /* how often tasks that are late are looked at */
#define GS_AGENT_PING_US 2000000
#define GS_AGENT_DEAD_MS 10000 /* unacknowledged data: we are cut off */
#define GS_AGENT_AGAIN 20      /* times it comes back when driven out as a stranger */
#define GS_AGENT_REPORT_MAX (24 << 20) /* bytes of a report that are kept */
#define GS_AGENT_GRACE_US 30000000     /* tasks wait this much longer than T */
#define GS_AGENT_END_US 5000000   /* after the decision: pieces of the report, ends */
#define GS_AGENT_STOP_US 1000000  /* after gs_agent_stop(): last words, the report */
#define GS_AGENT_STUCK_US 5000000 /* a task that lives on after a refusal is ended */

struct gs_agentconf {
    uint8_t key[GS_KEY_SIZE];
    char root_address[GS_ADDR_SIZE];
    uint16_t root_port;      /* 0 = the first node decides (rendezvous=node) */
    uint16_t first_ports[2]; /* of the first node, for those that cannot reach srun */
    char first_node[GS_NAME_SIZE];
    bool heterogeneous; /* index and ranks are the part's; tasks know better */
    uint32_t user_id;
    char step_nodes[2048];
    struct gs_hello hello; /* identity; ranks and nonce are filled in by the agent */
    const uint32_t *ranks; /* of this node's tasks, by local index; not copied */
    struct gs_spec spec;
    char user_address[GS_NAME_SIZE]; /* the user's own MASTER_ADDR, "" = none */
    char user_port[GS_ADDR_SIZE];    /* the user's own MASTER_PORT, "" = none */
    struct gs_holdconf hold;
    char probe_path[GS_SPEC_PATH_SIZE];  /* gangstart-probe, "" = none */
    char policy_path[GS_SPEC_PATH_SIZE]; /* gangstart.conf, "" = the defaults */
    bool policy_optional;                /* it need not be there */
    char spool_dir[GS_PATH_SIZE];        /* the step's sys/, "" = keep no report */
    char ahead[GS_NAMES_SIZE];    /* plugins with a task_init before ours, "" = none */
    char complaint[GS_TEXT_SIZE]; /* this node's configuration cannot work; why */
    struct gs_page *page;         /* not owned */
    int wake_fd;                  /* eventfd written by tasks and hooks; not owned */
    int stepd_pid;
};

/* The look at the node's GPUs: agent_health.c. */
struct gs_agenthealth {
    struct gs_policy *policy; /* lives as long as the agent */
    struct gs_health *look;   /* NULL: not wanted, or out of memory */
    char devices[1024];       /* the step's GPUs as Slurm says, "" = not said */
    bool without;             /* a task was given none though Slurm gives some */
    bool kept, sent;
};

struct gs_agent {
    struct gs_agentconf conf;
    struct gs_mac mac;
    struct gs_conn conn;
    bool connecting, challenged, joined, finished;
    bool to_first; /* srun could not be reached */
    char first_address[GS_ADDR_SIZE];
    struct gs_resolver first_resolver;
    struct gs_relay relay; /* on the first node */
    struct gs_decider *decider;
    _Atomic bool decides; /* there was one: others may still need it */
    uint32_t *ranks;      /* by local index */
    bool master_sent;
    int64_t begun_us, try_us, ping_us, decided_us, stop_us;
    uint32_t tries, again;
    struct gs_hold hold;
    struct gs_prober prober;
    struct gs_resolver master_resolver, probe_resolver;
    struct gs_probe probe;      /* the one whose name is being resolved */
    struct gs_spoolfile report; /* its pieces go there as they come */
    bool kin_pending;           /* a death waits for what its siblings do */
    struct gs_agenthealth health;
    bool report_open, report_done, bye_sent;
    bool report_lost; /* too large, or not to be written: no piece is kept any more */
    size_t report_size;
    bool *arrival_sent, *exit_sent;
    struct gs_state *told; /* by local index: the last state told */
    int64_t state_us;      /* when states were looked at last */
    int64_t oom_kills;     /* of the step's cgroup at the beginning, -1 = ? */
    int64_t *exit_seen_us; /* by local index, 0 = not seen */
    _Atomic int32_t *pids; /* by local index, 0 = not known */
    uint32_t exits;
    _Atomic int32_t *exit_status; /* wait status by local index, -1 = alive */
    _Atomic bool stop, launch_failed;
    bool launch_told;    /* ... and its tasks will never be there */
    struct gs_error end; /* how it ended, for the host's log */
};

/* Copies conf. Returns NULL when memory is short. */
struct gs_agent *gs_agent_create(const struct gs_agentconf *conf);
/* After the thread is gone (or was never started). NULL is fine. */
void gs_agent_destroy(struct gs_agent *agent);

/* The thread: returns when the decision is delivered and, for a refusal, the tasks
 * are gone, or when it was stopped. agent->end says how it went. */
void gs_agent_run(struct gs_agent *agent);

/* From other threads: a task was forked; it ended with this wait status; the launch
 * failed before the tasks were released; end as soon as srun has heard of it all and,
 * if it has decided, the report is here. The last three wake the agent.
 * gs_agent_stop() returns the ms within which it ends, unless stuck in the kernel. */
void gs_agent_task_forked(struct gs_agent *agent, uint32_t local, int pid);
void gs_agent_task_exit(struct gs_agent *agent, uint32_t local, int status);
void gs_agent_launch_failed(struct gs_agent *agent);
unsigned gs_agent_stop(struct gs_agent *agent);

/* Parts of the agent: agent_connect.c. */
void gs_agent_connect_begin(struct gs_agent *agent, int64_t now_us);
void gs_agent_connect_step(struct gs_agent *agent, int64_t now_us);
int gs_agent_hello(struct gs_agent *agent, int64_t now_us);
/* The hello may not have been read: everything is to be told again. */
void gs_agent_unsay(struct gs_agent *agent);
void gs_agent_give_up(struct gs_agent *agent, int code, const char *what);

/* agent_report.c. A piece of a report; an empty one ends it. One that cannot be kept
 * costs nobody the start: srun has its own copy. srun is the user's, so what it sends
 * has a limit. 0 or -EBADMSG. */
int gs_agent_on_report(struct gs_agent *agent, const struct gs_frame *frame);

/* agent_health.c. The step is for the loop, connected or not. */
void gs_agent_health_begin(struct gs_agent *agent, int64_t now_us);
int gs_agent_health_step(struct gs_agent *agent, int64_t now_us);
int gs_agent_health_fd(const struct gs_agent *agent);
void gs_agent_health_end(struct gs_agent *agent);

/* Copies a text that a task may have written and may be changing: what is not printable
 * becomes '?'. */
void gs_copy_clean(char *to, const volatile char *from, size_t size);

/* agent_tasks.c and agent_master.c. */
int gs_agent_refuse(struct gs_agent *agent, const char *text);
int gs_agent_send_fail(struct gs_agent *agent, const struct gs_fail *fail);
int64_t gs_agent_oom_kills(void);
/* The start is refused, or nobody is left who could decide: waits for the tasks to end
 * and ends those that hang. */
void gs_agent_see_off(struct gs_agent *agent);
int gs_agent_report_states(struct gs_agent *agent, int64_t now_us);
int gs_agent_report_tasks(struct gs_agent *agent, int64_t now_us);
void gs_agent_end_tasks(struct gs_agent *agent);
void gs_agent_master_begin(struct gs_agent *agent, int64_t now_us);
int gs_agent_master_step(struct gs_agent *agent, int64_t now_us);
int gs_agent_probe(struct gs_agent *agent,
                   const struct gs_probe *probe,
                   int64_t now_us);
int gs_agent_probe_step(struct gs_agent *agent, int64_t now_us);

#endif
