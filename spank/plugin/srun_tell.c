/* srun_tell.c - what srun's user sees: the waiting line, the one line of a start, the
 * lines of a refusal; and where the report goes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "asknodes.h"
#include "clock_private.h"
#include "ctx_srun.h"
#include "gangodd.h"
#include "hostlist.h"

#define WAITING_US 500000 /* between two updates of the waiting line */
#define AGAIN_US 5000000  /* between two looks at a node that is missing */

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
    const struct gs_master *master = gs_root_master(gs_srun.root);

    if (!master)
        return;
    gs_srun.master = *master;
    gs_srun.story.master = &gs_srun.master;
    gs_srun.story.candidate = gs_root_candidate(gs_srun.root);
    snprintf(gs_srun.master_addr,
             sizeof(gs_srun.master_addr),
             "%s",
             gs_root_master_addr(gs_srun.root));
}

static void send_reports(const char *head, const char *complete)
{
    uint32_t keeper = gs_root_keeper(gs_srun.root);

    for (uint32_t i = 0; i < gs_srun.gang->node_count; i++) {
        char *own;
        if (i == keeper) {
            gs_root_send_report(gs_srun.root, i, complete);
            continue;
        }
        if (gs_srun.gang->outcome != GS_RELEASED)
            continue;
        own = gs_story_report(&gs_srun.story, head, i);
        if (own)
            gs_root_send_report(gs_srun.root, i, own);
        gs_text_free(own);
    }
}

static bool is_missing(const struct gs_node *node)
{
    return node->hello_us < 0 && !node->failed && node->name[0];
}

/* While nodes are missing: finds out why, and on a terminal says who they are. */
void gs_srun_watch(void)
{
    const struct gs_gang *gang = gs_srun.gang;
    int64_t now_us = gs_clock_now_us(), late_us = GS_LATE_US;
    int64_t since_us = now_us - AGAIN_US, last_us;
    uint32_t asked = 0;

    if (gang->timeout_us / 4 < late_us)
        late_us = gang->timeout_us / 4;
    if (now_us < gs_srun.story.begun_us + late_us)
        return;
    /* The last look ends with the time, for what a refusal tells to be fresh. */
    last_us = gs_srun.story.begun_us + gang->timeout_us - GS_ASK_TAKES_US;
    if (now_us >= last_us && since_us < last_us)
        since_us = last_us;
    for (uint32_t i = 0; i < gang->node_count && asked < GS_ASK_NODES; i++) {
        if (!is_missing(&gang->nodes[i]))
            continue;
        gs_ask_node(gang->nodes[i].name, gang->job_id, gang->step_id, since_us);
        asked++;
    }
    if (isatty(STDERR_FILENO) && now_us > gs_srun.waiting_us + WAITING_US
        && now_us > gs_srun.story.begun_us + GS_LATE_US) {
        char *line = gs_story_waiting(&gs_srun.story, now_us);
        gs_srun.waiting_us = now_us;
        print(line);
        gs_text_free(line);
    }
}

/* What was found out becomes part of the story. */
static void explain(void)
{
    struct gs_gang *gang = gs_srun.gang;

    if (gang->outcome != GS_REFUSED)
        return;
    for (uint32_t i = 0; i < gang->node_count; i++) {
        struct gs_node *node = &gang->nodes[i];
        struct gs_why why;
        if (!is_missing(node) || node->text[0])
            continue;
        gs_ask_result(node->name, gang->decided_us, &why);
        gs_why_text(&why,
                    gang->decided_us - gs_srun.story.begun_us,
                    node->text,
                    sizeof(node->text));
    }
}

/* The site's policy may lie on the nodes only; then the defaults say what is odd. */
static void compare_gpus(void)
{
    static struct gs_policy policy;
    static struct gs_gpuverdict odd;

    gs_policy_init(&policy);
    if (gs_spec.conf[0])
        gs_policy_load(&policy, gs_spec.conf, true, NULL);
    if (gs_gangodd_compare(gs_srun.gang, &policy, &odd) == 0)
        gs_srun.story.odd = &odd;
}

void gs_srun_tell(void)
{
    char path[GS_SPEC_REPORT_SIZE];
    char *lines = NULL, *head, *report;

    learn_master();
    explain();
    compare_gpus();
    if (gs_srun.waiting_us)
        print("\r\033[K");
    gs_srun.story.wall_us = gs_clock_wall_us();
    if (gs_srun.gang->outcome == GS_RELEASED)
        lines = gs_story_start(&gs_srun.story);
    else if (gs_srun.gang->outcome == GS_REFUSED)
        lines = gs_story_refusal(&gs_srun.story);
    print(lines);
    gs_text_free(lines);
    head = gs_story_head(&gs_srun.story);
    report = head ? gs_story_report(&gs_srun.story, head, GS_NO_RANK) : NULL;
    if (report) {
        send_reports(head, report);
        gs_user_report(&gs_spec,
                       gs_srun.story.cluster,
                       gs_srun.gang->job_id,
                       gs_srun.gang->step_id,
                       report,
                       path);
    }
    gs_text_free(head);
    gs_text_free(report);
}
