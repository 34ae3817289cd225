/* spec_private.h - one row of the key table and the types of values, for C only. */
#ifndef GS_SPEC_PRIVATE_H
#define GS_SPEC_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All presets, for help and error sentences. */
#define GS_ENV_PRESET_NAMES                                                            \
    "torch, horovod, tensorflow, jax, deepspeed, accelerate, lightning"

struct gs_spec_key;

/* A type of value: text -> field and back. read returns false and leaves the field
 * when the text is not allowed; write fills out, which holds any value. */
struct gs_spec_type {
    bool (*read)(const struct gs_spec_key *key, void *field, const char *text);
    void (*write)(const struct gs_spec_key *key,
                  const void *field,
                  char *out,
                  size_t n);
};

struct gs_spec_key {
    const char *name;
    bool site; /* belongs into plugstack.conf */
    const struct gs_spec_type *type;
    size_t offset, size;      /* the field in struct gs_spec */
    const char *const *words; /* of a word type, NULL-terminated, in enum order */
    uint32_t lo, hi;          /* of a number; of a path, lo 1 = none is refused */
    const char *takes;        /* for help: "SECONDS" */
    const char *allowed;      /* for errors: "whole seconds, 1 to 86400" */
    const char *help;
};

enum {
    GS_SPEC_KEY_COUNT = 18,
};
extern const struct gs_spec_key GS_SPEC_KEYS[GS_SPEC_KEY_COUNT];

extern const struct gs_spec_type GS_SPEC_NUMBER;  /* uint32_t lo..hi */
extern const struct gs_spec_type GS_SPEC_WORD;    /* an enum */
extern const struct gs_spec_type GS_SPEC_PORT;    /* uint32_t, auto = 0 */
extern const struct gs_spec_type GS_SPEC_PORTS;   /* two uint32_t, any = 0 0 */
extern const struct gs_spec_type GS_SPEC_SECONDS; /* double, milliseconds exact */
extern const struct gs_spec_type GS_SPEC_PATH;    /* char[], none = "" */
extern const struct gs_spec_type GS_SPEC_REPORT;  /* char[], auto = "" */
extern const struct gs_spec_type GS_SPEC_IFACE;   /* char[], auto = "" */
extern const struct gs_spec_type GS_SPEC_NAMES;   /* char[], joined by +, any = "" */
extern const struct gs_spec_type GS_SPEC_ENV;     /* two uint64_t: presets, without */

#endif
