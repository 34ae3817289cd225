/* ctx_task.c - a task, forked but not yet the user's program: it waits here.
 *
 * It must stay killable whatever the release of Slurm does with signals and process
 * names, and must never outlive its slurmstepd:
 *  - its name is changed, since proctrack/linuxproc spares processes called as
 *    slurmstepd itself;
 *  - its own handlers replace the ones that some releases leave behind;
 *  - its wait has a deadline and ends when its parent changes.
 * On release everything is put back as it was and the variables are set. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctx_stepd.h"
#include "envplan.h"
#include "visible.h"

#define EXIT_NOT_READY 75
#define ABORT_MS 200 /* a signal and the abort it belongs to race: prefer the abort */

/* Stands for the announcement to come when the plan is checked before the wait
 * (RFC 5737, TEST-NET-1); it is never given to a task. */
#define PENDING_ADDR "192.0.2.1"
#define PENDING_PORT 65535

/* The first ones end the wait in order. For the others slurmstepd of 23.11 to 25.11
 * leaves handlers of its own, which would swallow them; others leave none. */
static const int signals[] = {
    SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGTSTP};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))
#define CAUGHT 3

static volatile int asked; /* the signal that came */

struct saved {
    char name[16];
    struct sigaction actions[SIGNALS];
    sigset_t mask;
};

uint64_t gs_own_network(void)
{
    struct stat info;

    return stat("/proc/self/ns/net", &info) < 0 ? 0 : info.st_ino;
}

static void on_signal(int signal)
{
    asked = signal;
}

static bool is_handled(const struct sigaction *action)
{
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

static void prepare(struct saved *saved)
{
    /* No SA_RESTART: wake up. */
    const struct sigaction ask = {.sa_handler = on_signal};
    const struct sigaction none = {.sa_handler = SIG_DFL};
    sigset_t set;

    prctl(PR_GET_NAME, saved->name);
    prctl(PR_SET_NAME, "gang-wait");
    sigemptyset(&set);
    for (size_t i = 0; i < SIGNALS; i++) {
        sigaction(signals[i], i < CAUGHT ? &ask : NULL, &saved->actions[i]);
        if (i < CAUGHT)
            sigaddset(&set, signals[i]);
        else if (is_handled(&saved->actions[i]))
            sigaction(signals[i], &none, NULL);
    }
    pthread_sigmask(SIG_UNBLOCK, &set, &saved->mask);
}

static void restore(const struct saved *saved)
{
    for (size_t i = 0; i < SIGNALS; i++)
        if (i < CAUGHT || is_handled(&saved->actions[i]))
            sigaction(signals[i], &saved->actions[i], NULL);
    pthread_sigmask(SIG_SETMASK, &saved->mask, NULL);
    prctl(PR_SET_NAME, saved->name);
}

/* Has every rank to have the same there, as far as it is the user's? */
static bool is_common(const struct gs_planvar *var)
{
    static const enum gs_env_value common[] = {
        GS_VALUE_MASTER_ADDR, GS_VALUE_MASTER_PORT, GS_VALUE_COORDINATOR};
    enum gs_env_value value = gs_env_var_value(var->var);

    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
        if (value == common[i])
            return var->action == GS_VAR_KEEP;
    return value == GS_VALUE_WORLD_SIZE;
}

/* FNV-1a over what this rank believes about the step; all ranks must agree. 0 is kept
 * for "nothing". */
static uint32_t claim_of(const struct gs_envplan *plan)
{
    uint32_t hash = 2166136261U;

    for (uint32_t i = 0; i < plan->vars; i++) {
        bool common = is_common(&plan->var[i]);

        for (const char *c = plan->var[i].value; common && *c; c++)
            hash = (hash ^ (unsigned char)*c) * 16777619U;
    }
    return hash ? hash : 1;
}

static int make_plan(spank_t sp,
                     const struct gs_step *step,
                     const struct gs_go *go,
                     struct gs_envplan *ret_plan)
{
    struct gs_envfacts facts;
    struct gs_error error;
    char **env = NULL;
    int rc;

    gs_envfacts_init(&facts);
    facts.gang_on = true;
    facts.step_id = step->step_id;
    facts.step = step->name;
    facts.presets = step->spec.env_presets;
    facts.without = step->spec.env_without;
    facts.port_lo = step->spec.port_lo;
    facts.port_hi = step->spec.port_hi;
    facts.report = step->report;
    facts.master_addr = go ? go->master_addr : PENDING_ADDR;
    facts.master_port = go ? go->master_port : PENDING_PORT;
    facts.items.local_world = step->page->slot_count;
    facts.t0 = go ? (double)go->t0_us / 1e6 : 0;
    if (spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS || !env)
        return -ENOENT;
    rc = gs_envplan_make((const char *const *)env, &facts, ret_plan, &error);
    return rc;
}

/* Whether this task could execute path: 0 or errno. */
static int can_execute(const char *path)
{
    struct stat info;

    if (stat(path, &info) < 0)
        return errno;
    if (S_ISDIR(info.st_mode))
        return EISDIR;
    return access(path, X_OK) < 0 ? errno : 0;
}

/* errno of executing the step's program from here, found as execvp finds it; 0 = fine,
 * or not a plain program (--multi-prog gives a table instead). */
static int check_program(spank_t sp)
{
    char search[8192], path[4096], **argv = NULL;
    const char *dir = search;
    int argc = 0, code = ENOENT;

    if (spank_get_item(sp, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1
        || !argv[0][0] || strpbrk(argv[0], " \t\n"))
        return 0;
    if (strchr(argv[0], '/'))
        return can_execute(argv[0]);
    if (spank_getenv(sp, "PATH", search, sizeof(search)) != ESPANK_SUCCESS)
        return 0;
    while (code && *dir) {
        size_t size = strcspn(dir, ":");
        snprintf(path, sizeof(path), "%.*s/%s", (int)size, dir, argv[0]);
        code = can_execute(path);
        dir += size + (dir[size] == ':');
    }
    return code;
}

static void apply(spank_t sp, const struct gs_envplan *plan)
{
    for (uint32_t i = 0; i < plan->vars; i++) {
        const struct gs_planvar *var = &plan->var[i];
        if (var->action == GS_VAR_SET)
            spank_setenv(sp, var->name, var->value, 1);
        else if (var->action == GS_VAR_UNSET)
            spank_unsetenv(sp, var->name);
    }
}

static void leave_on_signal(const struct gs_step *step, struct gs_slot *slot)
{
    atomic_store(&slot->state, GS_SLOT_ASKED);
    _exit(gs_page_aborted_within(step->page, ABORT_MS)
              ? (int)atomic_load(&step->page->shared->code)
              : 128 + asked);
}

/* Says so before it waits: nobody may be started into an environment that cannot
 * work, and the reason must reach srun. */
static void refuse_plan(struct gs_slot *slot, const char *text)
{
    snprintf(slot->text, sizeof(slot->text), "%.*s", (int)sizeof(slot->text) - 1, text);
    atomic_store(&slot->state, GS_SLOT_CONFIG);
    _exit(GS_EXIT_CONFIG);
}

/* Where a node of the step decides, its words go through one of its tasks. */
static void print_words(const struct gs_step *step, uint32_t local)
{
    char words[sizeof(step->page->shared->words)], *line = words, *end;

    if (!step->page->shared->words[0] || step->page->shared->printer != local)
        return;
    memcpy(words, step->page->shared->words, sizeof(words));
    words[sizeof(words) - 1] = '\0';
    for (; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        slurm_spank_log("%s", line);
    }
}

static void wait_for_start(const struct gs_step *step, struct gs_slot *slot, int parent)
{
    switch (gs_page_wait(step->page, parent, &asked)) {
    case GS_END_GO:
        print_words(step, (uint32_t)(slot - step->page->shared->slots));
        return;
    case GS_END_SIGNAL:
        leave_on_signal(step, slot);
        break;
    case GS_END_ABORT:
        print_words(step, (uint32_t)(slot - step->page->shared->slots));
        _exit((int)atomic_load(&step->page->shared->code));
    default:
        _exit(EXIT_NOT_READY);
    }
}

static uint32_t env_number(spank_t sp, const char *name)
{
    char text[32];

    if (spank_getenv(sp, name, text, sizeof(text)) != ESPANK_SUCCESS)
        return GS_NO_RANK;
    return (uint32_t)strtoul(text, NULL, 10);
}

/* Which of the node's GPUs this task's cgroup lets it open. access() asks exactly that,
 * without waking a GPU as open() would. 0: there is nothing to restrict. */
static uint64_t may_open(void)
{
    uint64_t open = 0, denied = 0;
    char path[32];

    for (unsigned i = 0; i < 64; i++) {
        snprintf(path, sizeof(path), "/dev/nvidia%u", i);
        if (access(path, R_OK | W_OK) == 0)
            open |= UINT64_C(1) << i;
        else
            denied |= (uint64_t)(errno == EPERM || errno == EACCES) << i;
    }
    return denied ? open : 0;
}

/* The step's GPUs. Those of the job are told for the node of its script only, and a
 * step of such a job that has none of its own was given none. */
static void find_granted(spank_t sp, struct gs_slot *slot)
{
    static const char *const of_job[] = {"SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE"};
    char text[8];

    if (spank_getenv(sp, "SLURM_STEP_GPUS", slot->granted, sizeof(slot->granted))
        == ESPANK_SUCCESS)
        return;
    slot->granted[0] = '\0';
    for (size_t i = 0; i < sizeof(of_job) / sizeof(of_job[0]); i++)
        if (spank_getenv(sp, of_job[i], text, sizeof(text)) != ESPANK_ENV_NOEXIST)
            snprintf(slot->granted, sizeof(slot->granted), GS_NO_DEVICES);
}

static void fill_slot(spank_t sp,
                      const struct gs_step *step,
                      struct gs_slot *slot,
                      const struct gs_envplan *plan)
{
    uint64_t network = gs_own_network();
    int visible = -1;

    if (spank_getenv(sp,
                     "CUDA_VISIBLE_DEVICES",
                     slot->visible_devices,
                     sizeof(slot->visible_devices))
        == ESPANK_SUCCESS)
        visible = gs_visible_count(slot->visible_devices);
    find_granted(sp, slot);
    atomic_store(&slot->open, may_open());
    atomic_store(&slot->rank, env_number(sp, "SLURM_PROCID"));
    atomic_store(&slot->node, env_number(sp, "SLURM_NODEID"));
    atomic_store(&slot->visible, visible < 0 ? GS_NO_RANK : (uint32_t)visible);
    atomic_store(&slot->claim, claim_of(plan));
    atomic_store(&slot->program, (uint32_t)check_program(sp));
    atomic_store(&slot->apart, network && step->network && network != step->network);
}

int gs_task_init(spank_t sp)
{
    static bool done;
    struct gs_step *step = gs_stepd_step();
    struct gs_envplan plan;
    struct gs_slot *slot;
    struct gs_go go;
    struct saved saved;
    int parent = getppid(), local = -1;

    if (!step || done)
        return 0;
    done = true;
    prepare(&saved);
    if (!step->page || spank_get_item(sp, S_TASK_ID, &local) != ESPANK_SUCCESS
        || local < 0 || (uint32_t)local >= step->page->slot_count
        || parent != step->stepd_pid)
        _exit(EXIT_NOT_READY);
    slot = &step->page->shared->slots[local];
    if (make_plan(sp, step, NULL, &plan) < 0)
        refuse_plan(slot, "the task's environment cannot be read");
    if (plan.outcome == GS_PLAN_FAIL)
        refuse_plan(slot, plan.text);
    fill_slot(sp, step, slot, &plan);
    gs_envplan_clear(&plan);
    gs_slot_arrive(step, slot);
    wait_for_start(step, slot, parent);
    go = step->page->shared->go;
    go.master_addr[sizeof(go.master_addr) - 1] = '\0'; /* siblings can write there */
    if (make_plan(sp, step, &go, &plan) < 0 || plan.outcome != GS_PLAN_INJECT)
        _exit(EXIT_NOT_READY);
    apply(sp, &plan);
    gs_envplan_clear(&plan);
    restore(&saved);
    return 0;
}
