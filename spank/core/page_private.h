/* page_private.h - the memory that a node's aggregator shares with its waiting tasks.
 *
 * Made by slurmstepd before the tasks are forked, gone from a task when it execs. The
 * tasks write it with the user's rights: the aggregator takes no pointer, length or
 * index from it, only single words that it compares with known values, and texts that
 * it copies as hostile. What it must be able to rely on is in struct gs_page, which is
 * memory of its own process.
 */
#ifndef GS_PAGE_PRIVATE_H
#define GS_PAGE_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

enum gs_page_state {
    GS_PAGE_WAIT = 0,
    GS_PAGE_GO = 1,
    GS_PAGE_ABORT = 2
};

enum gs_slot_state {
    GS_SLOT_EMPTY = 0,
    GS_SLOT_ARRIVED = 1,
    GS_SLOT_ASKED = 2, /* ends itself because of a signal */
    GS_SLOT_CONFIG = 3 /* ends itself because its environment cannot work */
};

/* Why a wait ended. */
enum gs_page_end {
    GS_END_GO = 0,
    GS_END_ABORT = 1,  /* page->code is the exit code */
    GS_END_SIGNAL = 2, /* *signal was set by the caller's handler */
    GS_END_ORPHAN = 3, /* slurmstepd is gone */
    GS_END_GUARD = 4   /* nobody decided in time */
};

#define GS_SLOT_DEVICES 512
#define GS_NO_DEVICES "-" /* Slurm gives GPUs, and this step has none */

struct gs_slot {
    _Atomic uint32_t state;
    _Atomic uint32_t visible;
    _Atomic uint32_t claim;
    _Atomic uint32_t rank, node; /* as its environment has them */
    _Atomic uint32_t program;    /* errno of executing the program, 0 = it can be */
    _Atomic uint32_t apart;      /* its network namespace is not slurmstepd's */
    _Atomic int64_t arrived_us;
    _Atomic uint64_t open; /* bit N: may open /dev/nvidiaN; 0 = not restricted */
    char granted[GS_SLOT_DEVICES];         /* the step's GPUs as Slurm says */
    char visible_devices[GS_SLOT_DEVICES]; /* CUDA_VISIBLE_DEVICES */
    char text[GS_TEXT_SIZE];               /* GS_SLOT_CONFIG: why */
};

struct gs_shared {
    _Atomic uint32_t state; /* enum gs_page_state; the futex */
    _Atomic uint32_t code;
    _Atomic int64_t guard_us; /* waiting tasks give up at this moment */
    uint32_t printer;         /* local index of the task that prints words */
    char words[8192];         /* "" = nothing to print here */
    struct gs_go go;          /* valid once state is GS_PAGE_GO */
    struct gs_slot slots[];
};

struct gs_page {
    struct gs_shared *shared;
    uint32_t slot_count;
    size_t size;
    _Atomic uint32_t decided; /* enum gs_page_state, as it was told to the tasks */
};

/* A zeroed shared page for slot_count tasks, or NULL with errno set. */
struct gs_page *gs_page_map(uint32_t slot_count);
/* NULL is fine. */
void gs_page_unmap(struct gs_page *page);

/* Sets the state, once, whatever a task has put there, and wakes every waiting task. */
void gs_page_release(struct gs_page *page, const struct gs_go *go);
void gs_page_abort(struct gs_page *page, uint8_t code);

/* Waits in a task. parent: slurmstepd's pid as seen at the start of the task. signal:
 * set by the caller's handlers, which must be installed without SA_RESTART. */
enum gs_page_end gs_page_wait(struct gs_page *page,
                              int parent,
                              const volatile int *signal);

/* After a signal: gives a decision that is on its way up to wait_ms. */
bool gs_page_aborted_within(struct gs_page *page, unsigned wait_ms);

#endif
