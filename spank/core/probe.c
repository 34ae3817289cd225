/* probe.c - see probe.h. The program's words are data from outside: it may be wedged,
 * gone mad, or not ours at all. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "error_private.h"
#include "probe.h"
#include "procfs.h"
#include "spawn_private.h"

/* 64 GPUs with a line per query need a tenth of it. */
#define MOST_BYTES (8 * 1024 * 1024)
#define REAP_TRIES 20
#define REAP_NS 5000000

/* What to run; at most the program, two flags, three options with a value and NULL. */
static void command(const struct gs_probe_ask *ask, const char *ret_argv[10])
{
    const struct {
        const char *name, *value;
    } options[] = {
        {"--library", ask->library},
        {"--sysfs", ask->root},
        {"--lock", ask->lock},
    };
    size_t n = 0;

    ret_argv[n++] = ask->program;
    ret_argv[n++] = "--progress";
    if (ask->inforom)
        ret_argv[n++] = "--inforom";
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (!options[i].value)
            continue;
        ret_argv[n++] = options[i].name;
        ret_argv[n++] = options[i].value;
    }
    ret_argv[n] = NULL;
}

int gs_probe_start(struct gs_probe_run *probe,
                   const struct gs_probe_ask *ask,
                   int64_t now_us,
                   struct gs_error *error)
{
    const char *argv[10];
    int ends[2], rc;

    memset(probe, 0, sizeof(*probe));
    gs_gpus_init(&probe->gpus);
    probe->whole_us = ask->whole_us ? ask->whole_us : GS_PROBE_WHOLE_US;
    probe->init_us = ask->init_us ? ask->init_us : GS_PROBE_INIT_US;
    probe->gpu_us = ask->gpu_us ? ask->gpu_us : GS_PROBE_GPU_US;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return gs_error_set(
            error, errno, "gangstart-probe: no pipe for it: %s", strerror(errno));
    /* Only this end: the program shall wait when nobody reads, not lose lines. */
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    command(ask, argv);
    rc = gs_spawn(argv, ends[1], &probe->pid);
    close(ends[1]);
    if (rc < 0) {
        close(ends[0]);
        probe->pid = 0;
        return gs_error_set(error,
                            -rc,
                            "gangstart-probe: %s cannot be run: %s; reinstall "
                            "gangstart, or name the program with probe=PATH",
                            ask->program,
                            strerror(-rc));
    }
    probe->fd = ends[0];
    probe->begun_us = probe->mark_us = now_us;
    probe->active = true;
    return 0;
}

/* Sees the program end if it does so soon; never waits for one that cannot be killed.
 */
static bool reap(struct gs_probe_run *probe, int tries)
{
    const struct timespec pause = {.tv_nsec = REAP_NS};

    for (int i = 0; probe->pid; i++) {
        pid_t got = waitpid(probe->pid, NULL, WNOHANG);
        /* Whoever hosts us may have reaped it: then it is gone just as well. */
        if (got == probe->pid || (got < 0 && errno == ECHILD))
            probe->pid = 0;
        else if (i + 1 >= tries)
            return false;
        else
            nanosleep(&pause, NULL);
    }
    return true;
}

static bool finish(struct gs_probe_run *probe)
{
    close(probe->fd);
    probe->fd = -1;
    probe->active = false;
    if (probe->pid) { /* it leads a group: what it has started goes with it */
        kill(-probe->pid, SIGKILL);
        kill(probe->pid, SIGKILL);
    }
    return reap(probe, REAP_TRIES);
}

void gs_probe_stop(struct gs_probe_run *probe)
{
    if (probe->active)
        finish(probe);
    else
        reap(probe, 1);
}

/* The GPU that hung joins those that were read, unless it was read already: then it
 * hung when it was asked for its peers. */
static void add_hung(struct gs_gpus *gpus)
{
    struct gs_gpu *gpu;

    if (!gpus->hung_gpu[0] || gpus->count >= GS_GPU_MAX)
        return;
    for (uint32_t i = 0; i < gpus->count; i++)
        if (strcmp(gpus->gpus[i].pci, gpus->hung_gpu) == 0)
            return;
    gpu = &gpus->gpus[gpus->count];
    gpu->index = gpus->count++;
    gpu->code = GS_GPU_HUNG;
    /* "index 3" is no address. */
    if (strchr(gpus->hung_gpu, ':'))
        memcpy(gpu->pci, gpus->hung_gpu, sizeof(gpu->pci));
}

static int hung(struct gs_probe_run *probe, int64_t now_us, struct gs_error *error)
{
    struct gs_gpus *gpus = &probe->gpus;
    const char *vendor = gpus->vendor[0] == 'a' ? "amdgpu" : "NVML";
    struct gs_proc proc = {.letter = '?'};
    int64_t waited = now_us - probe->mark_us;
    bool on_gpu = gpus->hung_gpu[0] != '\0', gone;
    int pid = probe->pid;
    char doing[64] = "";

    if (gs_proc_read(pid, &proc))
        snprintf(doing,
                 sizeof(doing),
                 ", in %c state%s%s",
                 proc.letter,
                 proc.wchan[0] ? " at " : "",
                 proc.wchan);
    add_hung(gpus);
    gone = finish(probe);
    if (!gpus->hung_call[0])
        return gs_error_set(error,
                            ETIMEDOUT,
                            "gangstart-probe (pid %d%s) said nothing for %.1f s; is "
                            "the program named by probe= ours?",
                            pid,
                            doing,
                            (double)waited / 1e6);
    return gs_error_set(error,
                        ETIMEDOUT,
                        "%s hung in %s%s%s for %.1f s (gangstart-probe, pid %d%s%s); "
                        "reset the GPU or reboot the node",
                        vendor,
                        gpus->hung_call,
                        on_gpu ? " on GPU " : "",
                        gpus->hung_gpu,
                        (double)waited / 1e6,
                        pid,
                        doing,
                        gone ? "" : ", left behind: it cannot be killed");
}

/* One line from the program: 0 = go on, else what gs_probe_step() returns. */
static int take_line(struct gs_probe_run *probe, int64_t now_us, struct gs_error *error)
{
    int kind = gs_probe_line_read(probe->line, &probe->gpus, error);

    switch (kind) {
    case GS_PROBE_LINE_NODE:
        probe->counted = true;
        probe->mark_us = now_us;
        return 0;
    case GS_PROBE_LINE_GPU:
        probe->mark_us = now_us;
        return 0;
    case GS_PROBE_LINE_ASKING:
        return 0;
    case GS_PROBE_LINE_COMPLETE:
        probe->gpus.hung_call[0] = '\0';
        probe->gpus.hung_gpu[0] = '\0';
        finish(probe);
        return 1;
    case GS_PROBE_LINE_ERROR:
        finish(probe);
        return -EBUSY;
    default:
        finish(probe);
        return kind;
    }
}

/* Every whole line that has arrived. */
static int take_lines(struct gs_probe_run *probe,
                      int64_t now_us,
                      struct gs_error *error)
{
    char *end;

    while ((end = memchr(probe->line, '\n', probe->got))) {
        uint32_t used = (uint32_t)(end - probe->line) + 1;
        int rc;
        *end = '\0';
        rc = take_line(probe, now_us, error);
        if (rc)
            return rc;
        probe->got -= used;
        memmove(probe->line, probe->line + used, probe->got);
    }
    if (probe->got < sizeof(probe->line) && probe->bytes < MOST_BYTES)
        return 0;
    finish(probe);
    return gs_error_set(error,
                        EPROTO,
                        "gangstart-probe: writes without end; is the program named by "
                        "probe= ours?");
}

static int ended(struct gs_probe_run *probe, struct gs_error *error)
{
    int pid = probe->pid;

    finish(probe);
    return gs_error_set(error,
                        ECHILD,
                        "gangstart-probe (pid %d) ended before it had told about all "
                        "GPUs%s%s; run it by hand to see why",
                        pid,
                        probe->gpus.hung_call[0] ? ", in " : "",
                        probe->gpus.hung_call);
}

int gs_probe_step(struct gs_probe_run *probe, int64_t now_us, struct gs_error *error)
{
    int64_t limit = probe->counted ? probe->gpu_us : probe->init_us;
    ssize_t got;
    int rc;

    if (!probe->active)
        return gs_error_set(error, ECHILD, "gangstart-probe: none is running");
    for (;;) {
        got =
            read(probe->fd, probe->line + probe->got, sizeof(probe->line) - probe->got);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        probe->got += (uint32_t)got;
        probe->bytes += (uint64_t)got;
        rc = take_lines(probe, now_us, error);
        if (rc)
            return rc;
        limit = probe->counted ? probe->gpu_us : probe->init_us;
    }
    if (got == 0)
        return ended(probe, error);
    if (now_us - probe->mark_us >= limit || now_us - probe->begun_us >= probe->whole_us)
        return hung(probe, now_us, error);
    return 0;
}
