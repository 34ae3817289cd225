/* policyfind.c - read the file of a policy, and what it says of one GPU; see policy.h.
 *
 * On failure to read: one sentence; the policy stays as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error_private.h"
#include "policy.h"

static const char MAKER[] = "NVIDIA ";

/* Reads at most size - 1 bytes and ends them with a NUL; -errno, else the length. */
static ssize_t read_all(int fd, char *out, size_t size)
{
    size_t used = 0;

    while (used < size - 1) {
        ssize_t got = read(fd, out + used, size - 1 - used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    out[used] = '\0';
    return (ssize_t)used;
}

int gs_policy_load(struct gs_policy *policy,
                   const char *path,
                   bool optional,
                   struct gs_error *error)
{
    const size_t size = GS_POLICY_FILE_MAX + 2;
    char *text = NULL;
    struct stat info;
    ssize_t got;
    int fd, rc;

    /* NONBLOCK: a FIFO in its place is refused, not waited for. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && optional)
        return 0;
    if (fd < 0)
        return gs_error_set(error, errno, "cannot read %s: %s", path, strerror(errno));
    if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
        rc = gs_error_set(error, EINVAL, "%s is not a plain file", path);
        goto done;
    }
    text = malloc(size);
    if (!text) {
        rc = gs_error_set(error, ENOMEM, "no memory to read %s", path);
        goto done;
    }
    got = read_all(fd, text, size);
    if (got < 0) {
        rc = gs_error_set(
            error, (int)-got, "cannot read %s: %s", path, strerror((int)-got));
        goto done;
    }
    if (got > GS_POLICY_FILE_MAX || strlen(text) != (size_t)got) {
        rc = gs_error_set(error,
                          EINVAL,
                          "%s is no configuration: longer than %d bytes or not text",
                          path,
                          GS_POLICY_FILE_MAX);
        goto done;
    }
    rc = gs_policy_parse(policy, text, path, error);
done:
    free(text);
    close(fd);
    return rc;
}

/* Whether a model's name starts with the words of prefix: "A10" is not "A100". */
static bool starts(const char *model, const char *prefix)
{
    size_t len = strlen(prefix);
    char next;

    if (strncasecmp(model, prefix, len) != 0)
        return false;
    next = model[len];
    return !((next >= '0' && next <= '9') || (next >= 'a' && next <= 'z')
             || (next >= 'A' && next <= 'Z'));
}

static bool is_of(const char *model, const char *prefix)
{
    size_t maker = sizeof(MAKER) - 1;

    return starts(model, prefix)
           || (strncasecmp(model, MAKER, maker) == 0 && starts(model + maker, prefix));
}

static void overlay(struct gs_policy_rule *rule, const struct gs_policy_rule *over)
{
    if (over->set & GS_POLICY_SEVERITY)
        rule->severity = over->severity;
    if (over->set & GS_POLICY_LIMIT)
        rule->limit = over->limit;
    if (over->set & GS_POLICY_GRACE)
        rule->grace_s = over->grace_s;
    if (over->set & GS_POLICY_RETRIES)
        rule->retries = over->retries;
    rule->set |= over->set;
}

struct gs_policy_rule gs_policy_find(const struct gs_policy *policy,
                                     enum gs_check check,
                                     const char *model)
{
    struct gs_policy_rule rule = policy->rules[check];

    if (model[0] == '\0' || gs_check_get(check)->node_wide)
        return rule;
    for (size_t len = 1; len < GS_POLICY_MODEL_SIZE; len++) {
        for (uint32_t i = 0; i < policy->model_count; i++) {
            const struct gs_policy_model *section = &policy->models[i];

            if (strlen(section->name) == len && is_of(model, section->name))
                overlay(&rule, &section->rules[check]);
        }
    }
    return rule;
}
