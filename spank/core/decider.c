/* decider.c - see decider_private.h. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock_private.h"
#include "decider_private.h"
#include "error_private.h"
#include "gangodd.h"
#include "hostlist.h"
#include "root_private.h"
#include "story.h"

#define STEP_MS 250
#define LAST_US 300000 /* slurmstepd ends: goodbyes that are under way */

struct gs_decider {
    struct gs_deciderconf conf;
    struct gs_gang *gang;
    struct gs_root *root;
    struct gs_story story;
    struct gs_gpuverdict odd;
    char host[256], master_addr[GS_NAME_SIZE];
    pthread_t thread;
    _Atomic int64_t end_us; /* when gs_decider_stop() was called, 0 = not yet */
};

static void learn(struct gs_decider *decider)
{
    decider->story.wall_us = gs_clock_wall_us();
    decider->story.master = gs_root_master(decider->root);
    decider->story.candidate = gs_root_candidate(decider->root);
    gs_gpuverdict_free(&decider->odd);
    if (decider->conf.policy
        && gs_gangodd_compare(decider->gang, decider->conf.policy, &decider->odd) == 0)
        decider->story.odd = &decider->odd;
    if (decider->story.master)
        snprintf(decider->master_addr,
                 sizeof(decider->master_addr),
                 "%s",
                 gs_root_master_addr(decider->root));
}

/* Before the tasks hear of the decision: what one of them shall print. */
static void leave_words(void *arg)
{
    struct gs_decider *decider = arg;
    const struct gs_page *page = decider->conf.page;
    struct gs_shared *shared = page->shared;
    char *lines = NULL;

    learn(decider);
    if (decider->gang->outcome == GS_RELEASED)
        lines = gs_story_start(&decider->story);
    else if (decider->gang->outcome == GS_REFUSED)
        lines = gs_story_refusal(&decider->story);
    snprintf(shared->words,
             sizeof(shared->words),
             "%sgang-start: decided by %s: %s\n",
             lines ? lines : "",
             decider->conf.hello.node_name,
             decider->conf.why);
    gs_text_free(lines);
    for (uint32_t i = page->slot_count; i-- > 0;)
        if (atomic_load(&shared->slots[i].state) == GS_SLOT_ARRIVED)
            shared->printer = i;
}

static void send_reports(struct gs_decider *decider)
{
    uint32_t keeper = gs_root_keeper(decider->root);
    char *head = gs_story_head(&decider->story);

    for (uint32_t i = 0; head && i < decider->gang->node_count; i++) {
        char *report =
            gs_story_report(&decider->story, head, i == keeper ? GS_NO_RANK : i);
        if (report)
            gs_root_send_report(decider->root, i, report);
        gs_text_free(report);
    }
    gs_text_free(head);
}

/* A node that comes after a refusal would find nobody here, which looks like a first
 * node that is late itself, and wait for all of T: so somebody stays to tell it. */
static bool awaits_late_nodes(const struct gs_decider *decider)
{
    const struct gs_gang *gang = decider->gang;

    return gang->outcome == GS_REFUSED && !gs_root_all_gone(decider->root)
           && gs_clock_now_us() < gang->decided_us + GS_DECIDER_LATE_MS * 1000;
}

/* Else: slurmstepd waits to end, the decision is told, and nobody's goodbye is worth
 * making it leave things behind. */
static bool must_leave(const struct gs_decider *decider, enum gs_rootevent event)
{
    int64_t end_us = atomic_load(&decider->end_us);

    if (event < GS_ROOT_ENDING || awaits_late_nodes(decider))
        return false;
    return event == GS_ROOT_DONE || (end_us && gs_clock_now_us() > end_us + LAST_US);
}

static void *decide(void *arg)
{
    struct gs_decider *decider = arg;
    enum gs_rootevent event;

    do {
        event = gs_root_step(decider->root, STEP_MS);
        if (event == GS_ROOT_DECIDED)
            send_reports(decider);
    } while (!must_leave(decider, event));
    return NULL;
}

static void fill_story(struct gs_decider *decider)
{
    const struct gs_deciderconf *conf = &decider->conf;

    gethostname(decider->host, sizeof(decider->host) - 1);
    decider->story = (struct gs_story){
        .gang = decider->gang,
        .spec = conf->spec,
        .begun_us = gs_clock_now_us(),
        .version = conf->hello.version,
        .slurm_version = "",
        .cluster = "",
        .submit_host = decider->host,
        .program = "the program",
        .user_id = conf->user_id,
        .master_addr = decider->master_addr,
    };
}

static struct gs_gang *make_gang(const struct gs_deciderconf *conf)
{
    struct gs_gang *gang = gs_gang_create(conf->hello.node_count,
                                          conf->hello.task_count,
                                          (int64_t)conf->spec->timeout_s * 1000000);

    if (!gang)
        return NULL;
    gang->job_id = conf->hello.job_id;
    gang->step_id = conf->hello.step_id;
    gang->restart_count = conf->hello.restart_count;
    gang->wiring = true;
    gang->health = gs_gang_health_mode(conf->spec);
    snprintf(gang->step_nodes, sizeof(gang->step_nodes), "%s", conf->step_nodes);
    return gang;
}

struct gs_decider *gs_decider_start(const struct gs_deciderconf *conf,
                                    int listen_fd,
                                    struct gs_error *error)
{
    struct gs_decider *decider = calloc(1, sizeof(*decider));

    if (decider) {
        decider->conf = *conf;
        decider->gang = make_gang(conf);
    }
    if (!decider || !decider->gang) {
        gs_error_set(error, ENOMEM, "out of memory");
        close(listen_fd);
        free(decider);
        return NULL;
    }
    decider->root =
        gs_root_create(decider->gang, conf->key, listen_fd, conf->hello.version, error);
    explicit_bzero(decider->conf.key, sizeof(decider->conf.key));
    fill_story(decider);
    if (decider->root) {
        decider->root->before_tell = leave_words;
        decider->root->before_tell_arg = decider;
        if (pthread_create(&decider->thread, NULL, decide, decider) == 0)
            return decider;
        gs_error_set(error, EAGAIN, "no thread can be made");
        gs_root_destroy(decider->root);
    }
    gs_gang_destroy(decider->gang);
    free(decider);
    return NULL;
}

void gs_decider_stop(struct gs_decider *decider)
{
    if (!decider)
        return;
    atomic_store(&decider->end_us, gs_clock_now_us());
    gs_root_end(decider->root, false);
    pthread_join(decider->thread, NULL);
    gs_root_destroy(decider->root);
    gs_gpuverdict_free(&decider->odd);
    gs_gang_destroy(decider->gang);
    free(decider);
}
