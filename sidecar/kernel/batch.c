/* One batch of a server's samples through all that a monitor counts by, in one call: its records as
 * columns, the recency stack, TTLs, histogram and fills. The same, part by part, is
 * sidecar/curves/batch_by_parts.py.
 *
 * Only where each key stands for itself: records of whole databases, pinned keys and simulated caches
 * are for Python. */

#include "fills.h"
#include "histogram.h"
#include "lifetimes.h"
#include "operations.h"
#include "records.h"
#include "server_stack.h"

#include <math.h>

/* What a cache loses of reads at stack distances: values at `first`, `first` + 1 and so on, in steps of
 * which `per_octave` double the distance; between them, linear. Without values: all that lies deeper
 * than the size. */
struct loss {
    double size_bytes;
    double per_octave;
    double first;
    const double *values;
    uint64_t count;
};

/* The same fields, in this order, as in structures.py. */
struct batch {
    struct stack_slots *stack;
    struct lifetimes *lifetimes;
    struct fills *fills;

    const char *records;
    uint64_t stride;
    uint64_t count;
    const double *firsts_us; /* when the first record of each part was made, ... */
    const uint64_t *ends;    /* ... and the number of records up to the end of it */
    double begin_seconds;
    double end_us;

    uint64_t modulus;
    uint64_t threshold; /* less than the sampler's: what is not below is left out */
    double rate;
    int64_t overhead_bytes;
    int64_t is_libc;
    int64_t default_bytes;
    double keys_bytes;     /* what the server can hold: hits of objects not seen yet lie within */
    double resident_bytes; /* INFINITY: it evicts nothing */

    struct histogram histogram;
    struct loss loss;
    double longest_us;
    uint64_t most_pending;

    /* What is told. */
    uint64_t reads;
    uint64_t unseen_hits;
    double missed;
};

/* Scratch that grows. */
struct batch_room {
    struct columns columns;
    int64_t *above, *own;
    double *distances;
    uint64_t *read_ids;
    uint64_t room;
};

enum { NO_MEMORY = -1, TAKEN, FOR_PYTHON };

void spreds_batch_free(struct batch_room *room)
{
    if (!room) return;
    struct columns *c = &room->columns;
    void *all[] = {c->ids,      c->operations, c->weights,      c->left_seconds,  c->times_us,
                   room->above, room->own,     room->distances, room->read_ids, room};
    for (uint64_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* Returns NULL without memory. */
struct batch_room *spreds_batch_new(void) { return calloc(1, sizeof(struct batch_room)); }

#define GROW(column, count) \
    do { \
        void *larger = realloc(column, (count) * sizeof *(column)); \
        if (!larger) return NO_MEMORY; \
        (column) = larger; \
    } while (0)

static int make_room(struct batch_room *room, uint64_t count)
{
    if (count <= room->room) return 0;
    GROW(room->columns.ids, count);
    GROW(room->columns.operations, count);
    GROW(room->columns.weights, count);
    GROW(room->columns.left_seconds, count);
    GROW(room->columns.times_us, count);
    GROW(room->above, count);
    GROW(room->own, count);
    GROW(room->distances, count);
    GROW(room->read_ids, count);
    room->room = count;
    return 0;
}

/* ---------------------------------------------------------------- columns */

/* As sidecar/curves/shards.py. */
static int64_t allocated(uint32_t size_bytes, int64_t is_libc)
{
    int64_t size = size_bytes, step = 16;
    if (is_libc) return size <= 24 ? 24 : (size + 7) / 16 * 16 + 8;
    if (size > 128) step = (int64_t)1 << (63 - __builtin_clzll((uint64_t)size - 1) - 2);
    return (size + step - 1) / step * step;
}

static int64_t weight_of(const struct record *record, const struct batch *b)
{
    if (!(record->flags & FLAG_SIZE_KNOWN)) return 0;
    int64_t weight = record->flags & FLAG_SIZE_ALLOCATED ? record->size_bytes
                                                         : allocated(record->size_bytes, b->is_libc);
    weight += b->overhead_bytes;
    return weight > 1 ? weight : 1;
}

/* Returns TAKEN, or FOR_PYTHON. */
static int read_records(const struct batch *b, struct columns *c)
{
    uint64_t part = 0;
    c->count = b->count;
    c->have_ttl = 0;
    for (uint64_t i = 0; i < b->count; i++) {
        struct record record;
        memcpy(&record, b->records + i * b->stride, sizeof record);
        if (record.operation >= FLUSH) return FOR_PYTHON;
        while (i >= b->ends[part]) part++;
        c->ids[i] = (record.hash & (((uint64_t)1 << HASH_BITS) - 1)) |
                    (uint64_t)record.db << HASH_BITS;
        c->operations[i] = record.operation;
        c->weights[i] = weight_of(&record, b);
        c->times_us[i] = b->firsts_us[part] + record.time_us;
        c->left_seconds[i] = !(record.flags & FLAG_TTL)       ? INFINITY
                             : record.flags & FLAG_TTL_KNOWN ? record.ttl_ms / 1000.0
                                                             : NAN;
    }
    return TAKEN;
}

/* Leaves out what is not sampled here; seconds take the place of microseconds. */
static void take_sampled(const struct batch *b, struct columns *c)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < c->count; i++) {
        if ((c->ids[i] & (b->modulus - 1)) >= b->threshold) continue;
        c->ids[kept] = c->ids[i];
        c->operations[kept] = c->operations[i];
        c->weights[kept] = c->weights[i];
        c->have_ttl |= c->left_seconds[i] != INFINITY;
        c->left_seconds[kept] = c->left_seconds[i];
        c->times_us[kept++] = c->times_us[i] / 1e6;
    }
    c->count = kept;
}

/* ---------------------------------------------------------------- reads */

/* Distances of the reads in bytes of all objects, by what lies above in the sample. */
static void tell_distances(struct batch *b, struct batch_room *room)
{
    struct columns *c = &room->columns;
    double rate = b->rate > 0 ? b->rate : 1.0, guess = 0;
    b->unseen_hits = 0;
    for (uint64_t i = 0, read = 0; i < c->count; i++) {
        if (c->operations[i] > READ_MISS) continue;
        double distance = (double)room->above[read] / rate + (double)room->own[read];
        if (room->above[read] == COLD) distance = INFINITY;
        if (room->above[read] == UNSEEN_HIT) {
            if (!b->unseen_hits++) {
                double least = (double)spreds_stack_total_weight(b->stack) / rate;
                guess = (least + (b->keys_bytes > least ? b->keys_bytes : least)) / 2;
            }
            distance = guess;
        }
        room->distances[read] = distance;
        room->read_ids[read++] = c->ids[i];
    }
}

static double lost(const struct loss *l, double distance)
{
    if (!l->values) return distance > l->size_bytes;
    if (l->size_bytes <= 0) return 1.0;
    double place = log2(distance / l->size_bytes) * l->per_octave - l->first;
    if (!(place > 0)) return l->values[0];
    if (place >= (double)(l->count - 1)) return l->values[l->count - 1];
    uint64_t low = (uint64_t)place;
    return l->values[low] + (l->values[low + 1] - l->values[low]) * (place - (double)low);
}

static void count(struct batch *b, double distance, uint64_t id, int sign)
{
    histogram_count(&b->histogram, distance, id, sign / b->rate);
    b->missed += sign * lost(&b->loss, distance);
}

/* ---------------------------------------------------------------- interface */

/* Takes what has expired until the batch begins out of the stack. Returns 0, or -1 without memory. */
static int expire(struct batch *b)
{
    uint64_t key;
    while (spreds_lifetimes_due(b->lifetimes, b->begin_seconds, &key))
        if (spreds_stack_remove(b->stack, &key, 1, 0)) return NO_MEMORY;
    return 0;
}

/* Returns TAKEN; FOR_PYTHON, and nothing has been done; or NO_MEMORY. */
int spreds_batch_take(struct batch_room *room, struct batch *b)
{
    struct columns *c = &room->columns;
    if (make_room(room, b->count)) return NO_MEMORY;
    if (read_records(b, c)) return FOR_PYTHON;
    if (expire(b) || spreds_fills_take(b->fills, c->ids, c->operations, c->times_us, c->count,
                                       b->end_us, b->longest_us, b->most_pending))
        return NO_MEMORY;
    take_sampled(b, c);
    int64_t reads = spreds_stack_access(b->stack, c->ids, c->operations, c->weights, c->count,
                                        b->default_bytes, room->above, room->own);
    if (reads < 0) return NO_MEMORY;
    b->reads = (uint64_t)reads;
    b->missed = 0;
    tell_distances(b, room);
    struct lifetimes *l = b->lifetimes;
    l->added_count = l->removed_count = 0;
    if ((c->have_ttl || spreds_lifetimes_alive(l)) &&
        spreds_lifetimes_take(l, c->ids, c->operations, c->left_seconds, room->distances,
                              c->times_us, c->count, b->resident_bytes))
        return NO_MEMORY;
    if (b->rate <= 0) return TAKEN;
    for (uint64_t i = 0; i < b->reads; i++) count(b, room->distances[i], room->read_ids[i], 1);
    for (uint64_t i = 0; i < l->added_count; i++)
        count(b, l->added[i].size_bytes, l->added[i].key, 1);
    for (uint64_t i = 0; i < l->removed_count; i++)
        count(b, l->removed[i].size_bytes, l->removed[i].key, -1);
    return TAKEN;
}
