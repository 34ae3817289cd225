/* ctx_srun.c - srun: opens the rendezvous, runs it in a thread, prints, exits.
 *
 * srun cannot return while its launch RPC hangs on a dead node, whatever happens to the
 * other tasks; so after a refusal the thread ends the process itself when srun does not
 * do so. Where srun gets to its end, the exit hook replaces the exit code by ours. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock_private.h"
#include "hostlist.h"
#include "net_private.h"
#include "plugin.h"
#include "root.h"
#include "story.h"

#define STEP_MS 500
#define STUCK_MS 1000 /* after a refusal, when a node never connected: srun is stuck */
#define NORMAL_S 15   /* ... when all nodes were there: srun ends by itself */

static struct {
    int listen_fd;
    uint16_t port;
    uint8_t key[GS_KEY_SIZE];
    struct gs_gang *gang;
    struct gs_root *root;
    struct gs_story story;
    char slurm_version[32], host[256], master_addr[GS_NAME_SIZE];
    struct gs_master master;
    pthread_t thread;
    bool running;
    sem_t leaving; /* srun has come to its own end */
    int exit_status;
} srun = {.listen_fd = -1};

/* Registered late, so it runs before Slurm's own exit handlers: how srun would end. */
static void note_status(int status, void *arg)
{
    (void)arg;
    srun.exit_status = status;
}

static bool wanted(void)
{
    if (getenv("SLURM_EXTERNAL_LAUNCHER") || gs_switched_off)
        return false;
    return gs_spec.on || gs_spec.auto_start == GS_AUTO_ALWAYS
           || (gs_spec.auto_start == GS_AUTO_GPU && gs_asked_for_gpus());
}

static void open_rendezvous(void)
{
    struct gs_rdzv rdzv = {.spec = gs_spec};
    char text[GS_RDZV_SIZE];
    const char *restarts = getenv("SLURM_RESTART_COUNT");
    struct gs_error error;
    uint16_t lo = (uint16_t)gs_spec.port_lo, hi = (uint16_t)gs_spec.port_hi;

    if (!lo)
        gs_slurm_srun_range(&lo, &hi);
    srun.listen_fd =
        gs_net_listen_range(lo, hi, (uint32_t)getpid() * 7919U, &srun.port, &error);
    if (srun.listen_fd < 0)
        gs_options_refuse(&error);
    if (gs_random(srun.key, sizeof(srun.key)) < 0) {
        snprintf(error.text, sizeof(error.text), "the kernel gives no random numbers");
        gs_options_refuse(&error);
    }
    rdzv.port = srun.port;
    rdzv.restart_count = restarts ? (uint32_t)strtoul(restarts, NULL, 10) : 0;
    memcpy(rdzv.key, srun.key, sizeof(rdzv.key));
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
    /* A heterogeneous step comes here once per component. */
    if (done == getpid() || !wanted())
        return 0;
    done = getpid();
    if (gs_site_error.text[0])
        gs_options_refuse(&gs_site_error);
    on_exit(note_status, NULL);
    open_rendezvous();
    return 0;
}

/* The exact map of ranks to nodes; without it the nodes tell theirs as they come. */
static void expect_layout(struct gs_gang *gang, const slurm_step_layout_t *layout)
{
    struct gs_names names = {0};

    if (!layout || !layout->tids
        || gs_hostlist_expand(layout->node_list, &names, NULL) < 0)
        return;
    for (uint32_t i = 0; names.count == layout->node_cnt && i < layout->node_cnt; i++)
        gs_gang_expect(gang, i, names.name[i], layout->tids[i], layout->tasks[i]);
    gs_names_free(&names);
}

static struct gs_gang *make_gang(spank_t sp, uint32_t job_id, uint32_t step_id)
{
    slurm_step_id_t id;
    slurm_step_layout_t *layout;
    const char *restarts = getenv("SLURM_RESTART_COUNT");
    uint32_t nodes = 0, tasks = 0;
    struct gs_gang *gang;

    memset(&id, 0, sizeof(id));
    id.job_id = job_id;
    id.step_id = step_id;
    id.step_het_comp = NO_VAL;
    layout = slurm_job_step_layout_get(&id);
    spank_get_item(sp, S_JOB_NNODES, &nodes);
    spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &tasks);
    gang = gs_gang_create(layout ? layout->node_cnt : nodes,
                          layout ? layout->task_cnt : tasks,
                          (int64_t)gs_spec.timeout_s * 1000000);
    if (gang) {
        gang->job_id = job_id;
        gang->step_id = step_id;
        gang->restart_count = restarts ? (uint32_t)strtoul(restarts, NULL, 10) : 0;
        gang->wiring = true;
        expect_layout(gang, layout);
    }
    if (layout)
        slurm_job_step_layout_free(layout);
    return gang;
}

static void fill_story(spank_t sp)
{
    char *version = NULL;

    spank_get_item(sp, S_SLURM_VERSION, &version);
    snprintf(srun.slurm_version, sizeof(srun.slurm_version), "%s", version ? version : "?");
    gethostname(srun.host, sizeof(srun.host) - 1);
    srun.story = (struct gs_story){
        .gang = srun.gang,
        .spec = &gs_spec,
        .begun_us = gs_clock_now_us(),
        .version = GS_VERSION,
        .slurm_version = srun.slurm_version,
        .cluster = gs_slurm_cluster(),
        .submit_host = srun.host,
        .user_id = getuid(),
        .master_addr = srun.master_addr,
    };
}

static void print(const char *text)
{
    size_t left = text ? strlen(text) : 0;

    while (left) {
        ssize_t put = write(STDERR_FILENO, text, left);
        if (put <= 0)
            return;
        text += put;
        left -= (size_t)put;
    }
}

/* Copies what the root knows of rank 0's node: it is gone before the story is told. */
static void learn_master(void)
{
    const struct gs_master *master = gs_root_master(srun.root);

    if (!master)
        return;
    srun.master = *master;
    srun.story.master = &srun.master;
    srun.story.candidate = gs_root_candidate(srun.root);
    snprintf(srun.master_addr,
             sizeof(srun.master_addr),
             "%s",
             gs_root_master_addr(srun.root));
}

static void send_reports(const char *head, const char *complete)
{
    uint32_t keeper = gs_root_keeper(srun.root);

    for (uint32_t i = 0; i < srun.gang->node_count; i++) {
        char *own;
        if (i == keeper) {
            gs_root_send_report(srun.root, i, complete);
            continue;
        }
        if (srun.gang->outcome != GS_RELEASED)
            continue;
        own = gs_story_report(&srun.story, head, i);
        if (own)
            gs_root_send_report(srun.root, i, own);
        gs_text_free(own);
    }
}

static void tell(void)
{
    char path[GS_SPEC_REPORT_SIZE];
    char *lines = NULL, *head, *report;

    learn_master();
    srun.story.wall_us = gs_clock_wall_us();
    if (srun.gang->outcome == GS_RELEASED)
        lines = gs_story_start(&srun.story);
    else if (srun.gang->outcome == GS_REFUSED)
        lines = gs_story_refusal(&srun.story);
    print(lines);
    gs_text_free(lines);
    head = gs_story_head(&srun.story);
    report = head ? gs_story_report(&srun.story, head, GS_NO_RANK) : NULL;
    if (report) {
        send_reports(head, report);
        gs_user_report(&gs_spec,
                       srun.story.cluster,
                       srun.gang->job_id,
                       srun.gang->step_id,
                       report,
                       path);
    }
    gs_text_free(head);
    gs_text_free(report);
}

/* Gives srun its own way out, then takes it. */
static void end_process(bool stuck)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += stuck ? 0 : NORMAL_S;
    while (sem_timedwait(&srun.leaving, &until) < 0) {
        if (errno == EINTR)
            continue;
        _exit(srun.gang->code);
    }
}

/* Nodes that come after the refusal are told as well, while srun has a moment left: they
 * must not wait for an answer until their own time is up. */
static void answer_late_nodes(void)
{
    int64_t until = srun.gang->decided_us + STUCK_MS * 1000;

    while (!gs_root_all_gone(srun.root)) {
        int64_t left = until - gs_clock_now_us();
        if (left <= 0)
            return;
        gs_root_step(srun.root, (int)(left / 1000) + 1);
    }
}

static void *rendezvous(void *arg)
{
    enum gs_rootevent event;
    bool stuck;

    (void)arg;
    do {
        event = gs_root_step(srun.root, STEP_MS);
        if (event == GS_ROOT_DECIDED)
            tell();
    } while (event != GS_ROOT_DONE);
    if (srun.gang->outcome == GS_REFUSED)
        answer_late_nodes();
    stuck = !gs_root_all_gone(srun.root);
    gs_root_destroy(srun.root);
    srun.root = NULL;
    if (srun.gang->outcome == GS_REFUSED)
        end_process(stuck);
    return NULL;
}

static int start_thread(void)
{
    sigset_t all, before;
    int rc;

    sem_init(&srun.leaving, 0, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&srun.thread, NULL, rendezvous, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -rc;
}

int gs_srun_launch(spank_t sp)
{
    static pid_t done; /* het steps come here from a thread of one component */
    uint32_t job_id = 0, step_id = 0;
    struct gs_error error = {"no thread can be started"};

    if (done == getpid() || srun.listen_fd < 0
        || spank_get_item(sp, S_JOB_ID, &job_id) != ESPANK_SUCCESS
        || spank_get_item(sp, S_JOB_STEPID, &step_id) != ESPANK_SUCCESS
        || !gs_is_normal_step(step_id))
        return 0;
    done = getpid();
    srun.gang = make_gang(sp, job_id, step_id);
    if (!srun.gang)
        return 0;
    fill_story(sp);
    srun.root =
        gs_root_create(srun.gang, srun.key, srun.listen_fd, GS_VERSION, &error);
    explicit_bzero(srun.key, sizeof(srun.key));
    srun.listen_fd = -1;
    srun.running = srun.root && start_thread() == 0;
    if (!srun.running)
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

int gs_srun_exit(void)
{
    if (!srun.running)
        return 0;
    srun.running = false;
    if (srun.gang->outcome == GS_WAITING)
        gs_root_end(srun.root, looks_cancelled(srun.exit_status));
    sem_post(&srun.leaving);
    pthread_join(srun.thread, NULL);
    if (srun.gang->outcome == GS_REFUSED) {
        fflush(NULL);
        _exit(srun.gang->code);
    }
    return 0;
}
