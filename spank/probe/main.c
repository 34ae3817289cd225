/* main.c - gangstart-probe: reads this node's GPUs and prints what it found, one line
 * of JSON per GPU as it is read, then one for the node and one with the verdict.
 *
 * Made to be started, watched and killed by somebody else (the plugin, a Prolog, a
 * person): it keeps nothing open but standard input and outputs, dies with its parent,
 * is the first the kernel kills when memory is short, and runs once per node at a time.
 * Knobs: see options[]; no environment. Failure: {"error":"..."} as the only or last
 * line and on stderr, exit 64 (usage), 73 (lock file), 75 (another one holds the lock).
 * A GPU that cannot be read is no failure of the program: its line says so, exit 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "amd.h"
#include "clock_private.h"
#include "facts.h"
#include "gpusys_private.h"
#include "lock.h"
#include "nvml.h"
#include "print.h"
#include "probeline.h"
#include "verdictline.h"

#define EXIT_USAGE 64

/* What was asked for; a text is NULL until its option is seen. */
static struct {
    const char *library, *sysfs, *lock, *conf;
    bool json, progress, inforom, help, version, facts;
} asked;
/* The same for --facts. */
static struct gs_facts_ask facts;

static const struct {
    const char *name;
    const char **text; /* takes a value */
    bool *flag;        /* takes none */
    const char *value, *help;
    struct gs_facts_list *list; /* takes one, several times */
} options[] = {
    {"--library", &asked.library, NULL, "PATH", "use this libnvidia-ml.so.1", NULL},
    {"--sysfs", &asked.sysfs, NULL, "ROOT", "read ROOT/sys and ROOT/proc/driver", NULL},
    {"--lock", &asked.lock, NULL, "PATH", "lock file (root: " GS_PROBE_LOCK ")", NULL},
    {"--conf", &asked.conf, NULL, "PATH", "judge by this gangstart.conf", NULL},
    {"--inforom",
     NULL,
     &asked.inforom,
     "",
     "validate the InfoROM too: root, seconds",
     NULL},
    {"--progress", NULL, &asked.progress, "", "a line before each query as well", NULL},
    {"--json",
     NULL,
     &asked.json,
     "",
     "lines of JSON: the only form, and the default",
     NULL},
    {"--version", NULL, &asked.version, "", "print the version", NULL},
    {"--help", NULL, &asked.help, "", "print this", NULL},
    {"--facts", NULL, &asked.facts, "", "what doctor asks: KEY=VALUE, with:", NULL},
    {"--plugin", &facts.plugin, NULL, "PATH", "the file of the plugin", NULL},
    {"--file",
     NULL,
     NULL,
     "PATH",
     "tell when it was changed (repeatable)",
     &facts.file},
    {"--connect", NULL, NULL, "ADDR:PORT", "try it (repeatable)", &facts.connect},
    {"--iface", &facts.iface, NULL, "NAME", "interface or network to choose", NULL},
    {"--node", &facts.node, NULL, "NAME", "this node's name in Slurm", NULL},
    {"--spool", &facts.spool, NULL, "DIR", "the spool", NULL},
    {"--archive", &facts.archive, NULL, "DIR", "the archive", NULL},
    {"--munge", &facts.munge, NULL, "SOCKET", "munged's socket", NULL},
};

#define OPTIONS (sizeof(options) / sizeof(options[0]))

static void print_help(void)
{
    printf("usage: gangstart-probe [OPTION...]\n"
           "Reads this node's GPUs; prints a line of JSON for each and one for the "
           "node.\n");
    for (size_t i = 0; i < OPTIONS; i++) {
        printf("  %s %-*s %s\n",
               options[i].name,
               15 - (int)strlen(options[i].name),
               options[i].value,
               options[i].help);
    }
}

static bool take_value(const char **text, struct gs_facts_list *list, const char *value)
{
    if (text)
        *text = value;
    else if (list->count < GS_FACTS_LIST)
        list->value[list->count++] = value;
    else
        return false;
    return true;
}

static bool take_option(char *const *argv, int *at)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        size_t size = strlen(options[i].name);
        const char *given = argv[*at];
        if (options[i].flag && strcmp(given, options[i].name) == 0) {
            *options[i].flag = true;
            return true;
        }
        if (options[i].flag || strncmp(given, options[i].name, size) != 0)
            continue;
        if (given[size] == '=')
            return take_value(options[i].text, options[i].list, given + size + 1);
        if (!given[size] && argv[*at + 1])
            return take_value(options[i].text, options[i].list, argv[++*at]);
    }
    return false;
}

static int take_options(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++) {
        if (take_option(argv, &i))
            continue;
        return gs_probe_complain(
            EXIT_USAGE,
            "gangstart-probe: option '%.60s' is unknown or lacks its value; --help "
            "lists the options",
            argv[i]);
    }
    return 0;
}

/* Whoever starts this may have changed signals, or have descriptors open without
 * close-on-exec that must not live on in a process that cannot be killed. */
static void detach(void)
{
    sigset_t none;
    int fd;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 1; i < NSIG; i++)
        if (i != SIGKILL && i != SIGSTOP)
            signal(i, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        /* Worth a try only: some containers do not allow it. */
        if (write(fd, "1000", 4) < 0)
            errno = 0;
        close(fd);
    }
    if (syscall(SYS_close_range, 3U, ~0U, 0) < 0)
        for (long i = sysconf(_SC_OPEN_MAX) - 1; i >= 3; i--)
            close((int)i);
}

static int probe_nvidia(struct gs_nvml_progress *progress, struct gs_gpus *gpus)
{
    const struct gs_nvml_source source = {
        .library = asked.library, .root = asked.sysfs, .inforom = asked.inforom};
    struct gs_nvml *nvml;

    if (gs_nvml_open(&source, progress, gpus, &nvml) < 0)
        return gs_probe_complain(EXIT_FAILURE, "gangstart-probe: out of memory");
    if (asked.progress)
        gs_probe_print_line(gs_gpus_line(gpus, false));
    for (uint32_t i = 0; i < gpus->told && i < GS_GPU_MAX; i++) {
        gs_nvml_read(nvml, i, gpus);
        gs_probe_print_line(gs_gpu_line(&gpus->gpus[i]));
    }
    gs_nvml_read_peers(nvml, gpus);
    gs_nvml_close(nvml);
    return 0;
}

static void probe_amd(struct gs_nvml_progress *progress, struct gs_gpus *gpus)
{
    if (asked.progress)
        gs_probe_print_line(gs_gpus_line(gpus, false));
    for (uint32_t i = 0; i < gpus->told && i < GS_GPU_MAX; i++) {
        gs_amd_read(asked.sysfs, i, progress, gpus);
        gs_probe_print_line(gs_gpu_line(&gpus->gpus[i]));
    }
}

/* AMD is asked where its driver is and no NVIDIA GPU: processors with a small AMD GPU
 * inside sit next to NVIDIA's GPUs too. */
static bool is_amd(const struct gs_gpus *amd)
{
    struct gs_bus nvidia;

    gs_bus_read(asked.sysfs ? asked.sysfs : "", "0x10de", &nvidia);
    return amd->driver_loaded && amd->told && nvidia.count == 0;
}

static int probe(struct gs_gpus *gpus)
{
    struct gs_nvml_progress progress = {.out = asked.progress ? STDOUT_FILENO : -1};
    int code = 0;

    gs_amd_open(asked.sysfs, gpus);
    if (is_amd(gpus))
        probe_amd(&progress, gpus);
    else
        code = probe_nvidia(&progress, gpus);
    if (code)
        return code;
    gpus->took_us = gs_clock_wall_us() - gpus->taken_us;
    gs_probe_print_line(gs_gpus_line(gpus, true));
    /* A caller that wants to know of each query judges by itself, and may look again.
     */
    return asked.progress ? 0 : gs_probe_verdict(gpus, asked.conf);
}

int main(int argc, char **argv)
{
    static struct gs_gpus gpus;
    int code = take_options(argc, argv);

    if (code)
        return code;
    if (asked.help || asked.version) {
        if (asked.help)
            print_help();
        else
            puts("gangstart-probe " GS_VERSION);
        return 0;
    }
    detach();
    if (asked.facts) {
        facts.library = asked.library;
        facts.sysfs = asked.sysfs;
        return gs_facts_print(&facts);
    }
    /* A user's own look is not counted: the lock is root's. */
    if (asked.lock || geteuid() == 0)
        code = gs_probe_lock(asked.lock ? asked.lock : GS_PROBE_LOCK);
    return code ? code : probe(&gpus);
}
