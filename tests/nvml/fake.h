/* fake.h - between fake.c (the state) and fakecalls.c (NVML's calls). */
#ifndef FAKE_H
#define FAKE_H

#include <stdint.h>

#define FAKE_GPUS 64

enum {
    FAKE_INVALID_ARGUMENT = 2,
    FAKE_NOT_SUPPORTED = 3,
    FAKE_INSUFFICIENT_SIZE = 7,
    FAKE_VERSION_MISMATCH = 25
};

/* A handle; only its address counts. */
struct fake_gpu {
    char nothing;
};

/* Starts every call: reads the file again if it changed, hangs if the call shall hang,
 * returns the code the call shall return, 0 = go on. */
int fake_enter(const struct fake_gpu *gpu, const char *call);

/* The value of a key, NULL = absent. gpu NULL = the node's. */
const char *fake_text(const struct fake_gpu *gpu, const char *key);
/* As a number: 0 or FAKE_NOT_SUPPORTED. */
int fake_number(const struct fake_gpu *gpu, const char *key, uint64_t *ret_number);
/* As bytes for a text buffer: 0 or a code. */
int fake_copy(const struct fake_gpu *gpu, const char *key, char *to, unsigned size);

struct fake_gpu *fake_handle(unsigned index);
unsigned fake_index(const struct fake_gpu *gpu);

#endif
