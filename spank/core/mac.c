/* mac.c - SHA-256 and HMAC in plain C; see mac.h. Nothing here can fail but
 * gs_random(), which then leaves its output untouched. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "mac.h"

struct sha {
    uint32_t state[8];
    uint64_t total; /* bytes absorbed, the pad block included */
    uint8_t block[64];
};

/* FIPS 180-4, 4.2.2: first 32 bits of the fractional parts of the cube roots of the
 * first 64 primes. */
static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
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

static uint32_t rotr(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void schedule(const uint8_t *block, uint32_t w[64])
{
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16
               | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) + w[i - 7]
               + (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
    }
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], v[8];

    schedule(block, w);
    memcpy(v, state, sizeof(v));
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
        uint32_t ch = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + ch + round_constant[i] + w[i];
        uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
        uint32_t maj = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + s0 + maj;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

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
            compress(sha->state, sha->block);
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
    compress(state, block);
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
