/* fuzz_policy.c - gangstart.conf.
 *
 * What was taken, written out again, is read as the same policy; what was refused has a
 * sentence that can be shown on a terminal. */
#include <inttypes.h>
#include <stdarg.h>

#include "fuzz.h"
#include "policy.h"

static char written[1 << 20];
static size_t used;

static void put(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    used += (size_t)vsnprintf(written + used, sizeof(written) - used, format, args);
    va_end(args);
    MUST(used < sizeof(written));
}

static void put_rules(const struct gs_policy_rule *rules)
{
    for (unsigned i = 0; i < GS_CHECKS; i++) {
        const char *id = gs_check_get((enum gs_check)i)->id;

        if (rules[i].set & GS_POLICY_SEVERITY)
            put("%s = %s\n", id, gs_severity_name(rules[i].severity));
        if (rules[i].set & GS_POLICY_LIMIT)
            put("%s.limit = %" PRIu64 "\n", id, rules[i].limit);
        if (rules[i].set & GS_POLICY_GRACE)
            put("%s.grace = %u\n", id, rules[i].grace_s);
        if (rules[i].set & GS_POLICY_RETRIES)
            put("%s.retries = %u\n", id, rules[i].retries);
    }
}

static void put_policy(const struct gs_policy *policy)
{
    used = 0;
    written[0] = '\0';
    if (policy->globals_set & 1)
        put("expected_gpus = %d\n", policy->expected_gpus);
    if (policy->globals_set & 2)
        put("xid_lookback = %u\n", policy->xid_lookback_s);
    put_rules(policy->rules);
    for (uint32_t i = 0; i < policy->model_count; i++) {
        put("[%s]\n", policy->models[i].name);
        put_rules(policy->models[i].rules);
    }
}

static void same_rules(const struct gs_policy_rule *a, const struct gs_policy_rule *b)
{
    for (unsigned i = 0; i < GS_CHECKS; i++) {
        MUST(a[i].severity == b[i].severity && a[i].severity < GS_SEVERITIES);
        MUST(a[i].limit == b[i].limit && a[i].set == b[i].set);
        MUST(a[i].grace_s == b[i].grace_s && a[i].grace_s <= 3600);
        MUST(a[i].retries == b[i].retries && a[i].retries <= 100);
    }
}

static void taken(const struct gs_policy *policy)
{
    static struct gs_policy again;
    struct gs_error error = {""};

    put_policy(policy);
    gs_policy_init(&again);
    MUST(gs_policy_parse(&again, written, "again", &error) == 0);
    MUST(again.expected_gpus == policy->expected_gpus);
    MUST(again.xid_lookback_s == policy->xid_lookback_s);
    MUST(again.model_count == policy->model_count);
    same_rules(again.rules, policy->rules);
    for (uint32_t i = 0; i < policy->model_count; i++) {
        const char *name = policy->models[i].name;

        MUST(strcmp(again.models[i].name, name) == 0);
        same_rules(again.models[i].rules, policy->models[i].rules);
        for (unsigned c = 0; c < GS_CHECKS; c++)
            MUST(gs_policy_find(policy, (enum gs_check)c, name).severity
                 < GS_SEVERITIES);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gs_policy policy;
    struct gs_error error = {""};
    char *text = fuzz_text(data, size);

    gs_policy_init(&policy);
    if (gs_policy_parse(&policy, text, "gangstart.conf", &error) == 0) {
        taken(&policy);
    } else {
        MUST(strncmp(error.text, "gangstart.conf line ", 20) == 0);
        for (const char *c = error.text; *c; c++)
            MUST((unsigned char)*c >= 0x20 && *c != 0x7f);
    }
    free(text);
    return 0;
}
