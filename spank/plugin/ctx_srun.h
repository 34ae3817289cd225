/* ctx_srun.h - what srun knows about its gang step, for the files of that context. */
#ifndef GS_CTX_SRUN_H
#define GS_CTX_SRUN_H

#include <pthread.h>
#include <semaphore.h>

#include "plugin.h"
#include "root.h"
#include "story.h"

#define GS_LATE_US 1000000 /* from here on missing nodes are worth a question */

extern struct gs_srun {
    int listen_fd;
    uint16_t port;
    uint32_t parts; /* of the step: more than one in a heterogeneous one */
    uint8_t key[GS_KEY_SIZE];
    struct gs_gang *gang;
    struct gs_root *root;
    struct gs_story story;
    char slurm_version[32], host[256], program[256], master_addr[GS_NAME_SIZE];
    struct gs_master master;
    pthread_t thread;
    bool running;
    int64_t waiting_us; /* when the waiting line was shown last, 0 = never */
    sem_t leaving;      /* srun has come to its own end */
    int exit_status;
} gs_srun;

/* srun_tell.c, called by the root thread: while it waits, and once at the decision. */
void gs_srun_watch(void);
void gs_srun_tell(void);

#endif
