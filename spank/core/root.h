/* root.h - the place that decides: listens for the nodes, feeds the gang, tells them.
 *
 * Runs in a thread of srun (or wherever it is put): the host calls gs_root_step() in a
 * loop and acts on what it returns; the root prints nothing and ends nobody.
 */
#ifndef GS_ROOT_H
#define GS_ROOT_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "gang.h"
#include "wire.h"

#define GS_ROOT_STRANGERS 256       /* without the key, beside the missing nodes */
#define GS_ROOT_STRANGER_US 5000000 /* they get this long */
#define GS_ROOT_PING_US 1000000
#define GS_ROOT_SILENT_US 3000000 /* with unacknowledged data: the link is dead */
#define GS_ROOT_PROBE_US 1500000  /* others may still answer after a failed probe */
#define GS_ROOT_LAST_US 500000    /* Slurm ends the launch: the nodes' last words */
#define GS_ROOT_END_US 2000000    /* after the decision, for goodbyes */
#define GS_ROOT_PIECE 61440       /* bytes of the report in one frame */

enum gs_rootevent {
    GS_ROOT_WAITING = 0,
    GS_ROOT_DECIDED = 1, /* returned once: look at the gang's outcome */
    GS_ROOT_ENDING = 2,  /* the nodes are saying goodbye */
    GS_ROOT_DONE = 3
};

struct gs_root;

/* Takes over listen_fd and copies key (GS_KEY_SIZE bytes); the gang stays the
 * caller's and must outlive the root. version is compared with the nodes' own.
 * Returns NULL with a sentence. */
struct gs_root *gs_root_create(struct gs_gang *gang,
                               const uint8_t *key,
                               int listen_fd,
                               const char *version,
                               struct gs_error *error);
/* Closes every connection. NULL is fine. */
void gs_root_destroy(struct gs_root *root);

/* Handles what is ready, waiting up to max_wait_ms for it, and decides if it can; at a
 * decision the nodes have been told when this returns. */
enum gs_rootevent gs_root_step(struct gs_root *root, int max_wait_ms);

/* From any thread: makes a waiting gs_root_step() return. */
void gs_root_wake(struct gs_root *root);

/* From any thread: Slurm ends the launch. Cancelled: decided in the next step. Else
 * the nodes have GS_ROOT_LAST_US to say why: tasks may end faster than news travel. */
void gs_root_end(struct gs_root *root, bool cancelled);

/* After the decision: the node that keeps the complete report (rank 0's, else any that
 * is connected), GS_NO_RANK = none is. */
uint32_t gs_root_keeper(const struct gs_root *root);
/* Gives a node its report; a node that is not connected is passed over. */
void gs_root_send_report(struct gs_root *root, uint32_t node, const char *report);

/* Rank 0's node has made its offer; NULL before. */
const struct gs_master *gs_root_master(const struct gs_root *root);
/* Index of the candidate that was chosen or is being tried. */
uint32_t gs_root_candidate(const struct gs_root *root);
/* What MASTER_ADDR says: the address, the node's name, or the user's own. */
const char *gs_root_master_addr(const struct gs_root *root);

/* Whether every node of the step has connected and said goodbye: then srun's launch is
 * through and it ends by itself. */
bool gs_root_all_gone(const struct gs_root *root);

#endif
