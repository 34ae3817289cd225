/* agents.h - what the three roles of the scale bench share: see agents.c. */
#ifndef BENCH_AGENTS_H
#define BENCH_AGENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mac.h"

#define CLIENTS 2
#define WINDOW 1024         /* connections of a client that nobody has answered yet */
#define LIMIT_US 90000000   /* no run takes longer */
#define NO_AGENT 0xffffffff /* nobody leaves */

/* One page of memory that all three processes see. */
struct board {
    _Atomic bool go, done;
    _Atomic int64_t first_us; /* first connect, 0 = none yet */
    _Atomic int64_t last_us;  /* last agent that was told the decision */
    _Atomic int64_t left_us;  /* an agent hung up */
    _Atomic uint32_t ready, accepted, told, refused, broken;
    _Atomic int64_t client_cpu_us;
};

/* What is measured; the same for all processes. */
struct plan {
    struct board *board;
    uint8_t key[GS_KEY_SIZE];
    uint32_t nodes, tasks_each;
    uint16_t port;
    bool floor;       /* connect and accept, nothing else */
    uint32_t leaving; /* this agent hangs up while all others wait */
};

/* One client process: every CLIENTS-th node from `first` on. Ends the process. */
_Noreturn void client_run(const struct plan *plan, uint32_t first);

/* CPU time of this process, user and system. */
int64_t cpu_us(void);

/* Says what went wrong and ends the process with code 1. */
_Noreturn void die(const char *what);

#endif
