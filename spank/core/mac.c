/* mac.c - SHA-256 over any bytes, and HMAC; see mac.h. Nothing here can fail but
 * gs_random(), which then leaves its output untouched. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "mac.h"
#include "sha.h"

struct sha {
    uint32_t state[8];
    uint64_t total; /* bytes absorbed, the pad block included */
    uint8_t block[64];
};

/* FIPS 180-4, 5.3.3. */
static const uint32_t initial_state[8] = {
    0x6a09e667,
    0xbb67ae85,
    0x3c6ef372,
    0xa54ff53a,
    0x510e527f,
    0x9b05688c,
    0x1f83d9ab,
    0x5be0cd19,
};

static void absorb(struct sha *sha, const uint8_t *data, size_t size)
{
    while (size) {
        size_t at = sha->total % 64, n = 64 - at;
        if (n > size)
            n = size;
        memcpy(sha->block + at, data, n);
        sha->total += n;
        data += n;
        size -= n;
        if (sha->total % 64 == 0)
            gs_sha_block(sha->state, sha->block);
    }
}

static void put_be32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void finish(struct sha *sha, uint8_t *ret_sum)
{
    static const uint8_t pad[64] = {0x80};
    uint64_t bits = sha->total * 8;
    uint8_t length[8];

    absorb(sha, pad, 1 + (119 - sha->total % 64) % 64);
    put_be32(length, (uint32_t)(bits >> 32));
    put_be32(length + 4, (uint32_t)bits);
    absorb(sha, length, 8);
    for (int i = 0; i < 8; i++)
        put_be32(ret_sum + 4 * i, sha->state[i]);
}

static void pad_state(uint32_t state[8], const uint8_t *key, uint8_t fill)
{
    uint8_t block[64];

    memset(block, fill, sizeof(block));
    for (int i = 0; i < GS_KEY_SIZE; i++)
        block[i] ^= key[i];
    memcpy(state, initial_state, sizeof(initial_state));
    gs_sha_block(state, block);
    explicit_bzero(block, sizeof(block));
}

void gs_mac_init(struct gs_mac *mac, const uint8_t *key)
{
    pad_state(mac->inner, key, 0x36);
    pad_state(mac->outer, key, 0x5c);
}

void gs_mac_sum(const struct gs_mac *mac,
                const uint8_t *head,
                size_t head_size,
                const uint8_t *body,
                size_t body_size,
                uint8_t *ret_sum)
{
    struct sha sha = {.total = 64};
    uint8_t inner[GS_MAC_SIZE];

    memcpy(sha.state, mac->inner, sizeof(sha.state));
    absorb(&sha, head, head_size);
    absorb(&sha, body, body_size);
    finish(&sha, inner);
    memcpy(sha.state, mac->outer, sizeof(sha.state));
    sha.total = 64;
    absorb(&sha, inner, sizeof(inner));
    finish(&sha, ret_sum);
}

bool gs_mac_equal(const uint8_t *a, const uint8_t *b)
{
    volatile uint8_t differ = 0;

    for (int i = 0; i < GS_MAC_SIZE; i++)
        differ = (uint8_t)(differ | (a[i] ^ b[i]));
    return differ == 0;
}

void gs_mac_wipe(struct gs_mac *mac)
{
    explicit_bzero(mac, sizeof(*mac));
}

int gs_random(uint8_t *ret_bytes, size_t size)
{
    uint8_t bytes[256];

    if (size > sizeof(bytes))
        return -EINVAL;
    if (getrandom(bytes, size, 0) != (ssize_t)size)
        return -EIO;
    memcpy(ret_bytes, bytes, size);
    explicit_bzero(bytes, sizeof(bytes));
    return 0;
}
