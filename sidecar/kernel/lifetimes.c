/* The objects with a TTL of one server, as sidecar/curves/lifetimes.py follows them, which says why
 * each step is as it is. Both do the same arithmetic in the same order. */

#include "lifetimes.h"

#include "operations.h"

#include <math.h>

#define CLOCK_GRAIN_SECONDS 0.05 /* the limits as in tests/oracles/lifetimes.py */
#define DELAY_SHARE (1.0 / 64)
#define AHEAD 8 /* accesses between asking for memory and using it */

/* ---------------------------------------------------------------- guesses */

static double guess(const struct lifetimes *l, struct timed_object *object, double age_seconds)
{
    if (!object->is_given || object->given_seconds <= age_seconds) {
        double drawn = l->draw(age_seconds);
        if (drawn == INFINITY) return drawn;
        object->given_seconds = drawn;
        object->is_given = 1;
    }
    return object->given_seconds;
}

static void outlives(struct lifetimes *l, struct timed_object *object, double age_seconds)
{
    double before = object->is_given ? object->given_seconds : INFINITY;
    if (age_seconds < before && before < INFINITY) return;
    double seconds = guess(l, object, age_seconds);
    if (before < INFINITY) {
        struct copies *copies = &object->copies;
        for (uint64_t i = 0; i < copies->count; i++)
            copies->all[i].expires_at = copies->all[i].expires_at + seconds - before;
    } else {
        object_copy(&l->objects, object, object->filled_at + seconds);
    }
}

/* ---------------------------------------------------------------- reads */

static void correct(struct lifetimes *l, uint64_t key, double distance,
                    const struct interval *hits, uint32_t count)
{
    if (count == 1 && hits[0].start == distance && hits[0].end == INFINITY) return;
    l->removed[l->removed_count++] = (struct move){distance, key};
    for (uint32_t i = 0; i < count; i++) {
        l->added[l->added_count++] = (struct move){hits[i].start, key};
        if (hits[i].end < INFINITY)
            l->removed[l->removed_count++] = (struct move){hits[i].end, key};
    }
    if (!count || hits[count - 1].end < INFINITY)
        l->added[l->added_count++] = (struct move){INFINITY, key};
}

static void take_read(struct lifetimes *l, struct timed_object *object, int operation,
                      double distance, double resident_bytes, double now)
{
    double at_least = now, kept_from = distance;
    if (operation == READ_HIT) {
        if (object->is_filled) outlives(l, object, now - object->filled_at);
        double own = copies_at_size(&object->copies, resident_bytes);
        if (own < at_least) at_least = own;
        if (resident_bytes < distance) kept_from = resident_bytes;
    } else if (resident_bytes < INFINITY && resident_bytes > distance) {
        kept_from = resident_bytes;
    }
    struct interval hits[MOST_COPIES], kept[MOST_COPIES];
    uint32_t count = copies_alive(&object->copies, distance, at_least, hits);
    correct(l, object->key, distance, hits, count);
    uint32_t kept_count = copies_alive(&object->copies, kept_from, at_least, kept);
    double expires_at = now + (object->is_given ? object->given_seconds : INFINITY);
    if (expires_at == INFINITY) expires_at = copies_last(&object->copies);
    if (operation == READ_MISS) {
        object->missed = expires_at;
        object->is_missed = 1;
    }
    copies_refill(&object->copies, kept, kept_count, expires_at);
}

/* The server has told when its copy expires. Returns 0, or -1 without memory. */
static int look(struct lifetimes *l, uint64_t key, double expires_at, double resident_bytes)
{
    struct timed_object *object = object_made(&l->objects, key);
    if (!object) return -1;
    if (object->copies.count &&
        fabs(expires_at - copies_at_size(&object->copies, resident_bytes)) <= CLOCK_GRAIN_SECONDS)
        return 0;
    object_copy(&l->objects, object, expires_at);
    object->is_filled = 0;
    return 0;
}

/* ---------------------------------------------------------------- other accesses */

/* Returns 0, or -1 without memory. */
static int take_write(struct lifetimes *l, uint64_t key, double left, double now)
{
    struct timed_object *object = object_made(&l->objects, key);
    if (!object) return -1;
    if (isnan(left)) {
        left = guess(l, object, 0.0);
        object->filled_at = now;
        object->is_filled = 1;
    } else {
        object->given_seconds = left;
        object->is_given = 1;
        object->is_filled = 0;
        if (left < l->shortest_seconds) l->shortest_seconds = left;
    }
    if (object->is_missed && object->copies.count) {
        for (uint64_t i = 0; i < object->copies.count; i++)
            if (object->copies.all[i].expires_at == object->missed)
                object->copies.all[i].expires_at = now + left;
    } else {
        object_copy(&l->objects, object, now + left);
    }
    object->is_missed = 0;
    return 0;
}

static void expire(struct lifetimes *l, struct timed_object *object, double now,
                   double resident_bytes)
{
    if (object->is_filled) {
        l->add(now - object->filled_at, 1);
        object->given_seconds = now - object->filled_at;
        object->is_given = 1;
    } else {
        double late = now - copies_at_size(&object->copies, resident_bytes);
        l->delay_seconds += DELAY_SHARE * ((late > 0 ? late : 0) - l->delay_seconds);
    }
    object_drop(&l->objects, object);
}

/* Returns 0, or -1 without memory. */
static int evict(struct lifetimes *l, struct timed_object *object, double now)
{
    if (object->is_filled) {
        l->add(now - object->filled_at, 0);
        outlives(l, object, now - object->filled_at);
    }
    double last = copies_last(&object->copies);
    if (last == INFINITY) return 0;
    return object_is_due(&l->objects, object, last, last + l->delay_seconds);
}

/* ---------------------------------------------------------------- interface */

void spreds_lifetimes_free(struct lifetimes *l)
{
    if (!l) return;
    objects_free(&l->objects);
    free(l->added);
    free(l->removed);
    free(l);
}

/* Returns NULL without memory. */
struct lifetimes *spreds_lifetimes_new(draw_function *draw, add_function *add)
{
    struct lifetimes *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    if (objects_init(&l->objects)) {
        free(l);
        return NULL;
    }
    l->shortest_seconds = INFINITY;
    l->draw = draw;
    l->add = add;
    return l;
}

static int room_for_moves(struct lifetimes *l, uint64_t count)
{
    l->added_count = l->removed_count = 0;
    if (count * (MOST_COPIES + 1) <= l->move_room) return 0;
    uint64_t room = count * (MOST_COPIES + 1);
    struct move *added = realloc(l->added, room * sizeof *added);
    if (added) l->added = added;
    struct move *removed = realloc(l->removed, room * sizeof *removed);
    if (removed) l->removed = removed;
    if (!added || !removed) return -1;
    l->move_room = room;
    return 0;
}

int spreds_lifetimes_take(struct lifetimes *l, const uint64_t *keys, const uint8_t *operations,
                          const double *left_seconds, const double *distances_bytes,
                          const double *times_seconds, uint64_t count, double resident_bytes)
{
    struct timed_objects *objects = &l->objects;
    if (room_for_moves(l, count)) return -1;
    uint64_t reads = 0;
    for (uint64_t i = 0; i < count; i++) {
        int operation = operations[i], failed = 0;
        double left = left_seconds[i], now = times_seconds[i];
        if (i + 2 * AHEAD < count) key_map_prefetch(&objects->map, keys[i + 2 * AHEAD]);
        if (i + AHEAD < count) object_prefetch(objects, keys[i + AHEAD]);
        if (operation <= READ_MISS) {
            double distance = distances_bytes[reads++];
            if (operation == READ_HIT && left < INFINITY &&
                look(l, keys[i], now + left, resident_bytes))
                return -1;
            struct timed_object *object = object_of(objects, keys[i]);
            if (!object || !object->copies.count) continue;
            if (distance == INFINITY) object_drop(objects, object);
            else take_read(l, object, operation, distance, resident_bytes, now);
            continue;
        }
        if (operation == WRITE && left != INFINITY) {
            if (take_write(l, keys[i], left, now)) return -1;
            continue;
        }
        struct timed_object *object = object_of(objects, keys[i]);
        int is_there = object && object->copies.count;
        if (operation == WRITE || operation == DELETE) object_drop(objects, object);
        else if (operation == EXPIRY && is_there) expire(l, object, now, resident_bytes);
        else if (operation == EVICTION && is_there) failed = evict(l, object, now);
        if (failed) return -1;
    }
    return 0;
}

/* Writes the sizes and objects of the corrections, `added` or the removed ones; NULL: only counts. */
uint64_t spreds_lifetimes_moves(const struct lifetimes *l, int added, double *sizes_bytes,
                                uint64_t *keys)
{
    const struct move *moves = added ? l->added : l->removed;
    uint64_t count = added ? l->added_count : l->removed_count;
    for (uint64_t i = 0; sizes_bytes && i < count; i++) {
        sizes_bytes[i] = moves[i].size_bytes;
        keys[i] = moves[i].key;
    }
    return count;
}

int spreds_lifetimes_due(struct lifetimes *l, double now_seconds, uint64_t *key)
{
    return objects_next_due(&l->objects, now_seconds, key);
}

/* Forgets all objects but those, which are sorted. */
void spreds_lifetimes_keep_only(struct lifetimes *l, const uint64_t *keys, uint64_t count)
{
    objects_keep_only(&l->objects, keys, count);
}

/* How many entries the heap has. */
uint64_t spreds_lifetimes_waiting(const struct lifetimes *l) { return l->objects.due.count; }

uint64_t spreds_lifetimes_alive(const struct lifetimes *l) { return l->objects.alive; }

/* The shortest lifetime that was told since the last call with `again`. */
double spreds_lifetimes_shortest(struct lifetimes *l, int again)
{
    double shortest = l->shortest_seconds;
    if (again) l->shortest_seconds = INFINITY;
    return shortest;
}
