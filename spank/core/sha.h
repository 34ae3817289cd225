/* sha.h - the compression function of SHA-256 (FIPS 180-4): one block into a state. */
#ifndef GS_SHA_H
#define GS_SHA_H

#include <stdint.h>

/* Absorbs a block of 64 bytes into the 8 words of state, with the processor's own
 * instructions for it where there are any. Cannot fail. */
void gs_sha_block(uint32_t *state, const uint8_t *block);

/* The same in plain C, everywhere. */
void gs_sha_block_plain(uint32_t *state, const uint8_t *block);

#endif
