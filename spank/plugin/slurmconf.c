/* slurmconf.c - ports and names from the slurm.conf that the host process has loaded.
 *
 * Reached by dlsym, since these are not part of the plugin interface: where a release
 * does not have them, Slurm's documented defaults are assumed. */
#include <dlfcn.h>
#include <slurm/slurm.h>
#include <stdlib.h>

#include "plugin.h"
#include "portpick.h"

static const slurm_conf_t *loaded(void)
{
    return dlsym(RTLD_DEFAULT, "slurm_conf");
}

static void avoid(struct gs_portrules *rules, uint32_t lo, uint32_t hi)
{
    if (!lo || hi < lo || hi > 65535 || rules->avoid_count >= GS_PORT_RANGES)
        return;
    rules->avoid[rules->avoid_count].lo = (uint16_t)lo;
    rules->avoid[rules->avoid_count++].hi = (uint16_t)hi;
}

void gs_slurm_srun_range(uint16_t *ret_lo, uint16_t *ret_hi)
{
    uint16_t *(*range)(void) = NULL;
    const uint16_t *found;

    *(void **)&range = dlsym(RTLD_DEFAULT, "slurm_get_srun_port_range");
    found = range ? range() : NULL;
    *ret_lo = found ? found[0] : 0;
    *ret_hi = found ? found[1] : 0;
}

void gs_slurm_avoid(struct gs_portrules *rules)
{
    const slurm_conf_t *conf = loaded();
    uint16_t lo, hi;

    gs_slurm_srun_range(&lo, &hi);
    avoid(rules, lo, hi);
    if (!conf)
        return;
    if (conf->slurmctld_port)
        avoid(rules,
              conf->slurmctld_port,
              conf->slurmctld_port + conf->slurmctld_port_count
                  - (conf->slurmctld_port_count ? 1 : 0));
    avoid(rules, conf->slurmd_port, conf->slurmd_port);
}

const char *gs_slurm_cluster(void)
{
    const slurm_conf_t *conf = loaded();

    return conf && conf->cluster_name ? conf->cluster_name : "cluster";
}

uint16_t gs_slurm_slurmd_port(void)
{
    const slurm_conf_t *conf = loaded();

    return conf && conf->slurmd_port ? (uint16_t)conf->slurmd_port : 6818;
}

bool gs_slurm_prolog_at_launch(void)
{
    const slurm_conf_t *conf = loaded();

    return conf && conf->prolog && conf->prolog[0]
           && !(conf->prolog_flags & PROLOG_FLAG_ALLOC);
}
