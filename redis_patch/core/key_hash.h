/* The hash of a key, by which it is sampled or not: WIRE_FORMAT.md defines it. */

#ifndef SPREDS_KEY_HASH_H
#define SPREDS_KEY_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 sampler_product; /* no error where servers are pedantic */

/* The two halves of the 128-bit product, folded into one word: the mixing step of the hash. */
static inline uint64_t sampler_fold(uint64_t a, uint64_t b) {
#ifdef __x86_64__
    /* One multiplication as well, but GCC sets two registers aside for the product's upper half,
     * which a write that is not sampled would have to save. */
    uint64_t high;
    __asm__("mulq %3" : "=a"(a), "=d"(high) : "0"(a), "r"(b) : "cc");
    return a ^ high;
#else
    sampler_product product = (sampler_product)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#endif
}

static inline uint64_t sampler_load64(const unsigned char *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline uint64_t sampler_load32(const unsigned char *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* The 1 to 7 bytes at p as a word, padded with zero bytes, by loads that stay inside them. */
static inline uint64_t sampler_load_short(const unsigned char *p, size_t length) {
    if (length >= 4) {
        return sampler_load32(p) | sampler_load32(p + length - 4) << (8 * (length - 4));
    }
    return p[0] | (uint64_t)p[length / 2] << (8 * (length / 2)) |
           (uint64_t)p[length - 1] << (8 * (length - 1));
}

#define SAMPLER_K0 UINT64_C(0x9E3779B97F4A7C15)
#define SAMPLER_K1 UINT64_C(0xD1B54A32D192ED03)
#define SAMPLER_K2 UINT64_C(0x8CB92BA72F3D8DD7)

/* What the hash of a key of this length begins with. */
static inline uint64_t sampler_seed(size_t length, uint64_t salt) {
    return salt ^ sampler_fold(length ^ SAMPLER_K0, SAMPLER_K1);
}

/* The hash of a key, from its seed on. */
static inline uint64_t sampler_hash_from(uint64_t seed, const void *key, size_t length) {
    const unsigned char *p = key;
    uint64_t state = seed;

    if (length >= 8) {
        const unsigned char *last = p + length - 8;
        do {
            state = sampler_fold(state ^ sampler_load64(p), SAMPLER_K1);
            p += 8;
        } while (p <= last);
        size_t left = length % 8;
        if (left) {
            state = sampler_fold(state ^ sampler_load64(last) >> (64 - 8 * left), SAMPLER_K1);
        }
    } else if (length) {
        state = sampler_fold(state ^ sampler_load_short(p, length), SAMPLER_K1);
    }
    return sampler_fold(state ^ SAMPLER_K2, SAMPLER_K0);
}

/* The hash of a key under a salt, as WIRE_FORMAT.md defines it. It must stay inlined: that is half
 * of what an access costs. */
static inline uint64_t sampler_hash(const void *key, size_t length, uint64_t salt) {
    return sampler_hash_from(sampler_seed(length, salt), key, length);
}

#endif
