/* probe.h - runs gangstart-probe beside this process and gathers what it tells.
 *
 * The driver's library may hang out of reach of signals, so it is asked in a program of
 * its own: it says what it is about to ask, and a watcher that hears nothing within a
 * deadline can say which call on which GPU hung, kill the program, and leave it behind
 * if even that does not help.
 */
#ifndef GS_PROBE_H
#define GS_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "gpu.h"
#include "probeline.h"

#define GS_PROBE_WHOLE_US 20000000
#define GS_PROBE_INIT_US 10000000
#define GS_PROBE_GPU_US 5000000

/* How to ask. Zero or NULL is the ordinary answer, but for program. */
struct gs_probe_ask {
    const char *program; /* absolute path of gangstart-probe */
    const char *library; /* see struct gs_nvml_source */
    const char *root;
    const char *lock; /* the lock file that keeps it to one per node */
    bool inforom;
    int64_t whole_us; /* deadlines: for everything, GS_PROBE_WHOLE_US; ... */
    int64_t init_us;  /* ... until GPUs are counted, GS_PROBE_INIT_US; ... */
    int64_t gpu_us;   /* ... and for each GPU, GS_PROBE_GPU_US */
};

/* A probe under way or over. Only gpus is for the caller. */
struct gs_probe_run {
    bool active;
    int pid; /* 0 = none, or reaped */
    int fd;
    int64_t begun_us, mark_us;
    int64_t whole_us, init_us, gpu_us;
    bool counted; /* the GPUs have been counted: the deadline is gpu_us now */
    uint64_t bytes;
    uint32_t got;
    char line[GS_PROBE_LINE];
    struct gs_gpus gpus;
};

/* Starts a probe; now_us: of the monotonic clock, as in the step. Returns 0 or -errno
 * with a sentence. The program gets SIGKILL when the thread that started it ends. */
int gs_probe_start(struct gs_probe_run *probe,
                   const struct gs_probe_ask *ask,
                   int64_t now_us,
                   struct gs_error *error);

/* Goes on; call it when fd is readable and at least every 100 ms. Blocks only after a
 * deadline, for at most 100 ms, to see the killed program end. Returns
 *   1            done: gpus is complete
 *   0            not yet
 *   -ETIMEDOUT   hung: gpus has hung_call, hung_gpu, and the GPUs read so far; a GPU
 * that hung is the last of them, with code GS_GPU_HUNG -EBUSY       the program reports
 * that it could not begin, e.g. another one holds the lock -EPROTO      the program
 * talks nonsense -ECHILD      the program ended early each of the errors with a
 * sentence, and the probe over. */
int gs_probe_step(struct gs_probe_run *probe, int64_t now_us, struct gs_error *error);

/* Kills a probe under way, and reaps one that was left behind and has ended since. */
void gs_probe_stop(struct gs_probe_run *probe);

#endif
