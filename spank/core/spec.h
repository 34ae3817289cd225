/* spec.h - how a gang start is asked for: SPEC, plugstack.conf arguments, defaults.
 *
 * Precedence is calling order on one struct, later calls win key by key:
 *   gs_spec_init(); gs_spec_arg() for each plugstack.conf argument;
 *   gs_spec_parse() of SLURM_GANG_START; gs_spec_parse() of --gang-start's value.
 * So a bare --gang-start switches on and keeps what the earlier ones said.
 *
 * How to add a key: a field in struct gs_spec and one row in speckeys.c. Parsing,
 * range checks, error sentences, canonical text and help follow from the row.
 */
#ifndef GS_SPEC_H
#define GS_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define GS_SPEC_TEXT_SIZE 2048 /* longest SPEC, terminator included */
#define GS_SPEC_PATH_SIZE 256
#define GS_SPEC_REPORT_SIZE 1024
#define GS_SPEC_IFACE_SIZE 64

enum gs_health_mode {
    GS_HEALTH_OFF,     /* nothing is asked of the GPUs */
    GS_HEALTH_RECORD,  /* what is found goes into the report */
    GS_HEALTH_REQUIRE, /* a failed check refuses the start */
};

enum gs_require {
    GS_REQUIRE_FAIL,   /* health=require refuses what fails */
    GS_REQUIRE_STRICT, /* ... and what is not known */
};

enum gs_master_mode {
    GS_MASTER_IP,   /* MASTER_ADDR is the numeric address proven reachable */
    GS_MASTER_NAME, /* ... the node's name, after every node has resolved it */
};

enum gs_auto {
    GS_AUTO_NEVER,  /* only with the flag or the environment variable */
    GS_AUTO_GPU,    /* every step that has GPUs */
    GS_AUTO_ALWAYS, /* every step */
};

enum gs_rendezvous {
    GS_RENDEZVOUS_SRUN, /* nodes report to srun */
    GS_RENDEZVOUS_NODE, /* nodes report to the node that owns rank 0 */
};

enum gs_hooks {
    GS_HOOKS_OFF,    /* the prolog and epilog hooks look at nothing */
    GS_HOOKS_RECORD, /* what they find is recorded */
    GS_HOOKS_DRAIN,  /* ... and a bad node is drained */
};

struct gs_spec {
    /* The user's keys. */
    bool on;
    uint32_t timeout_s; /* from the first node's arrival */
    enum gs_health_mode health;
    enum gs_require require;
    uint64_t env_presets; /* bits of enum gs_env_preset */
    uint64_t env_without; /* bit 1 << enum gs_env_var: leave this one alone */
    enum gs_master_mode master_addr;
    uint32_t master_port;                  /* 0 = chosen automatically */
    char master_iface[GS_SPEC_IFACE_SIZE]; /* interface or CIDR, "" = automatic */
    char report[GS_SPEC_REPORT_SIZE];      /* absolute path, "none", "" = automatic */
    double slack_s;                        /* warn beyond this trail, 0 = off */
    /* plugstack.conf only. */
    enum gs_auto auto_start;
    char partitions[GS_SPEC_PATH_SIZE]; /* where auto counts, joined by +, "" = any */
    enum gs_rendezvous rendezvous;
    enum gs_hooks hooks;
    uint32_t port_lo, port_hi; /* 0 = no restriction */
    char spool[GS_SPEC_PATH_SIZE];
    char archive[GS_SPEC_PATH_SIZE]; /* "" = none, as below */
    char probe[GS_SPEC_PATH_SIZE];
    char conf[GS_SPEC_PATH_SIZE];
};

/* Sets every key to its built-in default; off. */
void gs_spec_init(struct gs_spec *spec);

/* Reads the user's SPEC: items separated by commas, each key=value, a bare number
 * (= timeout), on or off. NULL, "" and "(null)" are a bare flag. Switches on unless it
 * says off. All or nothing: on error spec is as before.
 *
 * Returns 0; -EINVAL and a sentence naming the key, the value and what is allowed, also
 * for a key given twice and for a key that belongs into plugstack.conf. */
int gs_spec_parse(struct gs_spec *spec, const char *text, struct gs_error *error);

/* Reads one plugstack.conf argument, key=value; every key is allowed, on and off are
 * not (auto= is the site's switch), and spec->on never changes. Returns as above. */
int gs_spec_arg(struct gs_spec *spec, const char *arg, struct gs_error *error);

/* Writes the user's keys as one canonical SPEC, without blanks and '#': reading it into
 * any struct reproduces them all. Returns 0, or -ENOSPC (GS_SPEC_TEXT_SIZE is always
 * enough). */
int gs_spec_format(const struct gs_spec *spec, char *out, size_t size);

/* All keys with what they take and mean, several lines. Static, never NULL. */
const char *gs_spec_help(void);

#endif
