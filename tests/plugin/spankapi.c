/* spankapi.c - spank_*, as strict as Slurm's: an item asked for in the wrong place or
 * moment is an error, not a zero. */
#include <slurm/slurm_errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

spank_context_t spank_context(void)
{
    return phase.context;
}

const char *spank_strerror(spank_err_t err)
{
    return err == ESPANK_SUCCESS ? "Success" : "Error";
}

spank_err_t spank_option_register(spank_t sp, struct spank_option *option)
{
    if (!sp || !phase.in_init || stack_register(option) < 0)
        return ESPANK_BAD_ARG;
    return ESPANK_SUCCESS;
}

spank_err_t spank_option_getopt(spank_t sp,
                                struct spank_option *option,
                                char **ret_text)
{
    (void)option;
    (void)ret_text;
    return sp ? ESPANK_ERROR : ESPANK_BAD_ARG;
}

static spank_err_t of_job(spank_item_t item, va_list ap)
{
    const struct node *node = &host.nodes[host.me];
    bool remote = phase.context == S_CTX_REMOTE;

    switch (item) {
    case S_JOB_ID:
        *va_arg(ap, uint32_t *) = host.job_id;
        return ESPANK_SUCCESS;
    case S_JOB_UID:
        *va_arg(ap, uid_t *) = getuid();
        return ESPANK_SUCCESS;
    case S_JOB_GID:
        *va_arg(ap, gid_t *) = getgid();
        return ESPANK_SUCCESS;
    case S_JOB_STEPID:
        *va_arg(ap, uint32_t *) = host.step_id;
        return ESPANK_SUCCESS;
    case S_JOB_NNODES:
        *va_arg(ap, uint32_t *) = host.node_count;
        return ESPANK_SUCCESS;
    case S_JOB_TOTAL_TASK_COUNT:
        *va_arg(ap, uint32_t *) = host.rank_count;
        return ESPANK_SUCCESS;
    case S_JOB_NODEID:
        if (remote)
            *va_arg(ap, uint32_t *) = host.me;
        return remote ? ESPANK_SUCCESS : ESPANK_NOT_REMOTE;
    case S_JOB_LOCAL_TASK_COUNT:
        if (remote)
            *va_arg(ap, uint32_t *) = node->rank_count;
        return remote ? ESPANK_SUCCESS : ESPANK_NOT_REMOTE;
    case S_JOB_ENV:
        *va_arg(ap, char ***) = remote ? phase.env : NULL;
        return ESPANK_SUCCESS;
    default:
        return ESPANK_BAD_ARG;
    }
}

static spank_err_t of_task(spank_item_t item, va_list ap)
{
    const struct node *node = &host.nodes[host.me];

    if (phase.context != S_CTX_REMOTE)
        return ESPANK_NOT_REMOTE;
    if (phase.task < 0)
        return ESPANK_NOT_TASK;
    switch (item) {
    case S_TASK_ID:
        *va_arg(ap, int *) = phase.task;
        return ESPANK_SUCCESS;
    case S_TASK_GLOBAL_ID:
        *va_arg(ap, uint32_t *) = node->ranks[phase.task];
        return ESPANK_SUCCESS;
    case S_TASK_EXIT_STATUS:
        if (!phase.exited)
            return ESPANK_NOT_EXECD;
        *va_arg(ap, int *) = phase.status;
        return ESPANK_SUCCESS;
    default:
        return ESPANK_BAD_ARG;
    }
}

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...)
{
    const struct node *node = &host.nodes[host.me];
    spank_err_t rc;
    va_list ap;

    if (!sp)
        return ESPANK_BAD_ARG;
    va_start(ap, item);
    if (item == S_SLURM_VERSION) {
        *va_arg(ap, const char **) = "22.05.8";
        rc = ESPANK_SUCCESS;
    } else if (item == S_TASK_ID || item == S_TASK_GLOBAL_ID
               || item == S_TASK_EXIT_STATUS) {
        rc = of_task(item, ap);
    } else if (!phase.job_known) {
        rc = ESPANK_NOT_AVAIL;
    } else if (phase.context == S_CTX_JOB_SCRIPT && item != S_JOB_ID
               && item != S_JOB_UID && item != S_JOB_GID) {
        rc = ESPANK_NOT_AVAIL;
    } else if (item == S_JOB_LOCAL_TO_GLOBAL_ID) {
        uint32_t local = va_arg(ap, uint32_t);
        rc = phase.context != S_CTX_REMOTE ? ESPANK_NOT_REMOTE
             : local >= node->rank_count   ? ESPANK_NOEXIST
                                           : ESPANK_SUCCESS;
        if (rc == ESPANK_SUCCESS)
            *va_arg(ap, uint32_t *) = node->ranks[local];
    } else {
        rc = of_job(item, ap);
    }
    va_end(ap);
    return rc;
}

spank_err_t spank_getenv(spank_t sp, const char *name, char *out, int size)
{
    const char *value;

    if (!sp || size < 0)
        return ESPANK_BAD_ARG;
    if (phase.context != S_CTX_REMOTE)
        return ESPANK_NOT_REMOTE;
    value = env_get(name);
    if (!value)
        return ESPANK_ENV_NOEXIST;
    return snprintf(out, (size_t)size, "%s", value) < size ? ESPANK_SUCCESS
                                                           : ESPANK_NOSPACE;
}

spank_err_t spank_setenv(spank_t sp, const char *name, const char *value, int overwrite)
{
    if (!sp || !name || !value)
        return ESPANK_BAD_ARG;
    if (phase.context != S_CTX_REMOTE)
        return ESPANK_NOT_REMOTE;
    if (!overwrite && env_get(name))
        return ESPANK_ENV_EXISTS;
    env_set(name, value);
    return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t sp, const char *name)
{
    if (!sp || !name)
        return ESPANK_BAD_ARG;
    if (phase.context != S_CTX_REMOTE)
        return ESPANK_NOT_REMOTE;
    env_unset(name);
    return ESPANK_SUCCESS;
}
