/* slurmapi.c - slurm_*: the log, the step's layout, the loaded slurm.conf. */
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

extern slurm_conf_t slurm_conf;
extern uint16_t *slurm_get_srun_port_range(void);

slurm_conf_t slurm_conf = {
    .cluster_name = (char[]){"plain"},
    .slurmctld_port = 6817,
    .slurmctld_port_count = 1,
    .slurmd_port = 6818,
};

uint16_t *slurm_get_srun_port_range(void)
{
    return NULL; /* SrunPortRange is not set */
}

/* srun shows info and errors; of slurmstepd only errors come through to the user. */
static void say(const char *level, const char *format, va_list ap)
{
    bool shown = phase.context != S_CTX_REMOTE || strcmp(level, "info") != 0;
    char text[1500];

    vsnprintf(text, sizeof(text), format, ap);
    event("log",
          "\"who\": %s, \"level\": \"%s\", \"text\": %s",
          quoted(who()),
          level,
          quoted(text));
    if (!shown)
        return;
    if (strcmp(level, "user") == 0)
        fprintf(stderr, "%s\n", text);
    else
        fprintf(
            stderr, "%s: %s%s\n", who(), strcmp(level, "info") ? "error: " : "", text);
}

#define LOGGER(name, level)                                                            \
    void name(const char *format, ...)                                                 \
    {                                                                                  \
        va_list ap;                                                                    \
        va_start(ap, format);                                                          \
        say(level, format, ap);                                                        \
        va_end(ap);                                                                    \
    }

LOGGER(slurm_error, "error")
LOGGER(slurm_info, "info")
LOGGER(slurm_spank_log, "user")

static char *node_list(void)
{
    char text[2048] = "";
    size_t used = 0;

    if (host.list)
        return strdup(host.list);
    for (uint32_t i = 0; i < host.node_count; i++)
        used += (size_t)snprintf(
            text + used, sizeof(text) - used, "%s%s", i ? "," : "", host.nodes[i].name);
    return strdup(text);
}

slurm_step_layout_t *slurm_job_step_layout_get(slurm_step_id_t *id)
{
    slurm_step_layout_t *layout;

    if (host.no_layout || id->job_id != host.job_id || id->step_id != host.step_id
        || id->step_het_comp != NO_VAL)
        return NULL;
    layout = calloc(1, sizeof(*layout));
    layout->node_cnt = host.node_count;
    layout->task_cnt = host.rank_count;
    layout->node_list = node_list();
    layout->tasks = calloc(host.node_count, sizeof(*layout->tasks));
    layout->tids = calloc(host.node_count, sizeof(*layout->tids));
    for (uint32_t i = 0; i < host.node_count; i++) {
        layout->tasks[i] = host.nodes[i].rank_count;
        layout->tids[i] = calloc(host.nodes[i].rank_count, sizeof(uint32_t));
        memcpy(layout->tids[i],
               host.nodes[i].ranks,
               host.nodes[i].rank_count * sizeof(uint32_t));
    }
    return layout;
}

void slurm_job_step_layout_free(slurm_step_layout_t *layout)
{
    for (uint32_t i = 0; i < layout->node_cnt; i++)
        free(layout->tids[i]);
    free(layout->tids);
    free(layout->tasks);
    free(layout->node_list);
    free(layout);
}
