/* options.c - --gang-start[=SPEC], SLURM_GANG_START and plugstack.conf arguments.
 *
 * A bad option or variable ends the command at once with one sentence and exit code
 * 78; nothing has been allocated or launched by then. A bad plugstack.conf is only
 * remembered: it must not break steps that did not ask for anything. */
#include <dlfcn.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "envplan.h"
#include "plugin.h"
#include "policy.h"

/* Slurm turns such a variable into the option, forwards it, and lets the command line
 * come after it. Dashes become underscores. */
#define OPTION_ENV "SLURM_SPANK__SLURM_SPANK_OPTION_gangstart_gang_start"

struct gs_spec gs_spec;
bool gs_switched_off;
struct gs_error gs_site_error;
static struct gs_error env_error; /* in SLURM_GANG_START, "" = none */
static bool option_env_is_ours;

void gs_options_refuse(const struct gs_error *error)
{
    slurm_error("gang-start: %s", error->text);
    exit(GS_EXIT_CONFIG);
}

static int on_option(int value, const char *text, int remote)
{
    struct gs_error error;

    (void)value;
    if (remote)
        return 0; /* srun has judged it and tells the node what holds */
    if (gs_spec_parse(&gs_spec, text, &error) < 0)
        gs_options_refuse(&error);
    gs_switched_off = !gs_spec.on;
    return 0;
}

void gs_options_register(spank_t sp)
{
    static char name[] = "gang-start", arginfo[] = "[SPEC]";
    static char usage[] = "start no task before all are there; SPEC: seconds, off, "
                          "or key=value,...  (see gangstart(1))";
    static struct spank_option option = {
        .name = name,
        .arginfo = arginfo,
        .usage = usage,
        .has_arg = 2,
        .cb = on_option,
    };

    /* sbatch, salloc and srun users would see "unrecognized option" and wonder. */
    if (spank_option_register(sp, &option) != ESPANK_SUCCESS)
        slurm_info(
            "gangstart: --gang-start cannot be registered: another plugin has an "
            "option of that name");
}

/* The probe is installed beside the plugin. */
static void find_probe(void)
{
    Dl_info self;
    const char *slash;

    gs_spec.probe[0] = '\0';
    if (!dladdr(&gs_spec, &self) || !self.dli_fname
        || !(slash = strrchr(self.dli_fname, '/')))
        return;
    snprintf(gs_spec.probe,
             sizeof(gs_spec.probe),
             "%.*s/gangstart-probe",
             (int)(slash - self.dli_fname),
             self.dli_fname);
}

void gs_options_site(int argc, char **argv)
{
    struct gs_error error;

    find_probe();
    snprintf(gs_spec.conf, sizeof(gs_spec.conf), "%s", GS_POLICY_FILE);
    for (int i = 0; i < argc; i++)
        if (gs_spec_arg(&gs_spec, argv[i], &error) < 0 && !gs_site_error.text[0])
            snprintf(gs_site_error.text,
                     sizeof(gs_site_error.text),
                     "plugstack.conf: %.480s",
                     error.text);
}

/* What a gang start of an outer step left in this environment is not the user's and
 * is wrong for whatever is started from here. */
static void forget_outer_step(void)
{
    char names[GS_VAR_COUNT][GS_ENV_NAME_SIZE];
    uint32_t count =
        gs_envplan_stale((const char *const *)environ, NULL, names, GS_VAR_COUNT);

    for (uint32_t i = 0; i < count; i++)
        unsetenv(names[i]);
    unsetenv(GS_RDZV_ENV);
}

void gs_options_environment(bool is_srun)
{
    const char *text = getenv("SLURM_GANG_START");
    struct gs_spec trial = gs_spec;
    struct gs_error error;

    forget_outer_step();
    if (!text || !text[0]) /* set but empty is not set */
        return;
    /* Judged when the flag is known: it may switch off what is wrong here. */
    if (gs_spec_parse(&trial, text, &error) < 0) {
        snprintf(env_error.text,
                 sizeof(env_error.text),
                 "SLURM_GANG_START: %.480s",
                 error.text);
        return;
    }
    /* From sbatch and salloc the variable itself travels on. */
    option_env_is_ours = is_srun && !getenv(OPTION_ENV);
    if (option_env_is_ours)
        setenv(OPTION_ENV, text, 1);
}

void gs_options_done(void)
{
    if (env_error.text[0] && !gs_switched_off)
        gs_options_refuse(&env_error);
    if (option_env_is_ours)
        unsetenv(OPTION_ENV);
}
