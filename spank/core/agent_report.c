/* agent_report.c - the report of the start, as it comes from the one who decided. */
#include <errno.h>
#include <sys/stat.h>

#include "agent_private.h"

int gs_agent_on_report(struct gs_agent *agent, const struct gs_frame *frame)
{
    const char *dir = agent->conf.spool_dir;
    uint32_t node;
    size_t size = frame->size - 4;

    if (gs_index_decode(frame->body, frame->size, &node) < 0)
        return -EBADMSG;
    if (node != agent->conf.hello.node_index) {
        gs_relay_one(&agent->relay, &agent->mac, node, frame);
        return 0;
    }
    if (!agent->report_open && !agent->report_lost && dir[0]) {
        agent->report_open =
            gs_spoolfile_begin(&agent->report, dir, "start.json", NULL) == 0;
        /* The job reads it, whatever the umask it gave its slurmstepd. */
        if (agent->report_open)
            fchmod(agent->report.fd, 0644);
    }
    if (size == 0)
        agent->report_done = true;
    if (!agent->report_open)
        return 0;
    if (size == 0)
        gs_spoolfile_commit(&agent->report);
    else if ((agent->report_size += size) <= GS_AGENT_REPORT_MAX
             && gs_spoolfile_write(&agent->report, frame->body + 4, size) == 0)
        return 0;
    else
        gs_spoolfile_cancel(&agent->report);
    agent->report_lost = size > 0; /* what may still come is not the whole of it */
    agent->report_open = false;
    return 0;
}
