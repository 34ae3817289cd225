/* gangodd.h - the GPUs of a whole step beside each other: whose are not like the rest.
 */
#ifndef GS_GANGODD_H
#define GS_GANGODD_H

#include "gang.h"
#include "gpurule.h"

/* Kinds of nodes that are told apart; what is beyond is left out. */
#define GS_GANGODD_KINDS 32

/* Compares by what the nodes told: nodes alike are looked at once, so that the size of
 * the step does not matter. A finding names one node, and how many are like it. Returns
 * 0 and *ret_found for gs_gpuverdict_free(), also where there is nothing to compare;
 * -ENOMEM. */
int gs_gangodd_compare(const struct gs_gang *gang,
                       const struct gs_policy *policy,
                       struct gs_gpuverdict *ret_found);

#endif
