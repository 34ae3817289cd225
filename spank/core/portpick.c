/* portpick.c - the order in which ports are tried for MASTER_PORT; see portpick.h.
 *
 * A formula such as base + job_id % n makes jobs collide that are congruent modulo n;
 * here start and stride both come from a hash of job and step. The admissible ports are
 * kept as ranges in three tiers of preference; nothing is allocated.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "error_private.h"
#include "number_private.h"
#include "portpick.h"

#define SERVICES_END 10000
#define LINUX_EPH_LO 32768
#define LINUX_EPH_HI 60999
#define PIECES (6 * GS_PORT_RANGES) /* ranges left after cutting others out */

struct ports { /* ranges, in int so that arithmetic at the ends cannot wrap */
    struct piece {
        int lo, hi;
    } piece[PIECES];
    uint32_t pieces;
};

void gs_portrules_init(struct gs_portrules *rules)
{
    *rules = (struct gs_portrules){
        .eph_lo = LINUX_EPH_LO,
        .eph_hi = LINUX_EPH_HI,
        .avoid = {{6817, 6820}}, /* slurmctld, slurmd, slurmdbd, slurmrestd */
        .avoid_count = 1,
    };
}

static bool ranges_valid(const struct gs_portrange *range, uint32_t count)
{
    if (count > GS_PORT_RANGES)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (range[i].lo > range[i].hi)
            return false;
    return true;
}

static void ports_add(struct ports *ports, int lo, int hi)
{
    if (lo <= hi && ports->pieces < PIECES)
        ports->piece[ports->pieces++] = (struct piece){lo, hi};
}

/* Takes lo..hi out of the ports; what was cut goes to cut unless NULL. */
static void ports_cut(struct ports *ports, int lo, int hi, struct ports *cut)
{
    struct ports old = *ports;

    ports->pieces = 0;
    for (uint32_t i = 0; i < old.pieces; i++) {
        struct piece p = old.piece[i];

        ports_add(ports, p.lo, p.hi < lo ? p.hi : lo - 1);
        ports_add(ports, p.lo > hi ? p.lo : hi + 1, p.hi);
        if (cut)
            ports_add(cut, p.lo > lo ? p.lo : lo, p.hi < hi ? p.hi : hi);
    }
}

static uint32_t ports_count(const struct ports *ports)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < ports->pieces; i++)
        count += (uint32_t)(ports->piece[i].hi - ports->piece[i].lo + 1);
    return count;
}

static uint16_t ports_nth(const struct ports *ports, uint32_t n)
{
    for (uint32_t i = 0; i < ports->pieces; i++) {
        uint32_t size = (uint32_t)(ports->piece[i].hi - ports->piece[i].lo + 1);

        if (n < size)
            return (uint16_t)(ports->piece[i].lo + (int)n);
        n -= size;
    }
    return 0;
}

/* Everything that may be used, each port once. */
static void ports_start(struct ports *ports, const struct gs_portrules *rules)
{
    if (rules->allowed_count == 0)
        ports_add(ports, GS_PORT_MIN, GS_PORT_MAX);
    for (uint32_t i = 0; i < rules->allowed_count; i++) {
        int lo =
            rules->allowed[i].lo < GS_PORT_MIN ? GS_PORT_MIN : rules->allowed[i].lo;

        ports_cut(ports, lo, rules->allowed[i].hi, NULL); /* ranges may overlap */
        ports_add(ports, lo, rules->allowed[i].hi);
    }
    for (uint32_t i = 0; i < rules->avoid_count; i++)
        ports_cut(ports, rules->avoid[i].lo, rules->avoid[i].hi, NULL);
}

/* The finaliser of splitmix64: every bit of the input moves every bit of the result. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static uint32_t divisor(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* The attempt-th of 0..count-1 in an order given by the key. */
static uint32_t permute(uint64_t key, uint32_t count, uint32_t attempt)
{
    uint64_t start = mix(key) % count;
    uint32_t stride = (uint32_t)(mix(~key) % count);

    while (divisor(stride, count) != 1)
        stride = (stride + 1) % count;
    return (uint32_t)((start + (uint64_t)attempt * stride) % count);
}

static int exhausted(const struct gs_portrules *rules,
                     uint32_t count,
                     struct gs_error *error)
{
    char ranges[160] = "1024-65535";
    size_t used = 0;

    for (uint32_t i = 0; i < rules->allowed_count && used < sizeof(ranges); i++)
        used += (size_t)snprintf(ranges + used,
                                 sizeof(ranges) - used,
                                 "%s%u-%u",
                                 i ? ", " : "",
                                 rules->allowed[i].lo,
                                 rules->allowed[i].hi);
    return gs_error_set(error,
                        ENOSPC,
                        "no port is free for MASTER_PORT: all %u that may be used of "
                        "%s are taken; widen ports= in plugstack.conf or end what "
                        "holds them",
                        count,
                        ranges);
}

int gs_port_candidate(const struct gs_portrules *rules,
                      uint32_t job_id,
                      uint32_t step_id,
                      uint32_t attempt,
                      uint16_t *ret_port,
                      struct gs_error *error)
{
    int eph_lo = rules->eph_hi ? rules->eph_lo : LINUX_EPH_LO;
    int eph_hi = rules->eph_hi ? rules->eph_hi : LINUX_EPH_HI;
    struct ports tier[3] = {{.pieces = 0}};
    uint32_t total = 0;

    if (!ranges_valid(rules->allowed, rules->allowed_count)
        || !ranges_valid(rules->avoid, rules->avoid_count) || eph_lo > eph_hi)
        return gs_error_set(error,
                            EINVAL,
                            "a port range is malformed: at most %d ranges, each the "
                            "smaller port first",
                            GS_PORT_RANGES);
    ports_start(&tier[0], rules);
    ports_cut(&tier[0], eph_lo, eph_hi, &tier[2]);
    if (rules->allowed_count == 0)
        ports_cut(&tier[0], GS_PORT_MIN, SERVICES_END - 1, &tier[1]);
    for (int i = 0; i < 3; i++) {
        uint32_t count = ports_count(&tier[i]);

        if (attempt - total < count) {
            uint64_t key = (uint64_t)job_id << 32 | step_id;

            *ret_port = ports_nth(&tier[i], permute(key, count, attempt - total));
            return 0;
        }
        total += count;
    }
    return exhausted(rules, total, error);
}

int gs_port_read(const char *text, uint16_t *ret_port, struct gs_error *error)
{
    uint64_t port = 0;

    if (!gs_number_read(text, strlen(text), GS_PORT_MAX, &port) || text[0] == '0'
        || port < GS_PORT_MIN)
        return gs_error_set(error,
                            EINVAL,
                            "MASTER_PORT='%.80s' is not a port a task can use; set a "
                            "number from 1024 to 65535, or unset it to have one chosen",
                            text);
    *ret_port = (uint16_t)port;
    return 0;
}
