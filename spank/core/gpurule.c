/* gpurule.c - judge one sample: run the table of checks, collect the findings; see
 * gpurule.h.
 *
 * Knobs are the policy's. On failure (no memory) nothing is returned.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpurule_private.h"

#define SECOND 1000000
#define AGAIN_SECONDS 1 /* to the second look at the same */
#define GRACE_LOOK_SECONDS 5
#define IDLE_PERCENT 10
#define VGPU 2

void gs_gpucontext_init(struct gs_gpucontext *context, const struct gs_policy *policy)
{
    memset(context, 0, sizeof(*context));
    context->policy = policy;
    context->expected = -1;
    context->boot_us = -1;
}

bool gs_judge_host(const struct gs_gpucontext *context)
{
    return context->root && !context->in_container;
}

bool gs_judge_of_step(const struct gs_gpucontext *context, const struct gs_gpu *gpu)
{
    for (uint32_t i = 0; i < context->step_gpu_count; i++) {
        if (strcmp(context->step_gpus[i], gpu->uuid) == 0)
            return true;
    }
    return context->step_gpu_count == 0;
}

void gs_hit_say(struct gs_hit *hit, const char *says)
{
    char *out = hit->reason;
    size_t size = sizeof(hit->reason), used = 0;

    if (hit->node)
        used += (size_t)snprintf(out, size, "%s ", hit->node);
    if (hit->gpu && hit->gpu->pci[0])
        used += (size_t)snprintf(
            out + used, size - used, "GPU %u (%s): ", hit->gpu->index, hit->gpu->pci);
    else if (hit->gpu)
        used += (size_t)snprintf(out + used, size - used, "GPU %u: ", hit->gpu->index);
    for (; *says && used < size - 1; says++) {
        bool value = strncmp(says, "{v}", 3) == 0, limit = strncmp(says, "{l}", 3) == 0;

        if (!value && !limit) {
            out[used++] = *says;
            continue;
        }
        used += (size_t)snprintf(
            out + used, size - used, "%s", value ? hit->value : hit->limit);
        says += 2;
    }
    out[used < size ? used : size - 1] = '\0';
}

/* The same finding of the sample before, NULL = it is new. */
static const struct gs_finding *seen_before(const struct gs_judge *judge,
                                            const struct gs_finding *finding)
{
    const struct gs_gpuverdict *before = judge->before;

    for (uint32_t i = 0; before && i < before->count; i++) {
        const struct gs_finding *old = &before->findings[i];

        if (old->check == finding->check && old->kind == finding->kind
            && old->nvml_code == finding->nvml_code && old->xid == finding->xid
            && strcmp(old->uuid, finding->uuid) == 0
            && strcmp(old->pci, finding->pci) == 0)
            return old;
    }
    return NULL;
}

/* When to look again for a finding that has not settled. */
static int64_t next_look(const struct gs_finding *finding,
                         const struct gs_policy_rule *rule,
                         int64_t now_us)
{
    int64_t left = finding->since_us + (int64_t)rule->grace_s * SECOND - now_us;

    if (left < AGAIN_SECONDS * SECOND)
        left = AGAIN_SECONDS * SECOND;
    if (rule->grace_s > 0 && left > GRACE_LOOK_SECONDS * SECOND)
        left = GRACE_LOOK_SECONDS * SECOND;
    return now_us + left;
}

static void settle(struct gs_judge *judge,
                   struct gs_finding *finding,
                   const struct gs_policy_rule *rule)
{
    int64_t now = judge->gpus->taken_us, again;
    const struct gs_finding *old = seen_before(judge, finding);

    finding->looks = old ? old->looks + 1 : 1;
    finding->since_us = old ? old->since_us : now;
    finding->settled =
        finding->kind != GS_FINDING_HIT || judge->context->lasting
        || (finding->looks > rule->retries
            && now - finding->since_us >= (int64_t)rule->grace_s * SECOND);
    if (finding->settled)
        return;
    if ((rule->grace_s > 0 || rule->retries > 1) && finding->verdict > GS_WARN)
        finding->verdict = GS_WARN;
    again = next_look(finding, rule, now);
    if (judge->out.look_again_us < 0 || again < judge->out.look_again_us)
        judge->out.look_again_us = again;
}

static struct gs_finding *append(struct gs_judge *judge)
{
    struct gs_gpuverdict *out = &judge->out;

    if (out->count == out->size) {
        uint32_t size = out->size > 0 ? out->size * 2 : 32;
        struct gs_finding *grown = realloc(out->findings, size * sizeof(*grown));

        if (!grown) {
            judge->failed = true;
            return NULL;
        }
        out->findings = grown;
        out->size = size;
    }
    return memset(&out->findings[out->count++], 0, sizeof(*out->findings));
}

/* A vGPU tells little and is not ours to mend; whether it is there still matters. */
static bool only_noted(const struct gs_hit *hit)
{
    return hit->gpu && gs_gpu_value_or(hit->gpu, GS_GPU_VIRTUALIZATION, 0) == VGPU
           && hit->check != GS_CHECK_HANDLE && hit->check != GS_CHECK_LOST;
}

static enum gs_verdict verdict_of(enum gs_severity severity, enum gs_verdict most)
{
    static const enum gs_verdict VERDICTS[GS_SEVERITIES] = {
        GS_OK, GS_OK, GS_WARN, GS_FAIL};

    return VERDICTS[severity] < most ? VERDICTS[severity] : most;
}

/* Lets a finding count for the node, the step and what to do. */
static void count_finding(struct gs_judge *judge,
                          const struct gs_finding *finding,
                          const struct gs_hit *hit)
{
    const struct gs_gpucontext *context = judge->context;
    struct gs_gpuverdict *out = &judge->out;
    bool of_step =
        !hit->not_of_step && (!hit->gpu || gs_judge_of_step(context, hit->gpu));

    if (finding->verdict > out->node)
        out->worst = (int32_t)(finding - out->findings);
    out->node = gs_verdict_worst(out->node, finding->verdict);
    if (of_step)
        out->step = gs_verdict_worst(out->step, finding->verdict);
    if (gs_judge_host(context) && finding->settled
        && (finding->verdict == GS_FAIL
            || (context->epilog && finding->verdict == GS_WARN
                && gs_check_get(finding->check)->at_end)))
        out->drain = true;
}

void gs_judge_add(struct gs_judge *judge, const struct gs_hit *hit)
{
    const struct gs_gpu *gpu = hit->gpu;
    struct gs_policy_rule rule =
        gs_policy_find(judge->context->policy, hit->check, gpu ? gpu->name : "");
    struct gs_finding *finding;

    if (rule.severity == GS_SEVERITY_OFF)
        return;
    if (only_noted(hit))
        rule.severity = GS_SEVERITY_INFO;
    finding = append(judge);
    if (!finding)
        return;
    finding->check = hit->check;
    finding->kind = hit->skipped ? GS_FINDING_SKIPPED
                    : rule.severity == GS_SEVERITY_INFO || hit->most == GS_OK
                        ? GS_FINDING_NOTE
                        : GS_FINDING_HIT;
    finding->verdict = verdict_of(rule.severity, hit->most);
    finding->gpu = gpu && !hit->node ? (int32_t)(gpu - judge->gpus->gpus) : -1;
    finding->nvml_code = hit->code;
    finding->xid = hit->xid;
    finding->action = hit->action ? hit->action : gs_check_get(hit->check)->action;
    snprintf(finding->node, sizeof(finding->node), "%s", hit->node ? hit->node : "");
    snprintf(finding->uuid, sizeof(finding->uuid), "%s", gpu ? gpu->uuid : "");
    snprintf(finding->pci,
             sizeof(finding->pci),
             "%s",
             hit->pci ? hit->pci
             : gpu    ? gpu->pci
                      : "");
    memcpy(finding->value, hit->value, sizeof(finding->value));
    memcpy(finding->limit, hit->limit, sizeof(finding->limit));
    memcpy(finding->reason, hit->reason, sizeof(finding->reason));
    settle(judge, finding, &rule);
    count_finding(judge, finding, hit);
}

/* Whether the GPU works for somebody; what cannot be read is taken from the node. */
static bool gpu_busy(const struct gs_judge *judge, const struct gs_gpu *gpu)
{
    uint64_t load = gs_gpu_value_or(gpu, GS_GPU_UTILIZATION, UINT64_MAX);

    return load == UINT64_MAX ? !judge->context->idle : load >= IDLE_PERCENT;
}

/* Why a check does not apply: text for the record, "" = not worth one, NULL = it does.
 */
static const char *unless_text(const struct gs_judge *judge,
                               const struct gs_gpu *gpu,
                               unsigned unless)
{
    if (unless & GS_UNLESS_MIG && gs_gpu_value_or(gpu, GS_GPU_MIG_MODE, 0) == 1)
        return "not judged: MIG is on";
    if (unless & GS_UNLESS_NUMA && gs_gpu_value_or(gpu, GS_GPU_NUMA_MEMORY, 0) == 1)
        return "not judged: its memory is also the host's";
    if (unless & GS_UNLESS_GUEST && !gs_judge_host(judge->context))
        return "not judged: only root sees it rightly, outside of containers";
    if (unless & GS_UNLESS_NODE_BUSY && !judge->context->idle)
        return "";
    if (unless & GS_UNLESS_GPU_BUSY && gpu_busy(judge, gpu))
        return "";
    if (unless & GS_UNLESS_GPU_IDLE && !gpu_busy(judge, gpu))
        return "";
    return NULL;
}

/* The check could not be made: no such reading here is fine, a failed one is unknown.
 */
static void skip_check(struct gs_judge *judge,
                       const struct gs_gpu *gpu,
                       const struct gs_check_row *row,
                       enum gs_gpu_reading reading)
{
    uint16_t code = gs_gpu_reading_code(gpu, reading);
    bool insane = gpu->values[reading].code == 0;
    struct gs_hit hit = {
        .check = (enum gs_check)gs_check_find(row->info.id),
        .most = GS_OK,
        .skipped = true,
        .code = insane ? 0 : code,
        .gpu = gpu,
    };

    if (insane || gs_gpu_code_verdict(code, gs_judge_host(judge->context)) != GS_OK)
        hit.most = GS_UNKNOWN;
    snprintf(hit.limit, sizeof(hit.limit), "%s", gs_gpu_reading_name(reading));
    if (insane)
        snprintf(hit.value, sizeof(hit.value), "it cannot be so");
    else
        gs_gpu_code_text(code, hit.value);
    gs_hit_say(&hit, "not judged: {l} is not known ({v})");
    hit.limit[0] = '\0';
    gs_judge_add(judge, &hit);
}

static void run_check(struct gs_judge *judge,
                      const struct gs_gpu *gpu,
                      enum gs_check check)
{
    const struct gs_check_row *row = gs_check_row(check);
    struct gs_look look = {judge->gpus, gpu, judge->context, row->needs, 0, "", ""};
    struct gs_hit hit = {.check = check, .most = GS_FAIL, .gpu = gpu};
    const char *unless = unless_text(judge, gpu, row->unless);

    if (unless) {
        hit.skipped = true;
        hit.most = GS_OK;
        gs_hit_say(&hit, unless);
        if (*unless)
            gs_judge_add(judge, &hit);
        return;
    }
    for (unsigned i = 0; i < row->need_count; i++) {
        if (gs_gpu_reading_code(gpu, row->needs[i]) != 0) {
            skip_check(judge, gpu, row, row->needs[i]);
            return;
        }
    }
    look.limit = gs_policy_find(judge->context->policy, check, gpu->name).limit;
    if (!row->rule(&look))
        return;
    if (!look.value[0] && row->need_count > 0)
        gs_gpu_value_text(gpu, row->needs[0], look.value);
    if (!look.limit_text[0] && row->info.unit[0])
        snprintf(look.limit_text,
                 sizeof(look.limit_text),
                 "%llu",
                 (unsigned long long)look.limit);
    memcpy(hit.value, look.value, sizeof(hit.value));
    memcpy(hit.limit, look.limit_text, sizeof(hit.limit));
    gs_hit_say(&hit, row->says);
    gs_judge_add(judge, &hit);
}

static void run_checks(struct gs_judge *judge, const struct gs_gpu *gpu)
{
    for (unsigned i = 0; i < GS_CHECKS; i++) {
        if (gs_check_row((enum gs_check)i)->rule)
            run_check(judge, gpu, (enum gs_check)i);
    }
}

static int finish(struct gs_judge *judge, struct gs_gpuverdict *ret_verdict)
{
    if (judge->failed) {
        gs_gpuverdict_free(&judge->out);
        return -ENOMEM;
    }
    *ret_verdict = judge->out;
    return 0;
}

int gs_gpurule_judge(const struct gs_gpus *gpus,
                     const struct gs_gpucontext *context,
                     const struct gs_gpuverdict *before,
                     struct gs_gpuverdict *ret_verdict)
{
    struct gs_judge judge = {.gpus = gpus, .context = context, .before = before};
    struct gs_gpunode node = {NULL, gpus, 1};

    judge.out.worst = -1;
    judge.out.look_again_us = -1;
    gs_judge_node(&judge);
    gs_judge_xids(&judge);
    for (uint32_t i = 0; i < gpus->count && i < GS_GPU_MAX; i++) {
        gs_judge_gpu(&judge, &gpus->gpus[i]);
        if (gpus->gpus[i].code == 0)
            run_checks(&judge, &gpus->gpus[i]);
    }
    gs_judge_odd(&judge, &node, 1);
    return finish(&judge, ret_verdict);
}

int gs_gpurule_odd(const struct gs_gpunode *nodes,
                   uint32_t count,
                   const struct gs_policy *policy,
                   struct gs_gpuverdict *ret_verdict)
{
    struct gs_gpucontext context;
    struct gs_judge judge = {.context = &context};

    gs_gpucontext_init(&context, policy);
    context.lasting = true;
    judge.gpus = count > 0 ? nodes[0].gpus : NULL;
    judge.out.worst = -1;
    judge.out.look_again_us = -1;
    if (count > 0)
        gs_judge_odd(&judge, nodes, count);
    return finish(&judge, ret_verdict);
}

void gs_gpuverdict_free(struct gs_gpuverdict *verdict)
{
    if (!verdict)
        return;
    free(verdict->findings);
    memset(verdict, 0, sizeof(*verdict));
}
