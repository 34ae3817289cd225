/* ctx_srun.c - srun: opens the rendezvous, runs it in a thread, prints, exits.
 *
 * srun cannot return while its launch RPC hangs on a dead node, whatever happens to the
 * other tasks; so after a refusal the thread ends the process itself when srun does not
 * do so. Where srun gets to its end, the exit hook replaces the exit code by ours. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "asknodes.h"
#include "clock_private.h"
#include "ctx_srun.h"
#include "hostlist.h"
#include "launcher.h"
#include "net_private.h"
#include "portpick.h"
#include "root.h"
#include "slurmread.h"

#define STEP_MS 250
#define ASK_MS 2000
#define STUCK_MS                                                                       \
    1000            /* after a refusal, when a node never connected: srun is stuck     \
                     */
#define NORMAL_S 15 /* ... when all nodes were there: srun ends by itself */

struct gs_srun gs_srun = {.listen_fd = -1};

/* Registered late, so it runs before Slurm's own exit handlers: how srun would end. */
static void note_status(int status, void *arg)
{
    (void)arg;
    gs_srun.exit_status = status;
}

static bool wanted(void)
{
    if (gs_switched_off || gs_asked_for_launcher())
        return false;
    if (gs_spec.on || !gs_asked_in_partition(gs_spec.partitions))
        return gs_spec.on;
    return gs_spec.auto_start == GS_AUTO_ALWAYS
           || (gs_spec.auto_start == GS_AUTO_GPU && gs_asked_for_gpus());
}

static uint32_t restart_count(void)
{
    const char *text = getenv("SLURM_RESTART_COUNT");

    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* Two ports that the first node tries: what is free there is not known here. */
static void choose_first_ports(uint16_t ret_ports[2])
{
    struct gs_portrules rules;
    uint32_t seed[2];

    gs_portrules_init(&rules);
    gs_slurm_avoid(&rules);
    if (gs_spec.port_lo) {
        rules.allowed[0].lo = (uint16_t)gs_spec.port_lo;
        rules.allowed[0].hi = (uint16_t)gs_spec.port_hi;
        rules.allowed_count = 1;
    }
    if (gs_random((uint8_t *)seed, sizeof(seed)) < 0)
        return;
    for (uint32_t i = 0; i < 2; i++)
        if (gs_port_candidate(&rules, seed[0], seed[1], i, &ret_ports[i], NULL) < 0)
            ret_ports[i] = i ? ret_ports[0] : 0;
}

static void listen_here(void)
{
    struct gs_error error;
    uint16_t lo = (uint16_t)gs_spec.port_lo, hi = (uint16_t)gs_spec.port_hi;

    if (gs_spec.rendezvous == GS_RENDEZVOUS_NODE)
        return;
    if (!lo)
        gs_slurm_srun_range(&lo, &hi);
    gs_srun.listen_fd =
        gs_net_listen_range(lo, hi, (uint32_t)getpid() * 7919U, &gs_srun.port, &error);
    if (gs_srun.listen_fd < 0)
        gs_options_refuse(&error);
}

static void open_rendezvous(void)
{
    struct gs_rdzv rdzv = {.spec = gs_spec, .restart_count = restart_count()};
    struct gs_error error = {"the kernel gives no random numbers"};
    char text[GS_RDZV_SIZE];

    listen_here();
    if (gs_random(gs_srun.key, sizeof(gs_srun.key)) < 0)
        gs_options_refuse(&error);
    rdzv.port = gs_srun.port;
    choose_first_ports(rdzv.first_ports);
    memcpy(rdzv.key, gs_srun.key, sizeof(rdzv.key));
    if (gs_rdzv_encode(&rdzv, text, sizeof(text)) < 0
        || setenv(GS_RDZV_ENV, text, 1) < 0) {
        snprintf(error.text, sizeof(error.text), "the SPEC is too long for the nodes");
        gs_options_refuse(&error);
    }
    explicit_bzero(text, sizeof(text));
    explicit_bzero(&rdzv, sizeof(rdzv));
}

int gs_srun_post_opt(spank_t sp)
{
    static pid_t done;

    (void)sp;
    /* A heterogeneous step comes here once per part. */
    gs_srun.parts++;
    if (done == getpid() || !wanted())
        return 0;
    done = getpid();
    if (gs_site_error.text[0])
        gs_options_refuse(&gs_site_error);
    if (gs_asked_not_to_wait()) /* srun leaves at once: it cannot be the one to decide
                                 */
        gs_spec.rendezvous = GS_RENDEZVOUS_NODE;
    on_exit(note_status, NULL);
    open_rendezvous();
    return 0;
}

/* The exact map of ranks to nodes; without it the nodes tell theirs as they come. */
static void expect_layout(struct gs_gang *gang, const struct gs_slurm_layout *layout)
{
    struct gs_names names = {0};

    if (!layout->ranks || gs_hostlist_expand(layout->node_list, &names, NULL) < 0)
        return;
    for (uint32_t i = 0; names.count == layout->node_count && i < names.count; i++)
        gs_gang_expect(gang, i, names.name[i], layout->ranks[i], layout->tasks[i]);
    gs_names_free(&names);
}

/* Of a step of several parts only one is known here: the nodes tell the rest. */
static struct gs_gang *make_gang(spank_t sp, uint32_t job_id, uint32_t step_id)
{
    struct gs_slurm_layout layout = {0};
    uint32_t nodes = 0, tasks = 0;
    bool told = false;
    struct gs_gang *gang;

    if (gs_srun.parts == 1) {
        told = gs_slurm_layout_get(job_id, step_id, &layout);
        spank_get_item(sp, S_JOB_NNODES, &nodes);
        spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &tasks);
    }
    gang = gs_gang_create(told ? layout.node_count : nodes,
                          told ? layout.task_count : tasks,
                          (int64_t)gs_spec.timeout_s * 1000000);
    if (gang) {
        gang->job_id = job_id;
        gang->step_id = step_id;
        gang->restart_count = restart_count();
        gang->wiring = true;
        gang->health = gs_gang_health_mode(&gs_spec);
        expect_layout(gang, &layout);
        gs_ask_protocol(layout.protocol);
    }
    gs_slurm_layout_free(&layout);
    return gang;
}

static void fill_story(spank_t sp)
{
    char *version = NULL, **argv = NULL;
    int argc = 0;

    spank_get_item(sp, S_SLURM_VERSION, &version);
    spank_get_item(sp, S_JOB_ARGV, &argc, &argv);
    snprintf(gs_srun.program,
             sizeof(gs_srun.program),
             "%s",
             argc > 0 ? argv[0] : "the program");
    snprintf(gs_srun.slurm_version,
             sizeof(gs_srun.slurm_version),
             "%s",
             version ? version : "?");
    gethostname(gs_srun.host, sizeof(gs_srun.host) - 1);
    gs_srun.story = (struct gs_story){
        .gang = gs_srun.gang,
        .spec = &gs_spec,
        .begun_us = gs_clock_now_us(),
        .version = GS_VERSION,
        .slurm_version = gs_srun.slurm_version,
        .cluster = gs_slurm_cluster(),
        .submit_host = gs_srun.host,
        .user_id = getuid(),
        .program = gs_srun.program,
        .launcher = gs_launcher_name(argc, (const char *const *)argv),
        .master_addr = gs_srun.master_addr,
    };
}

/* Gives srun its own way out, then takes it. */
static void end_process(bool stuck)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += stuck ? 0 : NORMAL_S;
    while (sem_timedwait(&gs_srun.leaving, &until) < 0) {
        if (errno == EINTR)
            continue;
        _exit(gs_srun.gang->code);
    }
}

/* Nodes that come after the refusal are told as well, while srun has a moment left:
 * they must not wait for an answer until their own time is up. */
static void answer_late_nodes(void)
{
    int64_t until = gs_srun.gang->decided_us + STUCK_MS * 1000;

    while (!gs_root_all_gone(gs_srun.root)) {
        int64_t left = until - gs_clock_now_us();
        if (left <= 0)
            return;
        gs_root_step(gs_srun.root, (int)(left / 1000) + 1);
    }
}

static void *rendezvous(void *arg)
{
    enum gs_rootevent event;
    bool stuck;

    (void)arg;
    do {
        event = gs_root_step(gs_srun.root, STEP_MS);
        if (event == GS_ROOT_DECIDED)
            gs_srun_tell();
        else if (event == GS_ROOT_WAITING)
            gs_srun_watch();
    } while (event != GS_ROOT_DONE);
    if (gs_srun.gang->outcome == GS_REFUSED)
        answer_late_nodes();
    stuck = !gs_root_all_gone(gs_srun.root);
    gs_root_destroy(gs_srun.root);
    gs_srun.root = NULL;
    if (gs_srun.gang->outcome == GS_REFUSED)
        end_process(stuck);
    return NULL;
}

static int start_thread(void)
{
    sigset_t all, before;
    int rc;

    sem_init(&gs_srun.leaving, 0, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&gs_srun.thread, NULL, rendezvous, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -rc;
}

int gs_srun_launch(spank_t sp)
{
    static pid_t done; /* het steps come here from a thread of one component */
    uint32_t job_id = 0, step_id = 0;
    struct gs_error error = {"no thread can be started"};

    if (done == getpid() || gs_srun.listen_fd < 0
        || spank_get_item(sp, S_JOB_ID, &job_id) != ESPANK_SUCCESS
        || spank_get_item(sp, S_JOB_STEPID, &step_id) != ESPANK_SUCCESS
        || !gs_is_normal_step(step_id))
        return 0;
    done = getpid();
    gs_srun.gang = make_gang(sp, job_id, step_id);
    if (!gs_srun.gang)
        return 0;
    fill_story(sp);
    gs_srun.root = gs_root_create(
        gs_srun.gang, gs_srun.key, gs_srun.listen_fd, GS_VERSION, &error);
    explicit_bzero(gs_srun.key, sizeof(gs_srun.key));
    gs_srun.listen_fd = -1;
    gs_srun.running = gs_srun.root && start_thread() == 0;
    if (!gs_srun.running)
        slurm_error("gang-start: the start barrier cannot run: %s", error.text);
    return 0;
}

/* srun ended by itself before the decision: was it told to? Its status then is that
 * of a task or srun itself ended by a signal people and Slurm send. */
static bool looks_cancelled(int status)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (status == 128 + signals[i])
            return true;
    return false;
}

/* Nobody came, and srun is at its end. Either nothing was launched, or the tasks ran
 * without reporting here: no plugin on the nodes, or the first node decided. */
static bool ran_without_us(void)
{
    int64_t lived_us = gs_clock_now_us() - gs_srun.story.begun_us;

    if (gs_srun.gang->connected_count)
        return false;
    /* srun's own trouble before any launch, such as --input=FILE that is not there: it
     * has said so itself. */
    if (gs_srun.exit_status == 1 && lived_us < GS_LATE_US)
        return true;
    if (gs_srun.exit_status != 0 && !gs_ask_saw_tasks())
        return false;
    slurm_error(
        "gang-start: no node has reported to this srun; unless a node of the step "
        "said that it decided, the start was not verified (is the plugin in the "
        "nodes' plugstack.conf?)");
    return true;
}

int gs_srun_exit(void)
{
    bool quiet;

    if (!gs_srun.running)
        return 0;
    gs_srun.running = false;
    if (gs_srun.gang->outcome == GS_WAITING) {
        quiet = looks_cancelled(gs_srun.exit_status) || ran_without_us();
        gs_root_end(gs_srun.root, quiet);
    }
    sem_post(&gs_srun.leaving);
    pthread_join(gs_srun.thread, NULL);
    if (gs_srun.gang->outcome == GS_REFUSED) {
        fflush(NULL);
        _exit(gs_srun.gang->code);
    }
    /* An asker that still hangs in an RPC must not see Slurm take its memory down. */
    if (gs_ask_finish(ASK_MS)) {
        fflush(NULL);
        _exit(gs_srun.exit_status);
    }
    return 0;
}
