/* Accesses that wait for the write of the same key, as sidecar/curves/backend_latency.py judges them.
 * Misses wait for their fill. Hits, of one key in eight, tell what is written by chance. */

#include "fills.h"

#include "key_map.h"
#include "operations.h"

enum { MISSES, HITS, KINDS };

/* How often as many as may wait may have come since the oldest of those did. */
enum { MOST_ROUNDS = 64 };

/* By the highest bits of the hash, which sampling does not look at. */
static int is_watched(uint64_t key)
{
    return !(key >> 45 & 7);
}

struct access {
    uint64_t key;
    double at_us;
};

/* Those that wait, in order; access i is at (i - 1) % room, from `oldest` up to, but not including,
 * `next`. */
struct queue {
    struct key_map pending; /* to the number of the access */
    struct access *accesses;
    uint64_t room;
    uint64_t oldest;
    uint64_t next;
};

struct fills {
    struct queue queues[KINDS];
    struct waits waits[KINDS];
};

struct waits *spreds_fills_waits(struct fills *f)
{
    return f->waits;
}

void spreds_fills_free(struct fills *f)
{
    if (!f) return;
    for (int kind = 0; kind < KINDS; kind++) {
        key_map_free(&f->queues[kind].pending);
        free(f->queues[kind].accesses);
    }
    free(f);
}

/* Returns NULL without memory. */
struct fills *spreds_fills_new(void)
{
    struct fills *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    for (int kind = 0; kind < KINDS; kind++) {
        struct queue *q = &f->queues[kind];
        q->room = 1024;
        q->oldest = q->next = 1;
        q->accesses = malloc(q->room * sizeof *q->accesses);
        if (key_map_init(&q->pending) || !q->accesses) {
            spreds_fills_free(f);
            return NULL;
        }
    }
    return f;
}

static struct access *access_of(const struct queue *q, uint64_t number)
{
    return &q->accesses[(number - 1) & (q->room - 1)];
}

/* Returns 0, or -1 without memory. */
static int grow(struct queue *q)
{
    struct queue larger = *q;
    larger.room = 2 * q->room;
    larger.accesses = malloc(larger.room * sizeof *larger.accesses);
    if (!larger.accesses) return -1;
    for (uint64_t i = q->oldest; i < q->next; i++) *access_of(&larger, i) = *access_of(q, i);
    free(q->accesses);
    *q = larger;
    return 0;
}

/* Only the first of a key waits. Returns 0, or -1 without memory. */
static int begin(struct queue *q, uint64_t key, double at_us)
{
    struct key_place *place = key_map_find(&q->pending, key);
    if (place->number != KEY_NOWHERE) return 0;
    if (q->next - q->oldest == q->room && grow(q)) return -1;
    if (!key_map_put(&q->pending, place, key, q->next)) return -1;
    *access_of(q, q->next++) = (struct access){key, at_us};
    return 0;
}

static uint64_t bin_of(double waited_us)
{
    uint64_t bin = waited_us >= 2 ? 63 - (uint64_t)__builtin_clzll((uint64_t)waited_us) : 0;
    return bin < WAIT_BINS - 1 ? bin : WAIT_BINS - 2;
}

static void end(struct queue *q, struct waits *w, uint64_t key, double at_us, double longest_us,
                int is_write)
{
    struct key_place *place = key_map_find(&q->pending, key);
    if (place->number == KEY_NOWHERE) return;
    double waited_us = at_us - access_of(q, place->number)->at_us;
    if (waited_us < 0) waited_us = 0;
    key_map_take_out(&q->pending, place);
    if (waited_us > longest_us) {
        w->unwritten[WAIT_BINS - 1]++;
    } else if (is_write) {
        w->written[bin_of(waited_us)]++;
        w->written_seconds[bin_of(waited_us)] += waited_us / 1e6;
    } else {
        w->unwritten[bin_of(waited_us)]++;
    }
}

/* Forgets those that are older, the oldest of more than `most`, and what is of a later time than `now`:
 * that there are many does not show that they stay without a write, so only the old ones count. Whoever
 * writes the times may let them stand still, so the queue is bounded as well. */
static void give_up(struct queue *q, struct waits *w, double now_us, double longest_us, uint64_t most)
{
    double before_us = now_us - longest_us;
    for (; q->oldest < q->next; q->oldest++) {
        const struct access *access = access_of(q, q->oldest);
        struct key_place *place = key_map_find(&q->pending, access->key);
        if (place->number != q->oldest) continue; /* it has ended */
        if (access->at_us >= before_us && access->at_us <= now_us && q->pending.count <= most &&
            q->next - q->oldest <= MOST_ROUNDS * most)
            break;
        if (access->at_us < before_us) w->unwritten[WAIT_BINS - 1]++;
        key_map_take_out(&q->pending, place);
    }
}

int spreds_fills_take(struct fills *f, const uint64_t *keys, const uint8_t *operations,
                      const double *times_us, uint64_t count, double now_us, double longest_us,
                      uint64_t most)
{
    struct queue *misses = &f->queues[MISSES], *hits = &f->queues[HITS];
    for (uint64_t i = 0; i < count; i++) {
        int is_write = operations[i] == WRITE, is_miss = operations[i] == READ_MISS;
        if (is_write) end(misses, &f->waits[MISSES], keys[i], times_us[i], longest_us, 1);
        else if (is_miss && begin(misses, keys[i], times_us[i])) return -1;
        if (!is_watched(keys[i])) continue;
        if (operations[i] != READ_HIT)
            end(hits, &f->waits[HITS], keys[i], times_us[i], longest_us, is_write);
        else if (begin(hits, keys[i], times_us[i])) return -1;
    }
    for (int kind = 0; kind < KINDS; kind++)
        give_up(&f->queues[kind], &f->waits[kind], now_us, longest_us, most);
    return 0;
}

void spreds_fills_clear(struct fills *f)
{
    for (int kind = 0; kind < KINDS; kind++) {
        key_map_clear(&f->queues[kind].pending);
        f->queues[kind].oldest = f->queues[kind].next;
    }
}
