/* sha.c - see sha.h. Which of the two ways is taken is asked of the processor once:
 * asking is slow in a virtual machine. Nothing here can fail. */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "sha.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

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

void gs_sha_block_plain(uint32_t *state, const uint8_t *block)
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

#if defined(__x86_64__)
#define SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))

/* The instructions keep the eight words as ABEF and CDGH. Four rounds at a time; from
 * the fifth time on the four words they need come from the sixteen before them. */
SHA_TARGET static void block_fast(uint32_t *state, const uint8_t *block)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i *from = (const __m128i *)block;
    const __m128i *constant = (const __m128i *)round_constant;
    __m128i *to = (__m128i *)state;
    __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(to), 0xb1);
    __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(to + 1), 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), abef_before = abef;
    __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0), cdgh_before = cdgh;
    __m128i w[4] = {{0}}, sum;

    for (int i = 0; i < 16; i++) {
        __m128i *now = &w[i % 4], last = w[(i + 3) % 4];
        if (i < 4) {
            *now = _mm_shuffle_epi8(_mm_loadu_si128(from + i), swap);
        } else {
            *now = _mm_sha256msg1_epu32(*now, w[(i + 1) % 4]);
            *now = _mm_add_epi32(*now, _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
            *now = _mm_sha256msg2_epu32(*now, last);
        }
        sum = _mm_add_epi32(*now, _mm_loadu_si128(constant + i));
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
    abef = _mm_shuffle_epi32(_mm_add_epi32(abef, abef_before), 0x1b);
    cdgh = _mm_shuffle_epi32(_mm_add_epi32(cdgh, cdgh_before), 0xb1);
    _mm_storeu_si128(to, _mm_blend_epi16(abef, cdgh, 0xf0));
    _mm_storeu_si128(to + 1, _mm_alignr_epi8(cdgh, abef, 8));
}

static bool ask_processor(void)
{
    unsigned a, b, c, d;
    bool sse = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) && (c & bit_SSSE3);

    return sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}
#else
static void block_fast(uint32_t *state, const uint8_t *block)
{
    gs_sha_block_plain(state, block);
}

static bool ask_processor(void)
{
    return false;
}
#endif

void gs_sha_block(uint32_t *state, const uint8_t *block)
{
    static _Atomic int known; /* 0 = not asked, 1 = plain, 2 = fast */
    int way = atomic_load_explicit(&known, memory_order_relaxed);

    if (!way) {
        way = ask_processor() ? 2 : 1;
        atomic_store_explicit(&known, way, memory_order_relaxed);
    }
    if (way == 2)
        block_fast(state, block);
    else
        gs_sha_block_plain(state, block);
}
