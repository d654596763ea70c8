/* Stack distances of whole traces, exact or sampled.
 *
 * Plain C, called from Python through ctypes (sidecar/kernel/library.py): no Python header is needed to
 * build it. The same in Python, to the last bit, is tests/oracles/trace_stack.py.
 *
 * Each request's key is an unsigned 64-bit identity; its hash decides whether it is sampled.
 * Sampling after Waldspurger et al., SHARDS (FAST'15): with a limit on objects, the one with the
 * largest hash leaves, and the threshold falls to that hash. A sampled request stands for
 * 1 / rate requests and its distance for distance / rate; the object itself is certain. */

#include "hash.h"
#include "lru_stack.h"

#include <stdlib.h>

#define SUB_BITS 10 /* bins: exact up to 2^11, then within 0.1 % */
#define SUB_COUNT ((uint64_t)1 << SUB_BITS)
#define LOG_BINS ((64 - SUB_BITS) * SUB_COUNT + SUB_COUNT)

#define BLOCK 512 /* requests that are hashed before the sampled ones of them are looked up */
#define AHEAD 16  /* sampled requests between asking for memory and using it */

struct mrc {
    /* What is asked for. */
    int in_bytes;         /* weights are sizes instead of 1 */
    int linear;           /* bins are whole distances: exact, by objects */
    uint64_t salt;
    uint64_t limit;       /* most live objects, or 0 */

    /* Sample. */
    uint64_t largest;     /* sampled if hash <= largest */
    double stands_for;    /* requests, each sampled one: 1 / rate */
    struct lru_stack stack;
    uint64_t *heap;       /* of the live objects' hashes, the largest first; only with a limit */

    /* Result. */
    double *bins;
    uint64_t bin_count;
    double cold;          /* requests that miss at any size */
    uint64_t requests;    /* seen, sampled or not */
    uint64_t sampled;
};

/* ---------------------------------------------------------------- sampling to a limit */

static void heap_push(struct mrc *m, uint64_t hash)
{
    uint64_t i = m->stack.live - 1;
    for (; i && m->heap[(i - 1) / 2] < hash; i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = hash;
}

/* Takes out the largest of the live objects' hashes. */
static uint64_t heap_pop(struct mrc *m)
{
    uint64_t top = m->heap[0], size = m->stack.live - 1, last = m->heap[size], i = 0;
    for (;;) {
        uint64_t child = 2 * i + 1;
        if (child >= size) break;
        if (child + 1 < size && m->heap[child + 1] > m->heap[child]) child++;
        if (m->heap[child] <= last) break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = last;
    return top;
}

static void shed(struct mrc *m)
{
    uint64_t hash = heap_pop(m);
    lru_remove(&m->stack, hash);
    m->largest = hash - 1; /* another live hash is smaller, so this one is not 0 */
    m->stands_for = 0x1p64 / (double)hash;
}

/* ---------------------------------------------------------------- histogram */

static inline uint64_t log_bin(uint64_t distance)
{
    if (distance < 2 * SUB_COUNT) return distance;
    int shift = 63 - __builtin_clzll(distance) - SUB_BITS;
    return ((uint64_t)shift << SUB_BITS) + (distance >> shift);
}

/* The largest distance in a bin. */
static uint64_t log_bin_end(uint64_t bin)
{
    if (bin < 2 * SUB_COUNT) return bin;
    uint64_t shift = (bin >> SUB_BITS) - 1;
    return ((bin - (shift << SUB_BITS) + 1) << shift) - 1;
}

/* Counts so many accesses. Returns 0, or -1 without memory. */
static int count_distance(struct mrc *m, uint64_t above, uint64_t own, uint64_t accesses)
{
    uint64_t bin;
    if (m->linear) {
        bin = above + own;
        if (bin >= m->bin_count) {
            uint64_t more = 2 * bin;
            double *bins = realloc(m->bins, more * sizeof *bins);
            if (!bins) return -1;
            memset(bins + m->bin_count, 0, (more - m->bin_count) * sizeof *bins);
            m->bins = bins;
            m->bin_count = more;
        }
    } else {
        bin = log_bin((uint64_t)((double)above * m->stands_for + 0.5) + own);
    }
    m->bins[bin] += m->stands_for * (double)accesses;
    return 0;
}

/* ---------------------------------------------------------------- requests */

/* Returns 0, or -1 without memory. */
static int take_sampled(struct mrc *m, uint64_t hash, uint32_t weight)
{
    uint64_t above;
    uint32_t own;
    m->sampled++;
    switch (lru_access(&m->stack, hash, weight, &above, &own)) {
    case LRU_FOUND:
        return count_distance(m, above, own, 1);
    case LRU_NEW:
        m->cold += m->stands_for;
        if (m->limit) {
            heap_push(m, hash);
            if (m->stack.live > m->limit) shed(m);
        }
        return 0;
    default:
        return -1;
    }
}

static inline uint64_t key_u64(const char *p) { return load64(p); }

static inline uint64_t key_big_endian_u32(const char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return __builtin_bswap32(word);
}

/* Hashes a block of requests, keeps the sampled ones, and only then looks those up: the first loop
 * has no branch, and the memory that the second needs is asked for ahead. */
static inline __attribute__((always_inline)) int take(struct mrc *m, const char *keys, int64_t key_stride, const char *sizes,
                       int64_t size_stride, uint64_t count, uint64_t (*key)(const char *))
{
    uint64_t hashes[BLOCK];
    uint32_t places[BLOCK];
    m->requests += count;
    while (count) {
        uint32_t block = count < BLOCK ? (uint32_t)count : BLOCK, kept = 0;
        for (uint32_t i = 0; i < block; i++) {
            uint64_t hash = mix(key(keys + (int64_t)i * key_stride) ^ m->salt);
            hashes[kept] = hash;
            places[kept] = i;
            kept += hash <= m->largest;
        }
        for (uint32_t i = 0; i < kept && i < AHEAD; i++) lru_prefetch_slot(&m->stack, hashes[i]);
        for (uint32_t i = 0; i < kept; i++) {
            if (i + AHEAD < kept) lru_prefetch_slot(&m->stack, hashes[i + AHEAD]);
            if (i + AHEAD / 2 < kept) lru_prefetch_position(&m->stack, hashes[i + AHEAD / 2]);
            if (hashes[i] > m->largest) continue; /* it has fallen since */
            uint32_t weight = 1;
            if (m->in_bytes && sizes) {
                memcpy(&weight, sizes + (int64_t)places[i] * size_stride, sizeof weight);
                if (!weight) weight = 1;
            }
            if (take_sampled(m, hashes[i], weight)) return -1;
        }
        keys += (int64_t)block * key_stride;
        if (sizes) sizes += (int64_t)block * size_stride;
        count -= block;
    }
    return 0;
}

/* ---------------------------------------------------------------- interface */

void spreds_mrc_free(struct mrc *m)
{
    if (!m) return;
    lru_free(&m->stack);
    free(m->heap);
    free(m->bins);
    free(m);
}

/* threshold: 0 stands for 2^64, every request. Returns NULL without memory. */
struct mrc *spreds_mrc_new(int in_bytes, uint64_t threshold, uint64_t limit, uint64_t salt)
{
    struct mrc *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->in_bytes = in_bytes;
    m->linear = !in_bytes && !threshold && !limit;
    m->salt = mix(salt + 0x9E3779B97F4A7C15u);
    m->limit = limit;
    m->largest = threshold - 1;
    m->stands_for = threshold ? 0x1p64 / (double)threshold : 1.0;
    m->bin_count = m->linear ? 1024 : LOG_BINS;
    m->bins = calloc(m->bin_count, sizeof *m->bins);
    m->heap = limit ? malloc((limit + 1) * sizeof *m->heap) : NULL;
    if (lru_init(&m->stack, limit) || !m->bins || (limit && !m->heap)) {
        spreds_mrc_free(m);
        return NULL;
    }
    return m;
}

/* Takes count requests; keys (u64) and sizes (u32; NULL: all 1) lie key_stride and size_stride
 * bytes apart, at any alignment. Returns 0, or -1 without memory. */
int spreds_mrc_take(struct mrc *m, const char *keys, int64_t key_stride, const char *sizes,
                    int64_t size_stride, uint64_t count)
{
    return take(m, keys, key_stride, sizes, size_stride, count, key_u64);
}

/* Takes as many more requests for the object that was asked for last: nothing came between them.
 * Returns 0, or -1 without memory. */
int spreds_mrc_take_again(struct mrc *m, uint64_t key, uint32_t size, uint64_t count)
{
    uint64_t hash = mix(key ^ m->salt);
    m->requests += count;
    if (hash > m->largest) return 0;
    m->sampled += count;
    return count_distance(m, 0, m->in_bytes && size ? size : 1, count);
}

/* The same for cache2k's records: nothing but a key, u32 and big-endian. */
int spreds_mrc_take_cache2k(struct mrc *m, const char *records, uint64_t count)
{
    return take(m, records, sizeof(uint32_t), NULL, 0, count, key_big_endian_u32);
}

/* The same for libCacheSim's: u32 time, u64 key, u32 size, i64 of no use here. */
int spreds_mrc_take_oracle_general(struct mrc *m, const char *records, uint64_t count)
{
    return take(m, records + 4, 24, records + 12, 24, count, key_u64);
}

/* Writes the bins that are not empty, by distance: the largest distance of each, and how many
 * requests they stand for; room for `room` of them. Returns how many there are. */
uint64_t spreds_mrc_bins(const struct mrc *m, uint64_t *distances, double *counts, uint64_t room)
{
    uint64_t found = 0;
    for (uint64_t bin = 0; bin < m->bin_count; bin++) {
        if (m->bins[bin] == 0) continue;
        if (found < room) {
            distances[found] = m->linear ? bin : log_bin_end(bin);
            counts[found] = m->bins[bin];
        }
        found++;
    }
    return found;
}

/* Writes the curve: sizes, ascending, each with the miss ratio of a cache from it up to the next;
 * room for `room` of them. Returns how many there are. */
uint64_t spreds_mrc_curve(const struct mrc *m, uint64_t *sizes, double *miss_ratios, uint64_t room)
{
    uint64_t found = spreds_mrc_bins(m, sizes, miss_ratios, room);
    double misses = m->cold, requests = m->requests ? (double)m->requests : 1;
    if (found > room) return found;
    for (uint64_t i = found; i--;) {
        double hits_from_here = miss_ratios[i];
        miss_ratios[i] = misses < requests ? misses / requests : 1;
        misses += hits_from_here;
    }
    return found;
}

double spreds_mrc_cold(const struct mrc *m) { return m->cold; }
uint64_t spreds_mrc_requests(const struct mrc *m) { return m->requests; }
uint64_t spreds_mrc_sampled(const struct mrc *m) { return m->sampled; }
uint64_t spreds_mrc_live(const struct mrc *m) { return m->stack.live; }
