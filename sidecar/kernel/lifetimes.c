/* The objects with a TTL of one server, as sidecar/curves/lifetimes.py follows them, which says why
 * each step is as it is. Both do the same arithmetic in the same order. */

#include "key_map.h"

#include <math.h>

#define MOST_COPIES 8 /* and the other limits as in lifetimes.py */
#define CLOCK_GRAIN_SECONDS 0.05
#define TTL_GRAIN_SECONDS 0.001
#define DELAY_SHARE (1.0 / 64)
#define SPARE_ENTRIES 256

enum { READ_HIT = 1, READ_MISS, WRITE, DELETE, EXPIRY, EVICTION };

struct copy {
    double from_bytes;
    double expires_at;
};

struct object {
    uint64_t key;
    uint32_t copy_count; /* 0: there is none of which anything is known */
    uint8_t is_given, is_filled, is_missed;
    uint8_t is_due; /* its newest entry stands in the heap; see DROPPING */
    double given_seconds;
    double filled_at;
    double missed; /* when copies of it expire that have just been made */
    double due_at, due_expires_at; /* of that entry, the only one that counts */
    struct copy copies[MOST_COPIES];
};

struct due {
    double at;
    uint64_t key;
    double expires_at;
};

struct interval {
    double start;
    double end;
};

/* A read that is to be counted at another size. */
struct move {
    double size_bytes;
    uint64_t key;
};

/* Of lifetimes that are not told, Python knows: draw(age) gives one, or INFINITY. */
typedef double draw_function(double age_seconds);
typedef void add_function(double seconds, int expired);

struct lifetimes {
    struct key_map map; /* to the place after that of each object */
    struct object *objects;
    uint64_t count, room;
    uint64_t alive; /* objects that have a copy */

    struct due *due; /* a heap, the first to expire on top */
    uint64_t due_count, due_room;

    struct move *added, *removed;
    uint64_t added_count, removed_count, move_room;

    double delay_seconds;
    double shortest_seconds;
    draw_function *draw;
    add_function *add;
};

/* ---------------------------------------------------------------- objects */

static struct object *object_of(const struct lifetimes *l, uint64_t key)
{
    uint64_t number = key_map_find(&l->map, key)->number;
    return number ? &l->objects[number - 1] : NULL;
}

/* Returns NULL without memory. */
static struct object *object_made(struct lifetimes *l, uint64_t key)
{
    struct key_place *place = key_map_find(&l->map, key);
    if (place->number) return &l->objects[place->number - 1];
    if (l->count == l->room) {
        uint64_t room = l->room ? 2 * l->room : 256;
        struct object *objects = realloc(l->objects, room * sizeof *objects);
        if (!objects) return NULL;
        l->objects = objects;
        l->room = room;
    }
    if (!key_map_put(&l->map, place, key, l->count + 1)) return NULL;
    l->objects[l->count] = (struct object){.key = key};
    return &l->objects[l->count++];
}

static void set_one_copy(struct lifetimes *l, struct object *object, double expires_at)
{
    if (!object->copy_count) l->alive++;
    object->copy_count = 1;
    object->copies[0] = (struct copy){0.0, expires_at};
}

static void drop(struct lifetimes *l, struct object *object)
{
    if (!object) return;
    if (object->copy_count) l->alive--;
    object->copy_count = 0;
    object->is_missed = object->is_filled = 0;
}

static double at_size(const struct object *object, double size_bytes)
{
    double expires_at = object->copies[0].expires_at;
    for (uint32_t i = 0; i < object->copy_count; i++) {
        if (object->copies[i].from_bytes > size_bytes) break;
        expires_at = object->copies[i].expires_at;
    }
    return expires_at;
}

static double last_of(const struct object *object)
{
    double last = object->copies[0].expires_at;
    for (uint32_t i = 1; i < object->copy_count; i++)
        if (object->copies[i].expires_at > last) last = object->copies[i].expires_at;
    return last;
}

static double end_of(const struct object *object, uint32_t copy)
{
    return copy + 1 < object->copy_count ? object->copies[copy + 1].from_bytes : INFINITY;
}

/* ---------------------------------------------------------------- guesses */

static double guess(const struct lifetimes *l, struct object *object, double age_seconds)
{
    if (!object->is_given || object->given_seconds <= age_seconds) {
        double drawn = l->draw(age_seconds);
        if (drawn == INFINITY) return drawn;
        object->given_seconds = drawn;
        object->is_given = 1;
    }
    return object->given_seconds;
}

static void outlives(struct lifetimes *l, struct object *object, double age_seconds)
{
    double before = object->is_given ? object->given_seconds : INFINITY;
    if (age_seconds < before && before < INFINITY) return;
    double seconds = guess(l, object, age_seconds);
    if (before < INFINITY) {
        for (uint32_t i = 0; i < object->copy_count; i++)
            object->copies[i].expires_at = object->copies[i].expires_at + seconds - before;
    } else {
        set_one_copy(l, object, object->filled_at + seconds);
    }
}

/* ---------------------------------------------------------------- heap */

static int before(const struct due *a, const struct due *b)
{
    if (a->at != b->at) return a->at < b->at;
    return a->key != b->key ? a->key < b->key : a->expires_at < b->expires_at;
}

static void sift_up(struct due *heap, uint64_t i)
{
    struct due one = heap[i];
    for (; i && before(&one, &heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = one;
}

/* Returns 0, or -1 without memory. */
static int push(struct lifetimes *l, struct due due)
{
    if (l->due_count == l->due_room) {
        uint64_t room = l->due_room ? 2 * l->due_room : 256;
        struct due *heap = realloc(l->due, room * sizeof *heap);
        if (!heap) return -1;
        l->due = heap;
        l->due_room = room;
    }
    l->due[l->due_count] = due;
    sift_up(l->due, l->due_count++);
    return 0;
}

static struct due pop(struct lifetimes *l)
{
    struct due top = l->due[0], last = l->due[--l->due_count];
    uint64_t i = 0;
    for (;;) {
        uint64_t child = 2 * i + 1;
        if (child >= l->due_count) break;
        if (child + 1 < l->due_count && before(&l->due[child + 1], &l->due[child])) child++;
        if (!before(&l->due[child], &last)) break;
        l->due[i] = l->due[child];
        i = child;
    }
    l->due[i] = last;
    return top;
}

static int is_newest(const struct object *object, const struct due *due)
{
    return object->is_due && object->due_at == due->at &&
           object->due_expires_at == due->expires_at;
}

static int is_last(const struct object *object, double expires_at)
{
    return object->copy_count && last_of(object) == expires_at;
}

/* `is_due` of an object whose entry has been found to stay, while others are dropped: it may stand in
 * the heap twice. */
enum { DROPPING = 2 };

/* Forgets all entries that do not count. */
static void drop_stale(struct lifetimes *l)
{
    uint64_t left = l->due_count;
    l->due_count = 0;
    for (uint64_t i = 0; i < left; i++) {
        struct due one = l->due[i];
        struct object *object = object_of(l, one.key);
        if (!object || object->is_due == DROPPING || !is_newest(object, &one)) continue;
        if (!is_last(object, one.expires_at)) {
            object->is_due = 0;
            continue;
        }
        object->is_due = DROPPING;
        l->due[l->due_count] = one;
        sift_up(l->due, l->due_count++);
    }
    for (uint64_t i = 0; i < l->due_count; i++) object_of(l, l->due[i].key)->is_due = 1;
}

/* Returns 0, or -1 without memory. */
static int add_due(struct lifetimes *l, struct object *object, double expires_at)
{
    if (!object->is_due || object->due_expires_at != expires_at) {
        object->is_due = 1;
        object->due_at = expires_at + l->delay_seconds;
        object->due_expires_at = expires_at;
        if (push(l, (struct due){object->due_at, object->key, expires_at})) return -1;
    }
    if (l->due_count > 2 * l->alive + SPARE_ENTRIES) drop_stale(l);
    return 0;
}

/* ---------------------------------------------------------------- reads */

/* Intervals of sizes, from `distance` upward, in which a copy lives until `at_least`; how many. */
static uint32_t hits_of(const struct object *object, double distance, double at_least,
                        struct interval hits[MOST_COPIES])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < object->copy_count; i++) {
        double start = object->copies[i].from_bytes, end = end_of(object, i);
        if (end <= distance || object->copies[i].expires_at < at_least - TTL_GRAIN_SECONDS)
            continue;
        if (start < distance) start = distance;
        if (count && hits[count - 1].end == start) hits[count - 1].end = end;
        else hits[count++] = (struct interval){start, end};
    }
    return count;
}

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

/* At the end of `copies`, unless its neighbour there expires at the same time. */
static void put(struct copy *copies, uint32_t *made, double from_bytes, double expires_at)
{
    if (copies[*made - 1].expires_at == expires_at) return;
    copies[(*made)++] = (struct copy){from_bytes, expires_at};
}

/* There is a new copy in caches of all sizes but `hits`. Of very many, those of small caches are given
 * up. */
static void refill(struct object *object, const struct interval *hits, uint32_t count,
                   double expires_at)
{
    struct copy copies[2 * MOST_COPIES + 1] = {{0.0, expires_at}};
    uint32_t made = 1, left_out;
    for (uint32_t hit = 0; hit < count; hit++) {
        for (uint32_t i = 0; i < object->copy_count; i++) {
            double low = object->copies[i].from_bytes, high = end_of(object, i);
            if (low < hits[hit].start) low = hits[hit].start;
            if (high > hits[hit].end) high = hits[hit].end;
            if (low < high) put(copies, &made, low, object->copies[i].expires_at);
        }
        if (hits[hit].end < INFINITY) put(copies, &made, hits[hit].end, expires_at);
    }
    left_out = made > MOST_COPIES ? made - MOST_COPIES : 0;
    object->copies[0] = copies[0];
    memcpy(object->copies + 1, copies + 1 + left_out, (made - 1 - left_out) * sizeof *copies);
    object->copy_count = made - left_out;
}

static void take_read(struct lifetimes *l, struct object *object, int operation, double distance,
                      double resident_bytes, double now)
{
    double at_least = now, kept_from = distance;
    if (operation == READ_HIT) {
        if (object->is_filled) outlives(l, object, now - object->filled_at);
        double own = at_size(object, resident_bytes);
        if (own < at_least) at_least = own;
        if (resident_bytes < distance) kept_from = resident_bytes;
    } else if (resident_bytes < INFINITY && resident_bytes > distance) {
        kept_from = resident_bytes;
    }
    struct interval hits[MOST_COPIES], kept[MOST_COPIES];
    uint32_t count = hits_of(object, distance, at_least, hits);
    correct(l, object->key, distance, hits, count);
    uint32_t kept_count = hits_of(object, kept_from, at_least, kept);
    double expires_at = now + (object->is_given ? object->given_seconds : INFINITY);
    if (expires_at == INFINITY) expires_at = last_of(object);
    if (operation == READ_MISS) {
        object->missed = expires_at;
        object->is_missed = 1;
    }
    refill(object, kept, kept_count, expires_at);
}

/* ---------------------------------------------------------------- other accesses */

/* Returns 0, or -1 without memory. */
static int look(struct lifetimes *l, uint64_t key, double expires_at, double resident_bytes)
{
    struct object *object = object_made(l, key);
    if (!object) return -1;
    if (object->copy_count &&
        fabs(expires_at - at_size(object, resident_bytes)) <= CLOCK_GRAIN_SECONDS)
        return 0;
    set_one_copy(l, object, expires_at);
    object->is_filled = 0;
    return 0;
}

static int take_write(struct lifetimes *l, uint64_t key, double left, double now)
{
    struct object *object = object_made(l, key);
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
    if (object->is_missed && object->copy_count) {
        for (uint32_t i = 0; i < object->copy_count; i++)
            if (object->copies[i].expires_at == object->missed)
                object->copies[i].expires_at = now + left;
    } else {
        set_one_copy(l, object, now + left);
    }
    object->is_missed = 0;
    return 0;
}

static void expire(struct lifetimes *l, struct object *object, double now, double resident_bytes)
{
    if (object->is_filled) {
        l->add(now - object->filled_at, 1);
        object->given_seconds = now - object->filled_at;
        object->is_given = 1;
    } else {
        double late = now - at_size(object, resident_bytes);
        l->delay_seconds += DELAY_SHARE * ((late > 0 ? late : 0) - l->delay_seconds);
    }
    drop(l, object);
}

static int evict(struct lifetimes *l, struct object *object, double now)
{
    if (object->is_filled) {
        l->add(now - object->filled_at, 0);
        outlives(l, object, now - object->filled_at);
    }
    double last = last_of(object);
    if (last == INFINITY) return 0;
    return add_due(l, object, last);
}

/* ---------------------------------------------------------------- interface */

void spreds_lifetimes_free(struct lifetimes *l)
{
    if (!l) return;
    key_map_free(&l->map);
    free(l->objects);
    free(l->due);
    free(l->added);
    free(l->removed);
    free(l);
}

/* Returns NULL without memory. */
struct lifetimes *spreds_lifetimes_new(draw_function *draw, add_function *add)
{
    struct lifetimes *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    if (key_map_init(&l->map)) {
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

/* Takes accesses in order; distances are those of the reads, one after the other. What they correct
 * stands until the next call. Returns 0, or -1 without memory. */
int spreds_lifetimes_take(struct lifetimes *l, const uint64_t *keys, const uint8_t *operations,
                          const double *left_seconds, const double *distances_bytes,
                          const double *times_seconds, uint64_t count, double resident_bytes)
{
    if (room_for_moves(l, count)) return -1;
    uint64_t reads = 0;
    for (uint64_t i = 0; i < count; i++) {
        int operation = operations[i], failed = 0;
        double left = left_seconds[i], now = times_seconds[i];
        if (operation <= READ_MISS) {
            double distance = distances_bytes[reads++];
            if (operation == READ_HIT && left < INFINITY &&
                look(l, keys[i], now + left, resident_bytes))
                return -1;
            struct object *object = object_of(l, keys[i]);
            if (!object || !object->copy_count) continue;
            if (distance == INFINITY) drop(l, object);
            else take_read(l, object, operation, distance, resident_bytes, now);
            continue;
        }
        if (operation == WRITE && left != INFINITY) {
            if (take_write(l, keys[i], left, now)) return -1;
            continue;
        }
        struct object *object = object_of(l, keys[i]);
        int is_there = object && object->copy_count;
        if (operation == WRITE || operation == DELETE) drop(l, object);
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

/* The next object that has expired in caches of every size until now; 0 when there is none. */
int spreds_lifetimes_due(struct lifetimes *l, double now_seconds, uint64_t *key)
{
    while (l->due_count && l->due[0].at <= now_seconds) {
        struct due due = pop(l);
        struct object *object = object_of(l, due.key);
        if (!object || !is_newest(object, &due)) continue;
        object->is_due = 0;
        if (!is_last(object, due.expires_at)) continue;
        drop(l, object);
        *key = due.key;
        return 1;
    }
    return 0;
}

/* Forgets all objects but those, which are sorted. */
void spreds_lifetimes_keep_only(struct lifetimes *l, const uint64_t *keys, uint64_t count)
{
    uint64_t kept = 0;
    key_map_clear(&l->map);
    l->alive = 0;
    for (uint64_t i = 0; i < l->count; i++) {
        uint64_t low = 0, high = count;
        while (low < high) {
            uint64_t middle = (low + high) / 2;
            if (keys[middle] < l->objects[i].key) low = middle + 1;
            else high = middle;
        }
        if (low == count || keys[low] != l->objects[i].key) continue;
        l->objects[kept++] = l->objects[i];
        l->alive += l->objects[kept - 1].copy_count != 0;
        uint64_t key = l->objects[kept - 1].key;
        key_map_put(&l->map, key_map_find(&l->map, key), key, kept); /* fewer than before */
    }
    l->count = kept;
    drop_stale(l);
}

/* How many entries the heap has. */
uint64_t spreds_lifetimes_waiting(const struct lifetimes *l) { return l->due_count; }

uint64_t spreds_lifetimes_alive(const struct lifetimes *l) { return l->alive; }

/* The shortest lifetime that was told since the last call with `again`. */
double spreds_lifetimes_shortest(struct lifetimes *l, int again)
{
    double shortest = l->shortest_seconds;
    if (again) l->shortest_seconds = INFINITY;
    return shortest;
}
