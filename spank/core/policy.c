/* policy.c - read gangstart.conf and look up what holds; see policy.h.
 *
 * Knobs: the tables GLOBALS and FIELDS. A line that is not understood ends the parsing
 * with one sentence that names it: a policy is never half applied unnoticed.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "error_private.h"
#include "klog_private.h"
#include "number_private.h"
#include "policy.h"
#include "probe.h"

#define KEY_SIZE 64
#define VALUE_SIZE GS_POLICY_PATH_SIZE
#define DAY 86400

_Static_assert((int)GS_CHECKS <= GS_CHECK_MAX, "every check has its rule");

/* A number has 32 bits and a range; a path has GS_POLICY_PATH_SIZE bytes and none. */
static const struct {
    const char *name;
    size_t offset;
    uint64_t min, max;
    const char *allowed;
} GLOBALS[] = {
    {"expected_gpus",
     offsetof(struct gs_policy, expected_gpus),
     0,
     64,
     "a number of GPUs, 0 to 64"},
    {"xid_lookback",
     offsetof(struct gs_policy, xid_lookback_s),
     0,
     365 * DAY,
     "seconds, 0 to 31536000"},
    {"probe_deadline",
     offsetof(struct gs_policy, probe_s),
     1,
     3600,
     "seconds, 1 to 3600"},
    {"init_deadline",
     offsetof(struct gs_policy, probe_init_s),
     1,
     3600,
     "seconds, 1 to 3600"},
    {"gpu_deadline",
     offsetof(struct gs_policy, probe_gpu_s),
     1,
     3600,
     "seconds, 1 to 3600"},
    {"kernel_log",
     offsetof(struct gs_policy, kernel_log),
     0,
     0,
     "none, journal or an absolute path"},
};
#define GLOBAL_COUNT (sizeof(GLOBALS) / sizeof(GLOBALS[0]))

/* What follows the point of CHECK.limit. */
static const struct {
    const char *name;
    enum gs_policy_set bit;
    uint64_t max;
    const char *allowed;
} FIELDS[] = {
    {"limit", GS_POLICY_LIMIT, INT64_MAX, "a whole number"},
    {"grace", GS_POLICY_GRACE, 3600, "seconds, 0 to 3600"},
    {"retries", GS_POLICY_RETRIES, 100, "a number, 0 to 100"},
};
#define FIELD_COUNT (sizeof(FIELDS) / sizeof(FIELDS[0]))

/* Where the parsing stands. */
struct place {
    struct gs_policy *policy;
    struct gs_policy_model *model; /* NULL: before the first section */
    const char *file;
    unsigned line;
    struct gs_error *error;
};

struct span {
    const char *at;
    size_t len;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct span trim(struct span s)
{
    while (s.len > 0 && is_blank(s.at[0])) {
        s.at++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.at[s.len - 1]))
        s.len--;
    return s;
}

static bool copy(char *out, size_t size, struct span s)
{
    if (s.len >= size)
        return false;
    memcpy(out, s.at, s.len);
    out[s.len] = '\0';
    return true;
}

void gs_policy_init(struct gs_policy *policy)
{
    memset(policy, 0, sizeof(*policy));
    policy->expected_gpus = -1;
    policy->xid_lookback_s = DAY;
    policy->probe_s = GS_PROBE_WHOLE_US / 1000000;
    policy->probe_init_s = GS_PROBE_INIT_US / 1000000;
    policy->probe_gpu_s = GS_PROBE_GPU_US / 1000000;
    snprintf(policy->kernel_log, sizeof(policy->kernel_log), "%s", GS_KLOG_DEVICE);
    for (unsigned i = 0; i < GS_CHECKS; i++) {
        const struct gs_check_info *info = gs_check_get((enum gs_check)i);

        policy->rules[i] = (struct gs_policy_rule){
            info->severity, info->limit, info->grace_s, info->retries, 0};
    }
}

/* False: it is none. Nothing is written unless asked to. */
static bool take_global(struct gs_policy *policy,
                        unsigned row,
                        const char *value,
                        bool write)
{
    char *field = (char *)policy + GLOBALS[row].offset;
    uint64_t number;

    if (!GLOBALS[row].max) {
        bool none = strcmp(value, "none") == 0;
        if (write)
            snprintf(field, GS_POLICY_PATH_SIZE, "%s", none ? "" : value);
        return none || value[0] == '/' || strcmp(value, GS_KLOG_JOURNAL) == 0;
    }
    if (!gs_number_read(value, strlen(value), GLOBALS[row].max, &number)
        || number < GLOBALS[row].min)
        return false;
    if (write)
        memcpy(field, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
    return true;
}

static int set_global(struct place *p, unsigned row, const char *value)
{
    if (p->model)
        return gs_error_set(p->error,
                            EINVAL,
                            "%s line %u: %s is not of a GPU model; set it before the "
                            "first [section]",
                            p->file,
                            p->line,
                            GLOBALS[row].name);
    if (!take_global(p->policy, row, value, false))
        return gs_error_set(p->error,
                            EINVAL,
                            "%s line %u: %s = %s: give %s",
                            p->file,
                            p->line,
                            GLOBALS[row].name,
                            value,
                            GLOBALS[row].allowed);
    if (p->policy->globals_set & 1U << row)
        return gs_error_set(p->error,
                            EINVAL,
                            "%s line %u: %s is set twice; keep one line",
                            p->file,
                            p->line,
                            GLOBALS[row].name);
    p->policy->globals_set |= 1U << row;
    take_global(p->policy, row, value, true);
    return 0;
}

static int set_severity(struct place *p,
                        struct gs_policy_rule *rule,
                        const char *key,
                        const char *value)
{
    for (unsigned i = 0; i < GS_SEVERITIES; i++) {
        if (strcmp(value, gs_severity_name((enum gs_severity)i)) == 0) {
            rule->severity = (enum gs_severity)i;
            return 0;
        }
    }
    return gs_error_set(p->error,
                        EINVAL,
                        "%s line %u: %s = %s: give off, info, warn or fail",
                        p->file,
                        p->line,
                        key,
                        value);
}

static int set_field(struct place *p,
                     struct gs_policy_rule *rule,
                     unsigned row,
                     const char *key,
                     const char *value)
{
    uint64_t number;

    if (!gs_number_read(value, strlen(value), FIELDS[row].max, &number))
        return gs_error_set(p->error,
                            EINVAL,
                            "%s line %u: %s = %s: give %s",
                            p->file,
                            p->line,
                            key,
                            value,
                            FIELDS[row].allowed);
    if (FIELDS[row].bit == GS_POLICY_LIMIT)
        rule->limit = number;
    else if (FIELDS[row].bit == GS_POLICY_GRACE)
        rule->grace_s = (uint32_t)number;
    else
        rule->retries = (uint32_t)number;
    return 0;
}

static int unknown_key(struct place *p, const char *key)
{
    char names[256] = "";
    size_t used = 0;

    for (unsigned i = 0; i < GLOBAL_COUNT && used < sizeof(names); i++)
        used += (size_t)snprintf(
            names + used, sizeof(names) - used, "%s, ", GLOBALS[i].name);
    return gs_error_set(p->error,
                        EINVAL,
                        "%s line %u: unknown key %s; allowed are %sand CHECK, "
                        "CHECK.limit, CHECK.grace, CHECK.retries for the checks listed "
                        "in gangstart.conf(5)",
                        p->file,
                        p->line,
                        key,
                        names);
}

/* Finds what key is of a check: its number, and *ret_field, -1 for the severity. */
static int find_check(const char *key, int *ret_field)
{
    const char *point = strchr(key, '.');
    char id[KEY_SIZE];

    *ret_field = -1;
    if (!point)
        return gs_check_find(key);
    if (!copy(id, sizeof(id), (struct span){key, (size_t)(point - key)}))
        return -1;
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(point + 1, FIELDS[i].name) == 0)
            *ret_field = (int)i;
    }
    return *ret_field < 0 ? -1 : gs_check_find(id);
}

static int set_check(struct place *p, const char *key, const char *value)
{
    int field, check = find_check(key, &field);
    const struct gs_check_info *info;
    struct gs_policy_rule *rule;
    uint32_t bit;
    int rc;

    if (check < 0)
        return unknown_key(p, key);
    info = gs_check_get((enum gs_check)check);
    bit = field < 0 ? GS_POLICY_SEVERITY : FIELDS[field].bit;
    rule = p->model ? &p->model->rules[check] : &p->policy->rules[check];
    if (p->model && info->node_wide)
        return gs_error_set(p->error,
                            EINVAL,
                            "%s line %u: %s is of the whole node, not of a GPU model; "
                            "set it before the first [section]",
                            p->file,
                            p->line,
                            info->id);
    if (bit == GS_POLICY_LIMIT && info->unit[0] == '\0')
        return gs_error_set(p->error,
                            EINVAL,
                            "%s line %u: check %s has no limit; it knows off, info, "
                            "warn and fail, .grace and .retries",
                            p->file,
                            p->line,
                            info->id);
    if (rule->set & bit)
        return gs_error_set(p->error,
                            EINVAL,
                            "%s line %u: %s is set twice%s; keep one line",
                            p->file,
                            p->line,
                            key,
                            p->model ? " in this section" : "");
    rc = field < 0 ? set_severity(p, rule, key, value)
                   : set_field(p, rule, (unsigned)field, key, value);
    if (rc == 0)
        rule->set |= bit;
    return rc;
}

static int begin_section(struct place *p, struct span name)
{
    struct gs_policy *policy = p->policy;
    char text[GS_POLICY_MODEL_SIZE];

    if (name.len == 0 || !copy(text, sizeof(text), name))
        return gs_error_set(p->error,
                            EINVAL,
                            "%s line %u: a section is [MODEL], the beginning of a GPU "
                            "model's name, 1 to %d characters, such as [H100]",
                            p->file,
                            p->line,
                            GS_POLICY_MODEL_SIZE - 1);
    for (uint32_t i = 0; i < policy->model_count; i++) {
        if (strcasecmp(policy->models[i].name, text) == 0)
            return gs_error_set(p->error,
                                EINVAL,
                                "%s line %u: section [%s] is there twice; put its "
                                "lines together",
                                p->file,
                                p->line,
                                text);
    }
    if (policy->model_count == GS_POLICY_MODELS)
        return gs_error_set(p->error,
                            E2BIG,
                            "%s line %u: more than %d sections",
                            p->file,
                            p->line,
                            GS_POLICY_MODELS);
    p->model = &policy->models[policy->model_count++];
    memcpy(p->model->name, text, sizeof(text));
    return 0;
}

static int parse_line(struct place *p, struct span line)
{
    const char *comment = memchr(line.at, '#', line.len), *equals;
    char key[KEY_SIZE], value[VALUE_SIZE];

    if (comment)
        line.len = (size_t)(comment - line.at);
    line = trim(line);
    if (line.len == 0)
        return 0;
    if (line.at[0] == '[' && line.at[line.len - 1] == ']')
        return begin_section(p, trim((struct span){line.at + 1, line.len - 2}));
    equals = memchr(line.at, '=', line.len);
    if (!equals
        || !copy(
            key, sizeof(key), trim((struct span){line.at, (size_t)(equals - line.at)}))
        || !copy(
            value,
            sizeof(value),
            trim((struct span){equals + 1, line.len - (size_t)(equals + 1 - line.at)})))
        return gs_error_set(p->error,
                            EINVAL,
                            "%s line %u: '%.*s' is neither 'key = value' nor [MODEL] "
                            "nor a comment (#)",
                            p->file,
                            p->line,
                            (int)(line.len > KEY_SIZE ? KEY_SIZE : line.len),
                            line.at);
    for (unsigned i = 0; i < GLOBAL_COUNT; i++) {
        if (strcmp(key, GLOBALS[i].name) == 0)
            return set_global(p, i, value);
    }
    return set_check(p, key, value);
}

int gs_policy_parse(struct gs_policy *policy,
                    const char *text,
                    const char *name,
                    struct gs_error *error)
{
    struct place place = {policy, NULL, name, 0, error};
    int rc = 0;

    while (rc == 0 && *text != '\0') {
        size_t len = strcspn(text, "\n");

        place.line++;
        rc = parse_line(&place, (struct span){text, len});
        text += len + (text[len] == '\n');
    }
    return rc;
}
