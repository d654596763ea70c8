/* Small caches of several sizes that evict as Redis' LFU does, and see one stream of accesses.
 *
 * The same as tests/oracles/miniature_caches.py, but for the random numbers. */

#include "sampled_eviction.h"

#define FIRST_ROOM 1024
#define GROUPS 16 /* of objects, as in sidecar/curves/object_groups.py */

enum { READ_HIT = 1, READ_MISS, WRITE, DELETE, EXPIRY, EVICTION };

/* ---------------------------------------------------------------- objects */

static int resize(void *array, uint64_t count, uint64_t size) {
    void *grown = realloc(*(void **)array, count * size);
    if (!grown) return -1;
    *(void **)array = grown;
    return 0;
}

/* Make room for `room` objects. Returns -1 without memory; what there is stays as it is. */
static int make_room(struct miniature_caches *m, uint32_t room) {
    if (resize(&m->objects, room, sizeof *m->objects)) return -1;
    if (resize(&m->free_objects, room, sizeof *m->free_objects)) return -1;
    for (int c = 0; c < m->cache_count; c++) {
        struct small_cache *cache = &m->caches[c];
        if (resize(&cache->places, room, sizeof *cache->places)) return -1;
        if (resize(&cache->weights, room, sizeof *cache->weights)) return -1;
        if (resize(&cache->counts, room, sizeof *cache->counts)) return -1;
        if (resize(&cache->touched, room, sizeof *cache->touched)) return -1;
        if (resize(&cache->residents, room, sizeof *cache->residents)) return -1;
    }
    m->room = room;
    return 0;
}

/* The object with this key, new if there was none; NOBODY without memory. */
static uint32_t object_of(struct miniature_caches *m, uint64_t key)
{
    struct key_place *place = key_map_find(&m->numbers, key);
    if (place->number != KEY_NOWHERE) return (uint32_t)place->number - 1;
    if (m->numbers.count == m->room && (m->room > UINT32_MAX / 4 || make_room(m, 2 * m->room)))
        return NOBODY;
    uint32_t object = m->free_count ? m->free_objects[m->free_count - 1] : m->used;
    if (!key_map_put(&m->numbers, place, key, (uint64_t)object + 1)) return NOBODY;
    if (m->free_count) m->free_count--;
    else m->used++;
    m->objects[object] = (struct object){.key = key, .is_live = 1};
    for (int c = 0; c < m->cache_count; c++) m->caches[c].places[object] = NOBODY;
    return object;
}

static void forget(struct miniature_caches *m, uint64_t key)
{
    struct key_place *place = key_map_find(&m->numbers, key);
    if (place->number == KEY_NOWHERE) return;
    uint32_t object = (uint32_t)place->number - 1;
    for (int c = 0; c < m->cache_count; c++) leave(&m->caches[c], object);
    key_map_take_out(&m->numbers, place);
    m->objects[object].is_live = 0;
    m->free_objects[m->free_count++] = object;
}

/* ---------------------------------------------------------------- what Python calls */

void spreds_caches_free(struct miniature_caches *m) {
    if (!m) return;
    for (int c = 0; m->caches && c < m->cache_count; c++) {
        struct small_cache *cache = &m->caches[c];
        free(cache->places);
        free(cache->weights);
        free(cache->counts);
        free(cache->touched);
        free(cache->residents);
    }
    free(m->caches);
    free(m->objects);
    free(m->free_objects);
    key_map_free(&m->numbers);
    free(m);
}

/* `samples`, `log_factor` and `decay_minutes` are maxmemory-samples and the settings of LFU. Returns
 * NULL without memory. */
struct miniature_caches *spreds_caches_new(int cache_count, int samples, int log_factor,
                                           int decay_minutes) {
    struct miniature_caches *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->cache_count = cache_count;
    m->samples = samples > 0 ? samples : 1;
    m->log_factor = log_factor;
    m->decay_minutes = decay_minutes;
    m->random = 0x9E3779B97F4A7C15u;
    m->caches = calloc((size_t)cache_count, sizeof *m->caches);
    if (!m->caches || key_map_init(&m->numbers) || make_room(m, FIRST_ROOM)) {
        spreds_caches_free(m);
        return NULL;
    }
    return m;
}

/* Of each cache; where it became less, objects leave with the next accesses. */
void spreds_caches_set_capacities(struct miniature_caches *m, const double *capacities) {
    for (int c = 0; c < m->cache_count; c++) m->caches[c].capacity = capacities[c];
}

/* Take `count` accesses in order; `weights` are 0 where unknown. Misses are added to `misses`, of
 * GROUPS rows with one number for each cache. Returns -1 without memory. */
int spreds_caches_access(struct miniature_caches *m, const uint64_t *keys,
                         const uint8_t *operations, const int64_t *weights, uint64_t count,
                         int64_t default_weight, uint32_t minute, int64_t *misses) {
    /* A cache that hits whatever it is asked for would hold for good what became too much. */
    for (int c = 0; c < m->cache_count; c++) fit(m, &m->caches[c], minute);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t operation = operations[i];
        if (operation > WRITE) {
            if (operation < EVICTION) forget(m, keys[i]);
            continue;
        }
        uint32_t number = object_of(m, keys[i]);
        if (number == NOBODY) return -1;
        struct object *object = &m->objects[number];
        int64_t weight = weights[i];
        if (!weight) weight = object->weight ? object->weight : default_weight;
        if (operation == WRITE) {
            object->weight = weight;
            /* The write after a miss is no access of its own where there was a hit. */
            int is_fill = object->is_missed;
            object->is_missed = 0;
            for (int c = 0; c < m->cache_count; c++) {
                struct small_cache *cache = &m->caches[c];
                int is_there =
                    is_fill ? cache->places[number] != NOBODY : touch(m, cache, number, minute);
                if (!is_there) put(m, cache, number, weight, minute);
            }
            continue;
        }
        if (operation == READ_HIT) object->weight = weight;
        else object->is_missed = 1;
        int64_t *row = misses + (keys[i] >> 32) % GROUPS * (uint64_t)m->cache_count;
        for (int c = 0; c < m->cache_count; c++) {
            if (touch(m, &m->caches[c], number, minute)) continue;
            row[c]++;
            if (operation == READ_HIT) put(m, &m->caches[c], number, weight, minute);
        }
    }
    return 0;
}

/* Remove objects from every cache; those that are not here are passed over. */
void spreds_caches_remove(struct miniature_caches *m, const uint64_t *keys, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) forget(m, keys[i]);
}

/* How many objects there are. */
uint64_t spreds_caches_live(const struct miniature_caches *m) {
    return m->numbers.count;
}

/* Their keys, in no order. */
void spreds_caches_list(const struct miniature_caches *m, uint64_t *keys) {
    for (uint32_t i = 0; i < m->used; i++)
        if (m->objects[i].is_live) *keys++ = m->objects[i].key;
}

/* Make each object, in every cache, `more` heavier (lighter, if negative), but 1 at least; where that
 * is too much for a cache, objects leave with the next accesses. */
void spreds_caches_add_weight(struct miniature_caches *m, int64_t more) {
    for (uint32_t i = 0; i < m->used; i++) {
        int64_t *weight = &m->objects[i].weight;
        if (*weight) *weight = *weight + more > 1 ? *weight + more : 1;
    }
    for (int c = 0; c < m->cache_count; c++) {
        struct small_cache *cache = &m->caches[c];
        cache->used = 0;
        for (uint32_t i = 0; i < cache->count; i++) {
            int64_t *weight = &cache->weights[cache->residents[i]];
            *weight = *weight + more > 1 ? *weight + more : 1;
            cache->used += *weight;
        }
    }
}

/* The weight of what a cache holds. */
int64_t spreds_caches_weight(const struct miniature_caches *m, int cache) {
    return m->caches[cache].used;
}
