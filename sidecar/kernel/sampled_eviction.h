/* The rule by which Redis' LFU (src/evict.c) evicts from one of several small caches. */

#ifndef SPREDS_SAMPLED_EVICTION_H
#define SPREDS_SAMPLED_EVICTION_H

#include "key_map.h"

#define POOL_SIZE 16
#define FIRST_COUNT 5
#define MOST_COUNT 255
#define NOBODY UINT32_MAX

struct candidate {
    uint64_t key;
    uint32_t object;
    int idle;
};

struct small_cache {
    double capacity;
    int64_t used;

    /* By object. */
    uint32_t *places; /* in `residents`, or NOBODY */
    int64_t *weights; /* that it was put in with */
    uint8_t *counts;
    uint32_t *touched; /* minutes */

    uint32_t *residents;
    uint32_t count;
    struct candidate pool[POOL_SIZE]; /* the best to evict last */
    int pool_count;
};

struct object {
    uint64_t key;
    int64_t weight; /* 0: unknown */
    uint8_t is_missed;
    uint8_t is_live;
};

struct miniature_caches {
    struct small_cache *caches;
    int cache_count;
    int samples;
    int log_factor;
    int decay_minutes;
    uint64_t random;

    struct object *objects;
    uint32_t room;
    uint32_t used; /* objects that were ever live are below */
    uint32_t *free_objects;
    uint32_t free_count;
    struct key_map numbers; /* of the live ones, + 1 */
};

static inline void leave(struct small_cache *cache, uint32_t object) {
    uint32_t place = cache->places[object];
    if (place == NOBODY) return;
    uint32_t last = cache->residents[--cache->count];
    cache->residents[place] = last;
    cache->places[last] = place;
    cache->places[object] = NOBODY;
    cache->used -= cache->weights[object];
}

/* xorshift64*: a number below `below`. */
static inline uint32_t draw(struct miniature_caches *m, uint32_t below) {
    m->random ^= m->random >> 12;
    m->random ^= m->random << 25;
    m->random ^= m->random >> 27;
    uint64_t word = m->random * 0x2545F4914F6CDD1Du;
    return (uint32_t)(((word >> 32) * below) >> 32);
}

static inline int decayed(const struct miniature_caches *m, const struct small_cache *cache,
                   uint32_t object, uint32_t minute) {
    if (!m->decay_minutes) return cache->counts[object];
    uint32_t periods = (minute - cache->touched[object]) / (uint32_t)m->decay_minutes;
    int count = cache->counts[object];
    return periods >= (uint32_t)count ? 0 : count - (int)periods;
}

/* An access to the object; 0 if it is not here. */
static inline int touch(struct miniature_caches *m, struct small_cache *cache, uint32_t object,
                 uint32_t minute) {
    if (cache->places[object] == NOBODY) return 0;
    int count = decayed(m, cache, object, minute);
    int beyond = count - FIRST_COUNT;
    if (count < MOST_COUNT && (beyond <= 0 || !draw(m, (uint32_t)(beyond * m->log_factor + 1))))
        count++;
    cache->counts[object] = (uint8_t)count;
    cache->touched[object] = minute;
    return 1;
}

/* evictionPoolPopulate(): before its equals, of which Redis evicts the one it has known longest. */
static inline void offer(struct miniature_caches *m, struct small_cache *cache, uint32_t object,
                  uint32_t minute) {
    int idle = MOST_COUNT - decayed(m, cache, object, minute);
    int is_full = cache->pool_count == POOL_SIZE;
    if (is_full && idle <= cache->pool[0].idle) return;
    uint64_t key = m->objects[object].key;
    int place = 0;
    for (int i = 0; i < cache->pool_count; i++) {
        if (cache->pool[i].key == key) return;
        if (cache->pool[i].idle < idle) place = i + 1;
    }
    if (is_full) {
        place--;
        memmove(cache->pool, cache->pool + 1, (size_t)place * sizeof *cache->pool);
    } else {
        memmove(cache->pool + place + 1, cache->pool + place,
                (size_t)(cache->pool_count - place) * sizeof *cache->pool);
        cache->pool_count++;
    }
    cache->pool[place] = (struct candidate){.key = key, .object = object, .idle = idle};
}

static inline void evict(struct miniature_caches *m, struct small_cache *cache, uint32_t minute) {
    for (;;) {
        uint32_t looks = cache->count < (uint32_t)m->samples ? cache->count : (uint32_t)m->samples;
        for (uint32_t i = 0; i < looks; i++)
            offer(m, cache, cache->residents[draw(m, cache->count)], minute);
        while (cache->pool_count) {
            struct candidate *best = &cache->pool[--cache->pool_count];
            const struct object *object = &m->objects[best->object];
            if (object->is_live && object->key == best->key &&
                cache->places[best->object] != NOBODY) {
                leave(cache, best->object);
                return;
            }
        }
    }
}

static inline void fit(struct miniature_caches *m, struct small_cache *cache, uint32_t minute) {
    while ((double)cache->used > cache->capacity && cache->count) evict(m, cache, minute);
}

static inline void put(struct miniature_caches *m, struct small_cache *cache, uint32_t object,
                int64_t weight, uint32_t minute) {
    if ((double)weight > cache->capacity) {
        /* Nothing is evicted for what does not fit: each eviction was paid for by a put. */
        leave(cache, object);
        return;
    }
    if (cache->places[object] == NOBODY) {
        cache->places[object] = cache->count;
        cache->residents[cache->count++] = object;
        cache->counts[object] = FIRST_COUNT;
        cache->touched[object] = minute;
    } else {
        cache->used -= cache->weights[object];
    }
    cache->weights[object] = weight;
    cache->used += weight;
    fit(m, cache, minute);
}

#endif
