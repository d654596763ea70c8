/* What stands for a key: its identity, and the hash of it that decides whether it is sampled. */

#ifndef SPREDS_HASH_H
#define SPREDS_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the traces' records are little-endian, and so must the machine be"
#endif

static inline uint64_t load64(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* The finaliser of SplitMix64 (Steele et al., OOPSLA'14): a bijection, so that the hash of an
 * identity can stand for the identity. */
static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The identity of a text: the hash that redis_patch/WIRE_FORMAT.md defines, with salt 0. */
static inline uint64_t text_identity(const char *text, size_t length)
{
    const uint64_t k0 = 0x9E3779B97F4A7C15u, k1 = 0xD1B54A32D192ED03u, k2 = 0x8CB92BA72F3D8DD7u;
    uint64_t state = fold(length ^ k0, k1);
    for (; length >= 8; length -= 8, text += 8) state = fold(state ^ load64(text), k1);
    if (length) {
        char rest[8] = {0};
        memcpy(rest, text, length);
        state = fold(state ^ load64(rest), k1);
    }
    return fold(state ^ k2, k0);
}

#endif
