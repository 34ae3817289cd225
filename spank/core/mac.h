/* mac.h - HMAC-SHA256 (RFC 2104, FIPS 180-4), the seal of every frame.
 *
 * The plugin may load nothing beyond libc into slurmstepd, hence no OpenSSL here.
 * Tested against Python's hashlib and hmac.
 */
#ifndef GS_MAC_H
#define GS_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GS_MAC_SIZE 32
#define GS_KEY_SIZE 32
#define GS_NONCE_SIZE 16

/* A key, already absorbed: both HMAC pads cost nothing per message. Holds key
 * material; wipe with gs_mac_wipe() when done. */
struct gs_mac {
    uint32_t inner[8];
    uint32_t outer[8];
};

/* Absorbs a key of GS_KEY_SIZE bytes. Cannot fail. */
void gs_mac_init(struct gs_mac *mac, const uint8_t *key);

/* Writes GS_MAC_SIZE bytes to ret_sum: HMAC over head followed by body (either may
 * be empty, then its pointer may be NULL). */
void gs_mac_sum(const struct gs_mac *mac,
                const uint8_t *head,
                size_t head_size,
                const uint8_t *body,
                size_t body_size,
                uint8_t *ret_sum);

/* Whether two sums are equal, in time that does not depend on where they differ. */
bool gs_mac_equal(const uint8_t *a, const uint8_t *b);

/* Overwrites the key material in a way the compiler keeps. */
void gs_mac_wipe(struct gs_mac *mac);

/* Fills size bytes from the kernel's random source. Returns 0 or -errno. */
int gs_random(uint8_t *ret_bytes, size_t size);

#endif
