/* root_master.c - which address of rank 0's node becomes MASTER_ADDR.
 *
 * One candidate at a time: every node probes it, all must reach it. After a failure
 * the others get a moment to report too, so that everybody who fails is known; then
 * the next candidate is tried, and when none is left the start is refused. */
#include <errno.h>
#include <string.h>

#include "root_private.h"

const struct gs_master *gs_root_master(const struct gs_root *root)
{
    return root->have_master ? &root->master : NULL;
}

uint32_t gs_root_candidate(const struct gs_root *root)
{
    return root->candidate;
}

const char *gs_root_master_addr(const struct gs_root *root)
{
    if (root->master.export_as[0] || !root->master.candidate_count)
        return root->master.export_as;
    return root->master.candidates[root->candidate].address;
}

/* Sends the probe of the current round to one node. */
void gs_root_probe(struct gs_root *root, struct gs_peer *peer, int64_t now_us)
{
    struct gs_probe probe = {
        .round = root->round,
        .port = root->master.port,
        .must_match = root->master.must_match,
    };
    struct gs_buffer body = {0};

    if (!root->have_master)
        return;
    if (root->master.candidate_count)
        memcpy(probe.address,
               root->master.candidates[root->candidate].address,
               sizeof(probe.address));
    memcpy(probe.name, root->master.export_as, sizeof(probe.name));
    gs_probe_encode(&body, &probe);
    gs_peer_send(root, peer, GS_FRAME_PROBE, &body, now_us);
    gs_wire_free(&body);
}

static void probe_all(struct gs_root *root, int64_t now_us)
{
    root->round++;
    root->misfit_us = -1;
    gs_gang_unwire(root->gang);
    for (struct gs_peer *peer = root->peers; peer; peer = peer->next)
        if (peer->node != GS_NO_RANK)
            gs_root_probe(root, peer, now_us);
}

int gs_root_on_master(struct gs_root *root,
                      const struct gs_peer *peer,
                      const struct gs_frame *frame,
                      int64_t now_us)
{
    struct gs_master master;
    int rc = gs_master_decode(frame->body, frame->size, &master, NULL);

    if (rc < 0)
        return rc;
    if (root->have_master || root->gang->tasks[0].node != master.node_index
        || !gs_peer_speaks_for(root, peer, master.node_index))
        return -EBADMSG;
    root->master = master;
    root->have_master = true;
    probe_all(root, now_us);
    return 0;
}

/* Whether every node that is connected has answered this round. */
static bool all_answered(const struct gs_root *root)
{
    return root->gang->probed_count >= root->open_count;
}

void gs_root_next_candidate(struct gs_root *root, int64_t now_us)
{
    if (root->misfit_us < 0 || root->gang->outcome != GS_WAITING)
        return;
    if (now_us < root->misfit_us + GS_ROOT_PROBE_US && !all_answered(root))
        return;
    if (root->candidate + 1 >= root->master.candidate_count) {
        gs_gang_unreachable(root->gang, now_us);
        return;
    }
    root->candidate++;
    probe_all(root, now_us);
}

int gs_root_on_reach(struct gs_root *root,
                     const struct gs_peer *peer,
                     const struct gs_frame *frame,
                     int64_t now_us)
{
    struct gs_reach reach;
    int rc = gs_reach_decode(frame->body, frame->size, &reach, NULL);

    if (rc < 0)
        return rc;
    if (!gs_peer_speaks_for(root, peer, reach.node_index))
        return -EBADMSG;
    if (reach.round != root->round)
        return 0; /* of an address given up meanwhile */
    gs_gang_reach(root->gang, &reach);
    if (reach.result != GS_REACH_OK && root->misfit_us < 0)
        root->misfit_us = now_us;
    gs_root_next_candidate(root, now_us);
    return 0;
}
