/* slurmconf.c - ports and names from the slurm.conf that the host process has loaded.
 *
 * Reached by dlsym, since these are not part of the plugin interface: where a release
 * does not have them, Slurm's documented defaults are assumed. */
#include <dlfcn.h>
#include <slurm/slurm.h>
#include <stdlib.h>

#include "plugin.h"
#include "portpick.h"
#include "slurmabi.h"

#define CONF(type, field) GS_SLURM_AT(type, loaded(), gs_slurm_abi.conf_##field)

static const void *loaded(void)
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
    uint16_t lo, hi;

    gs_slurm_srun_range(&lo, &hi);
    avoid(rules, lo, hi);
    if (!loaded())
        return;
    lo = (uint16_t)CONF(uint32_t, ctld_port);
    hi = CONF(uint16_t, ctld_port_count);
    avoid(rules, lo, lo + (uint32_t)hi - (hi ? 1 : 0));
    avoid(rules, CONF(uint32_t, slurmd_port), CONF(uint32_t, slurmd_port));
}

const char *gs_slurm_cluster(void)
{
    const char *name = loaded() ? CONF(const char *, cluster_name) : NULL;

    return name ? name : "cluster";
}

uint16_t gs_slurm_slurmd_port(void)
{
    uint32_t port = loaded() ? CONF(uint32_t, slurmd_port) : 0;

    return port ? (uint16_t)port : 6818;
}

/* One path, or a list of them. */
static bool has_prolog(void)
{
    const void *prolog = loaded() ? CONF(const void *, prolog) : NULL;

    return prolog
           && (gs_slurm_abi.prolog_is_list ? *(const char *const *)prolog != NULL
                                           : *(const char *)prolog != '\0');
}

bool gs_slurm_prolog_at_launch(void)
{
    return has_prolog() && !(CONF(uint16_t, prolog_flags) & PROLOG_FLAG_ALLOC);
}
