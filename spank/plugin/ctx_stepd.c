/* ctx_stepd.c - slurmstepd of a gang step: prepares before the fork, wakes the
 * aggregator thread when all tasks are forked, tells it about deaths, ends it.
 *
 * Only task_init may block, so nothing here does: the thread is made early and parked
 * (with contain_spank later hooks run in short-lived clones), and everything that
 * touches network or files happens in it. Problems found here are told to srun by the
 * thread; slurmstepd itself carries on. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent_private.h"
#include "clock_private.h"
#include "ctx_stepd.h"
#include "hostlist.h"

#define LAUNCH_FAILED_MS 1500

static struct {
    bool active, unparked, running;
    struct gs_step step;
    struct gs_agent *agent;
    pthread_t thread;
    sem_t park;
    uint32_t uid, gid;
    uint32_t *ranks;
    bool *forked;
    uint32_t forked_count;
} stepd;

struct gs_step *gs_stepd_step(void)
{
    return stepd.active ? &stepd.step : NULL;
}

void gs_slot_arrive(const struct gs_step *step, struct gs_slot *slot)
{
    uint64_t one = 1;
    ssize_t put;

    atomic_store(&slot->arrived_us, gs_clock_now_us());
    atomic_store(&slot->state, GS_SLOT_ARRIVED);
    put = write(step->wake_fd, &one, sizeof(one));
    (void)put; /* the aggregator looks at the slots every slice anyway */
}

static uint32_t env_number(spank_t sp, const char *name)
{
    char text[32];

    if (spank_getenv(sp, name, text, sizeof(text)) != ESPANK_SUCCESS)
        return 0;
    return (uint32_t)strtoul(text, NULL, 10);
}

static int read_ranks(spank_t sp, uint32_t count)
{
    stepd.ranks = calloc(count, sizeof(*stepd.ranks));
    stepd.forked = calloc(count, sizeof(*stepd.forked));
    if (!count || !stepd.ranks || !stepd.forked)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        if (spank_get_item(sp, S_JOB_LOCAL_TO_GLOBAL_ID, i, &stepd.ranks[i])
            != ESPANK_SUCCESS)
            return -EINVAL;
    return 0;
}

static void read_ephemeral(struct gs_portrules *rules)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    unsigned lo, hi;

    gs_portrules_init(rules);
    if (!file)
        return;
    if (fscanf(file, "%5u %5u", &lo, &hi) == 2 && lo <= hi && hi <= 65535) {
        rules->eph_lo = (uint16_t)lo;
        rules->eph_hi = (uint16_t)hi;
    }
    fclose(file);
}

static void fill_hold(struct gs_holdconf *hold)
{
    read_ephemeral(&hold->rules);
    gs_slurm_avoid(&hold->rules);
    if (gs_spec.port_lo) {
        hold->rules.allowed[0].lo = (uint16_t)gs_spec.port_lo;
        hold->rules.allowed[0].hi = (uint16_t)gs_spec.port_hi;
        hold->rules.allowed_count = 1;
    }
    hold->job_id = stepd.step.job_id;
    hold->step_id = stepd.step.step_id;
    snprintf(hold->lock_dir, sizeof(hold->lock_dir), "%s", gs_spec.spool);
}

/* Names of the step's nodes. In a step of several parts slurmstepd's own numbers are
 * those of its part, and the list is in another order than the nodes' indices. */
static void read_nodes(spank_t sp, struct gs_agentconf *conf)
{
    static char list[1 << 20];
    struct gs_names names = {0};
    uint32_t own_count = 0;

    conf->hello.node_count = env_number(sp, "SLURM_STEP_NUM_NODES");
    conf->hello.task_count = env_number(sp, "SLURM_STEP_NUM_TASKS");
    spank_get_item(sp, S_JOB_NNODES, &own_count);
    conf->heterogeneous = own_count != conf->hello.node_count;
    gethostname(conf->hello.node_name, sizeof(conf->hello.node_name) - 1);
    if (spank_getenv(sp, "SLURM_STEP_NODELIST", list, sizeof(list)) != ESPANK_SUCCESS
        || gs_hostlist_expand(list, &names, NULL) < 0)
        return;
    snprintf(conf->step_nodes, sizeof(conf->step_nodes), "%.2047s", list);
    if (conf->heterogeneous)
        memcpy(
            conf->hello.step_nodes, conf->step_nodes, sizeof(conf->hello.step_nodes));
    else if (conf->hello.node_index
             < names.count) /* slurmd -N may differ from the host */
        snprintf(conf->hello.node_name,
                 sizeof(conf->hello.node_name),
                 "%s",
                 names.name[conf->hello.node_index]);
    snprintf(conf->first_node, sizeof(conf->first_node), "%s", names.name[0]);
    gs_names_free(&names);
}

static int fill_conf(spank_t sp, const struct gs_rdzv *rdzv, struct gs_agentconf *conf)
{
    uint32_t local = 0;

    memcpy(conf->key, rdzv->key, sizeof(conf->key));
    conf->root_port = rdzv->port;
    conf->spec = rdzv->spec;
    conf->hello.job_id = stepd.step.job_id;
    conf->hello.step_id = stepd.step.step_id;
    conf->hello.restart_count = rdzv->restart_count;
    snprintf(conf->hello.version, sizeof(conf->hello.version), "%s", GS_VERSION);
    if (spank_get_item(sp, S_JOB_NODEID, &conf->hello.node_index) != ESPANK_SUCCESS
        || spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &local) != ESPANK_SUCCESS
        || read_ranks(sp, local) < 0
        || spank_getenv(sp,
                        "SLURM_SRUN_COMM_HOST",
                        conf->root_address,
                        sizeof(conf->root_address))
               != ESPANK_SUCCESS)
        return -EINVAL;
    read_nodes(sp, conf);
    if (conf->heterogeneous)
        conf->hello.job_id = stepd.step.leader_id;
    else
        memcpy(conf->first_ports, rdzv->first_ports, sizeof(conf->first_ports));
    conf->user_id = stepd.uid;
    spank_getenv(sp, "MASTER_ADDR", conf->user_address, sizeof(conf->user_address));
    spank_getenv(sp, "MASTER_PORT", conf->user_port, sizeof(conf->user_port));
    memcpy(conf->probe_path, gs_spec.probe, sizeof(conf->probe_path));
    memcpy(conf->policy_path, gs_spec.conf, sizeof(conf->policy_path));
    conf->policy_optional = strcmp(gs_spec.conf, GS_POLICY_FILE) == 0;
    memcpy(conf->complaint, gs_site_error.text, sizeof(conf->complaint));
    gs_neighbours("slurm_spank_task_init", false, conf->ahead, sizeof(conf->ahead));
    conf->ranks = stepd.ranks;
    fill_hold(&conf->hold);
    stepd.step.page = conf->page = gs_page_map(local);
    stepd.step.wake_fd = conf->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    stepd.step.stepd_pid = conf->stepd_pid = getpid();
    stepd.step.network = gs_own_network();
    return conf->page && conf->wake_fd >= 0 ? 0 : -errno;
}

/* The tasks' own key, for after the start. It is made of the start's: who knows it
 * cannot tell that one. */
static void leave_key(const char *step_dir)
{
    static const char what[] = "gangstart meet 1";
    struct gs_meet meet = {
        .port_lo = (uint16_t)gs_spec.port_lo,
        .port_hi = (uint16_t)gs_spec.port_hi,
    };
    struct gs_error error;

    gs_mac_sum(
        &stepd.agent->mac, (const uint8_t *)what, sizeof(what), NULL, 0, meet.key);
    if (gs_spool_meet(step_dir, &meet, stepd.uid, stepd.gid, &error) < 0)
        slurm_info("gangstart: tasks cannot use gangstart.barrier(): %s", error.text);
    explicit_bzero(&meet, sizeof(meet));
}

/* Spool directories are made by the thread: a file system may hang. */
static void make_spool(void)
{
    struct gs_error error;
    char step_dir[GS_PATH_SIZE];

    if (gs_spool_create(gs_spec.spool,
                        stepd.step.job_id,
                        stepd.step.step_id,
                        stepd.uid,
                        stepd.gid,
                        &error)
        < 0) {
        slurm_info("gangstart: no spool, so no report is kept here: %s", error.text);
        return;
    }
    gs_spool_path(gs_spec.spool,
                  stepd.step.job_id,
                  stepd.step.step_id,
                  step_dir,
                  sizeof(step_dir));
    snprintf(stepd.agent->conf.spool_dir,
             sizeof(stepd.agent->conf.spool_dir),
             "%.1018s/sys",
             step_dir);
    leave_key(step_dir);
}

static void *aggregate(void *arg)
{
    (void)arg;
    while (sem_wait(&stepd.park) < 0)
        ;
    make_spool();
    gs_agent_run(stepd.agent);
    return NULL;
}

static int start_thread(void)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = sem_init(&stepd.park, 0, 0) < 0
             ? errno
             : pthread_create(&stepd.thread, NULL, aggregate, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    stepd.running = rc == 0;
    return -rc;
}

static int set_up(spank_t sp, const char *text)
{
    struct gs_agentconf *conf = calloc(1, sizeof(*conf));
    struct gs_rdzv rdzv;
    struct gs_error error = {0};
    int64_t wait_us;
    int rc = conf ? gs_rdzv_decode(text, &rdzv, &error) : -ENOMEM;

    if (rc == 0)
        rc = fill_conf(sp, &rdzv, conf);
    if (rc == 0) {
        stepd.step.spec = rdzv.spec;
        wait_us = (int64_t)rdzv.spec.timeout_s * 1000000 + GS_AGENT_GRACE_US;
        atomic_store(&stepd.step.page->shared->guard_us, gs_clock_now_us() + wait_us);
        stepd.agent = gs_agent_create(conf);
        rc = stepd.agent ? start_thread() : -ENOMEM;
    }
    if (rc < 0)
        slurm_error("gangstart: this node cannot take part in the gang start: %s",
                    error.text[0] ? error.text : strerror(-rc));
    explicit_bzero(&rdzv, sizeof(rdzv));
    if (conf)
        explicit_bzero(conf, sizeof(*conf));
    free(conf);
    return rc;
}

int gs_stepd_post_opt(spank_t sp)
{
    static pid_t done;
    char text[GS_RDZV_SIZE];
    spank_err_t rc;

    if (done == getpid())
        return 0;
    done = getpid();
    rc = spank_getenv(sp, GS_RDZV_ENV, text, sizeof(text));
    if (rc == ESPANK_ENV_NOEXIST)
        return 0;
    spank_unsetenv(sp, GS_RDZV_ENV);
    if (rc != ESPANK_SUCCESS) /* too long: not a word of it counts */
        text[0] = '\0';
    if (spank_get_item(sp, S_JOB_ID, &stepd.step.job_id) != ESPANK_SUCCESS
        || spank_get_item(sp, S_JOB_STEPID, &stepd.step.step_id) != ESPANK_SUCCESS
        || !gs_is_normal_step(stepd.step.step_id))
        return 0;
    spank_get_item(sp, S_JOB_UID, &stepd.uid);
    spank_get_item(sp, S_JOB_GID, &stepd.gid);
    /* The parts of a heterogeneous job have ids of their own; users know the leader's.
     */
    stepd.step.leader_id = env_number(sp, "SLURM_JOB_ID");
    if (!stepd.step.leader_id)
        stepd.step.leader_id = stepd.step.job_id;
    snprintf(stepd.step.name,
             sizeof(stepd.step.name),
             "%u.%u",
             stepd.step.leader_id,
             stepd.step.step_id);
    snprintf(stepd.step.report,
             sizeof(stepd.step.report),
             "%s/%u.%u/sys/start.json",
             gs_spec.spool,
             stepd.step.job_id,
             stepd.step.step_id);
    /* Not taking part must not mean starting alone: tasks of a gang step that cannot
     * join end with the code of a refused start (see gs_task_init). */
    stepd.active = true;
    if (set_up(sp, text) < 0) {
        if (!stepd.step.page)
            stepd.step.page = gs_page_map(1);
        if (stepd.step.page)
            gs_page_abort(stepd.step.page, 75);
    }
    explicit_bzero(text, sizeof(text));
    return 0;
}

int gs_stepd_forked(spank_t sp)
{
    int local = -1;
    pid_t pid = 0;

    if (!stepd.running || spank_get_item(sp, S_TASK_ID, &local) != ESPANK_SUCCESS
        || local < 0 || (uint32_t)local >= stepd.step.page->slot_count
        || stepd.forked[local])
        return 0;
    stepd.forked[local] = true;
    if (spank_get_item(sp, S_TASK_PID, &pid) == ESPANK_SUCCESS)
        gs_agent_task_forked(stepd.agent, (uint32_t)local, pid);
    if (++stepd.forked_count == stepd.step.page->slot_count) {
        stepd.unparked = true;
        sem_post(&stepd.park);
    }
    return 0;
}

int gs_stepd_task_exit(spank_t sp)
{
    int local = -1, status = 0;

    if (stepd.running && spank_get_item(sp, S_TASK_ID, &local) == ESPANK_SUCCESS
        && spank_get_item(sp, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS
        && local >= 0)
        gs_agent_task_exit(stepd.agent, (uint32_t)local, status);
    return 0;
}

static bool join_within(unsigned ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return pthread_timedjoin_np(stepd.thread, NULL, &until) == 0;
}

int gs_stepd_exit(void)
{
    unsigned within_ms;
    bool joined = false;

    if (!stepd.running || getpid() != stepd.step.stepd_pid)
        return 0;
    stepd.running = false;
    if (!stepd.unparked) {
        /* Another plugin or Slurm itself gave up before the tasks were released. */
        gs_agent_launch_failed(stepd.agent);
        sem_post(&stepd.park);
        joined = join_within(LAUNCH_FAILED_MS);
    }
    within_ms = gs_agent_stop(stepd.agent);
    joined = joined || join_within(within_ms);
    if (!joined) /* stuck in the kernel: leave it, the code stays mapped */
        return 0;
    if (stepd.agent->end.text[0])
        slurm_info("gangstart: %s", stepd.agent->end.text);
    gs_agent_destroy(stepd.agent);
    stepd.agent = NULL;
    return 0;
}
