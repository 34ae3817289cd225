/* why.c - see why.h. The first fact that explains the absence is told; slurmctld's
 * record comes with it when it says something too. */
#include <stdio.h>
#include <string.h>

#include "why.h"

static const char *record(const struct gs_why *why)
{
    if (why->powering)
        return "node is powering up or down";
    if (why->down)
        return "node is DOWN";
    if (why->not_responding)
        return "slurmctld gets no response from the node";
    return why->drain ? "node is draining" : "";
}

/* The step is there, and has not come to us. What a plugin's user_init starts, the
 * import of a container for instance, counts as a process of the step too. */
static void step_text(const struct gs_why *why,
                      long long waited,
                      char *ret_text,
                      size_t size)
{
    static const char without_us[] =
        "without us: plugin not loaded there, of another version, or cut off from srun";

    if (!why->process_count)
        snprintf(ret_text,
                 size,
                 "slurmd answers; slurmstepd has started no task for %lld s%s%s%s",
                 waited,
                 why->user_init[0] ? ": is it in user_init of " : "",
                 why->user_init,
                 why->user_init[0] ? "?" : "");
    else if (why->user_init[0])
        snprintf(
            ret_text,
            size,
            "slurmd answers; still in user_init of %s for %lld s, or its tasks run "
            "%s",
            why->user_init,
            waited,
            without_us);
    else
        snprintf(ret_text,
                 size,
                 "slurmd answers; %u processes of the step run there %s",
                 why->process_count,
                 without_us);
}

static void slurmd_text(const struct gs_why *why,
                        int64_t waited_us,
                        char *ret_text,
                        size_t size)
{
    long long waited = (long long)waited_us / 1000000;

    ret_text[0] = '\0';
    if (why->slurmd == GS_SLURMD_UNREACHABLE)
        snprintf(ret_text,
                 size,
                 "slurmd cannot be reached (%s)",
                 strerror(why->connect_errno));
    else if (why->slurmd == GS_SLURMD_MUTE)
        snprintf(ret_text,
                 size,
                 "slurmd takes connections but does not answer (for %lld s)",
                 (long long)why->mute_us / 1000000);
    else if (why->slurmd == GS_SLURMD_ALIVE && !why->step_known)
        snprintf(ret_text, size, "slurmd answers");
    else if (why->slurmd == GS_SLURMD_ALIVE && why->step_there)
        step_text(why, waited, ret_text, size);
    else if (why->slurmd == GS_SLURMD_ALIVE && why->prolog)
        snprintf(ret_text, size, "slurmd answers; Prolog running for %lld s", waited);
    else if (why->slurmd == GS_SLURMD_ALIVE)
        snprintf(ret_text,
                 size,
                 "slurmd answers; it has not launched the step for %lld s, or without "
                 "us (plugin not loaded there?)",
                 waited);
}

void gs_why_text(const struct gs_why *why,
                 int64_t waited_us,
                 char *ret_text,
                 size_t size)
{
    char slurmd[320];
    const char *state = record(why);

    ret_text[0] = '\0';
    if (!why->asked)
        return;
    slurmd_text(why, waited_us, slurmd, sizeof(slurmd));
    snprintf(ret_text,
             size,
             "%s%s%s%s%s%s",
             state,
             state[0] && why->reason[0] ? " (Reason: " : "",
             state[0] ? why->reason : "",
             state[0] && why->reason[0] ? ")" : "",
             state[0] && slurmd[0] ? "; " : "",
             slurmd);
    /* A node's Reason is free text. */
    for (char *c = ret_text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}
