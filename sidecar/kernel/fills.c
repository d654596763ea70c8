/* Misses that wait for the write of the same key, as sidecar/curves/backend_latency.py pairs them. */

#include "fills.h"

#include "key_map.h"
#include "operations.h"

struct miss {
    uint64_t key;
    double at_us;
};

struct fills {
    struct key_map pending; /* to the number of the miss */

    /* Misses in order; miss i is at (i - 1) % room, from `oldest` up to, but not including, `next`. */
    struct miss *misses;
    uint64_t room;
    uint64_t oldest;
    uint64_t next;

    struct counted counted;
};

void spreds_fills_free(struct fills *f)
{
    if (!f) return;
    key_map_free(&f->pending);
    free(f->misses);
    free(f);
}

/* Returns NULL without memory. */
struct fills *spreds_fills_new(void)
{
    struct fills *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->room = 1024;
    f->oldest = f->next = 1;
    f->misses = malloc(f->room * sizeof *f->misses);
    if (key_map_init(&f->pending) || !f->misses) {
        spreds_fills_free(f);
        return NULL;
    }
    return f;
}

static struct miss *miss_of(const struct fills *f, uint64_t number)
{
    return &f->misses[(number - 1) & (f->room - 1)];
}

/* Returns 0, or -1 without memory. */
static int grow(struct fills *f)
{
    struct fills larger = *f;
    larger.room = 2 * f->room;
    larger.misses = malloc(larger.room * sizeof *larger.misses);
    if (!larger.misses) return -1;
    for (uint64_t i = f->oldest; i < f->next; i++) *miss_of(&larger, i) = *miss_of(f, i);
    free(f->misses);
    *f = larger;
    return 0;
}

/* Forgets the misses that are older, and the oldest of more than `most`. */
static void give_up(struct fills *f, double before_us, uint64_t most)
{
    for (; f->oldest < f->next; f->oldest++) {
        const struct miss *miss = miss_of(f, f->oldest);
        struct key_place *place = key_map_find(&f->pending, miss->key);
        if (place->number != f->oldest) continue; /* it was filled */
        if (miss->at_us >= before_us && f->pending.count <= most) break;
        if (miss->at_us < before_us) f->counted.unfilled++;
        key_map_take_out(&f->pending, place);
    }
}

int spreds_fills_take(struct fills *f, const uint64_t *keys, const uint8_t *operations,
                      const double *times_us, uint64_t count, double now_us, double longest_us,
                      uint64_t most, struct counted *counted)
{
    f->counted = (struct counted){0};
    for (uint64_t i = 0; i < count; i++) {
        if (operations[i] != READ_MISS && operations[i] != WRITE) continue;
        struct key_place *place = key_map_find(&f->pending, keys[i]);
        if (operations[i] == READ_MISS) {
            if (place->number != KEY_NOWHERE) continue;
            if (f->next - f->oldest == f->room && grow(f)) return -1;
            if (!key_map_put(&f->pending, place, keys[i], f->next)) return -1;
            *miss_of(f, f->next++) = (struct miss){keys[i], times_us[i]};
        } else if (place->number != KEY_NOWHERE) {
            double waited_us = times_us[i] - miss_of(f, place->number)->at_us;
            if (waited_us > longest_us) {
                f->counted.unfilled++;
            } else {
                f->counted.fills++;
                f->counted.seconds += (waited_us > 0 ? waited_us : 0) / 1e6;
            }
            key_map_take_out(&f->pending, place);
        }
    }
    give_up(f, now_us - longest_us, most);
    *counted = f->counted;
    return 0;
}

void spreds_fills_clear(struct fills *f)
{
    key_map_clear(&f->pending);
    f->oldest = f->next;
}
