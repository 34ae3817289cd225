/* plugin.h - what the plugin's files share inside one process.
 *
 * One process is in one context (srun, sbatch/salloc, slurmstepd, a task, a hook), so
 * there is one struct per context file and nothing global beyond the spec.
 */
#ifndef GS_PLUGIN_H
#define GS_PLUGIN_H

#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "spec.h"
#include "wire.h"

#define GS_PLUGIN "gangstart"
#define GS_RDZV_ENV "SLURM_GANG_RDZV"
#define GS_RDZV_SIZE (GS_SPEC_TEXT_SIZE + 256)
#define GS_EXIT_CONFIG 78

/* The SPEC of this process: plugstack.conf, then environment, then flag. */
extern struct gs_spec gs_spec;
/* The user said `off`: auto= of plugstack.conf does not switch it on again. */
extern bool gs_switched_off;

/* What is wrong in plugstack.conf ("" = nothing). It only matters to steps that ask
 * for a gang start. */
extern struct gs_error gs_site_error;

/* What srun tells the nodes' plugins, as one variable that never reaches a task. */
struct gs_rdzv {
    uint16_t port;           /* srun's, 0 = rendezvous=node */
    uint16_t first_ports[2]; /* the first node's, where srun cannot be reached */
    uint32_t restart_count;
    uint8_t key[GS_KEY_SIZE];
    struct gs_spec spec; /* the user's keys */
};

/* options.c */
void gs_options_register(spank_t sp);
void gs_options_site(int argc, char **argv);
void gs_options_environment(bool is_srun);
/* Slurm has read the options. What was set for it would look like a flag to the sruns
 * that the tasks start, and beat a SLURM_GANG_START of theirs. */
void gs_options_done(void);
void gs_options_refuse(const struct gs_error *error) __attribute__((noreturn));

/* rdzv.c */
int gs_rdzv_encode(const struct gs_rdzv *rdzv, char *out, size_t size);
int gs_rdzv_decode(const char *text, struct gs_rdzv *ret_rdzv, struct gs_error *error);

/* The hooks of each context; all return 0 (see dispatch.c). */
int gs_srun_post_opt(spank_t sp);
int gs_srun_launch(spank_t sp);
int gs_srun_exit(void);
int gs_stepd_post_opt(spank_t sp);
int gs_stepd_forked(spank_t sp);
int gs_stepd_task_exit(spank_t sp);
int gs_stepd_exit(void);
int gs_task_init(spank_t sp);
int gs_job_prolog(spank_t sp);
int gs_job_epilog(spank_t sp);

/* slurmconf.c: facts from the loaded slurm.conf; neutral answers where there are none.
 */
struct gs_portrules;
void gs_slurm_avoid(struct gs_portrules *rules);
void gs_slurm_srun_range(uint16_t *ret_lo, uint16_t *ret_hi);
const char *gs_slurm_cluster(void);
uint16_t gs_slurm_slurmd_port(void);
/* Whether nodes run a Prolog when a step is launched rather than at allocation. */
bool gs_slurm_prolog_at_launch(void);

/* neighbours.c: names of the other plugins of plugstack.conf, all or those listed
 * before this one, that have a hook, such as "slurm_spank_task_init": "a, b", "" =
 * none. What does not fit is left out. Waits for the loader's lock: not for a task,
 * which may have been forked while it was taken. */
void gs_neighbours(const char *hook, bool all, char *ret_names, size_t size);

/* asked.c: whether this srun's own command line or environment asks for GPUs; not to
 * wait for the step (--async); to start the daemons of another launcher, such as
 * mpirun, which starts the tasks then (--external-launcher). */
bool gs_asked_for_gpus(void);
bool gs_asked_not_to_wait(void);
bool gs_asked_for_launcher(void);

/* userreport.c: the user's own copy of the report; where it went, "" = nowhere. */
void gs_user_report(const struct gs_spec *spec,
                    const char *cluster,
                    uint32_t job_id,
                    uint32_t step_id,
                    const char *report,
                    char ret_path[GS_SPEC_REPORT_SIZE]);

/* Whether a step id is that of a normal step: not batch, extern, interactive. */
bool gs_is_normal_step(uint32_t step_id);

#endif
