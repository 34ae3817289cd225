/* verdictline.h - what the checks say of a sample, as the last line. */
#ifndef GS_VERDICTLINE_H
#define GS_VERDICTLINE_H

#include "gpu.h"

/* Prints {"verdict":"ok","drain":false,"sentence":"8 GPUs ok"}, judged by the policy in
 * conf, or by the usual file if there is one (NULL). Returns 0, or 78 after a complaint
 * if the policy cannot be read. */
int gs_probe_verdict(const struct gs_gpus *gpus, const char *conf);

#endif
