/* verdict.c - names and order of verdicts; see verdict.h. */
#include <string.h>

#include "verdict.h"

static const char *const NAMES[GS_VERDICTS] = {"ok", "unknown", "warn", "fail"};

const char *gs_verdict_name(enum gs_verdict verdict)
{
    return (unsigned)verdict < GS_VERDICTS ? NAMES[verdict] : NAMES[GS_UNKNOWN];
}

bool gs_verdict_read(const char *name, enum gs_verdict *ret_verdict)
{
    for (unsigned i = 0; i < GS_VERDICTS; i++) {
        if (strcmp(NAMES[i], name) == 0) {
            *ret_verdict = (enum gs_verdict)i;
            return true;
        }
    }
    return false;
}

enum gs_verdict gs_verdict_worst(enum gs_verdict a, enum gs_verdict b)
{
    return a > b ? a : b;
}
