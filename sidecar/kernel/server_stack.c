/* The recency stack of a server's monitor: weighted objects, and holes where one was deleted.
 *
 * The same as tests/oracles/lru_stack.py, one access after the other. All numbers are whole, so both
 * say the same. */

#include "server_stack.h"

#include "operations.h"

#define CHUNK 1024 /* accesses for which there has to be room, as in tests/oracles/lru_stack.py */
#define AHEAD 8    /* accesses between asking for memory and using it */

void spreds_stack_free(struct stack_slots *s)
{
    if (!s) return;
    slots_free(s);
    free(s);
}

/* Returns NULL without memory. */
struct stack_slots *spreds_stack_new(void)
{
    struct stack_slots *s = malloc(sizeof *s);
    if (s && slots_init(s)) {
        spreds_stack_free(s);
        return NULL;
    }
    return s;
}

/* A deletion, an expiry or an eviction. Returns 0, or -1 without memory. */
static int leave(struct stack_slots *s, struct key_place *place, int operation)
{
    if (!place->number) return 0;
    if (operation == EVICTION) {
        s->kinds[place->number - 1] = ABSENT;
        return 0;
    }
    if (slots_make_hole(s, place->number - 1)) return -1;
    key_map_take_out(&s->live, place);
    return 0;
}

/* Takes an object out of its slot to put it on top. Returns 0, or -1 without memory. */
static int lift(struct stack_slots *s, uint64_t slot)
{
    int64_t weight = s->weights[slot];
    if (s->hole_count && s->holes[s->hole_count - 1] > slot) {
        /* Caches too small for the object fill a hole above it with it; the larger ones have the
         * hole where it was. */
        if (slots_make_hole(s, slot)) return -1;
        slots_fill_holes(s, weight);
    } else {
        slots_add(s, slot, -weight);
        s->kinds[slot] = EMPTY;
    }
    return 0;
}

int64_t spreds_stack_access(struct stack_slots *s, const uint64_t *keys, const uint8_t *operations,
                            const int64_t *weights, uint64_t count, int64_t default_weight,
                            int64_t *above, int64_t *own)
{
    int64_t reads = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t chunk = count - i < CHUNK ? count - i : CHUNK;
        if (i % CHUNK == 0 && s->used + chunk > s->count && slots_write_anew(s)) return -1;
        uint64_t slot = s->used++, key = keys[i];
        int64_t weight = weights[i];
        int operation = operations[i];
        s->kinds[slot] = EMPTY;
        s->weights[slot] = 0;
        if (i + AHEAD < count) key_map_prefetch(&s->live, keys[i + AHEAD]);
        struct key_place *place = key_map_find(&s->live, key);
        if (operation > WRITE) {
            if (leave(s, place, operation)) return -1;
            continue;
        }
        int64_t lies_above = COLD, weighs = 0, first = weight;
        if (place->number) {
            uint64_t before = place->number - 1;
            if (s->kinds[before] == LIVE && s->first_weights[before])
                first = s->first_weights[before];
            lies_above = slots_above(s, before);
            weighs = s->weights[before];
            if (!weight) weight = weighs;
            if (lift(s, before)) return -1;
        } else if (operation != READ_MISS) {
            lies_above = UNSEEN_HIT;
            if (!weight) weight = default_weight;
            weighs = weight;
            slots_fill_holes(s, weight);
            place = key_map_put(&s->live, place, key, slot + 1);
            if (!place) return -1;
        }
        if (lies_above != COLD) {
            place->number = slot + 1;
            s->keys[slot] = key;
            s->first_weights[slot] = first;
            s->kinds[slot] = operation == READ_MISS ? ABSENT : LIVE;
            slots_add(s, slot, weight);
        }
        if (operation <= READ_MISS) {
            above[reads] = lies_above;
            own[reads++] = weighs;
        }
    }
    return reads;
}

uint64_t spreds_stack_live(const struct stack_slots *s) { return s->live.count; }
int spreds_stack_has(const struct stack_slots *s, uint64_t key)
{
    return key_map_find(&s->live, key)->number != KEY_NOWHERE;
}

int64_t spreds_stack_total_weight(struct stack_slots *s)
{
    uint64_t least = slots_lowest(s);
    return least < s->used ? s->weights[least] + slots_above(s, least) : 0;
}

/* The weight of the objects that the server holds itself, and how many they are. */
int64_t spreds_stack_held(const struct stack_slots *s, uint64_t *count)
{
    int64_t weight = 0;
    *count = 0;
    for (uint64_t slot = s->lowest; slot < s->used; slot++) {
        if (s->kinds[slot] != LIVE) continue;
        weight += s->weights[slot];
        ++*count;
    }
    return weight;
}

/* Of those that it holds itself, and whose weight is known since it came to hold them: what they weighed
 * then, and how many they are; returns what they weigh now. */
int64_t spreds_stack_grown(const struct stack_slots *s, int64_t *first_weight, uint64_t *count)
{
    int64_t weight = 0;
    *first_weight = 0;
    *count = 0;
    for (uint64_t slot = s->lowest; slot < s->used; slot++) {
        if (s->kinds[slot] != LIVE || !s->first_weights[slot]) continue;
        weight += s->weights[slot];
        *first_weight += s->first_weights[slot];
        ++*count;
    }
    return weight;
}

/* Writes the live objects and their weights, least recently used first; either may be NULL. */
void spreds_stack_list(const struct stack_slots *s, uint64_t *keys, int64_t *weights)
{
    uint64_t found = 0;
    for (uint64_t slot = s->lowest; slot < s->used; slot++) {
        if (!is_live(s->kinds[slot])) continue;
        if (keys) keys[found] = s->keys[slot];
        if (weights) weights[found] = s->weights[slot];
        found++;
    }
}

int spreds_stack_remove(struct stack_slots *s, const uint64_t *keys, uint64_t count, int forgotten)
{
    for (uint64_t i = 0; i < count; i++) {
        struct key_place *place = key_map_find(&s->live, keys[i]);
        if (!place->number) continue;
        if (forgotten) {
            slots_add(s, place->number - 1, -s->weights[place->number - 1]);
            s->kinds[place->number - 1] = EMPTY;
        } else if (slots_make_hole(s, place->number - 1)) {
            return -1;
        }
        key_map_take_out(&s->live, place);
    }
    return forgotten ? slots_write_anew(s) : 0;
}

static int64_t heavier(int64_t weight, int64_t more) { return weight + more > 1 ? weight + more : 1; }

/* Makes each live object so much heavier, but 1 at least. */
void spreds_stack_add_weight(struct stack_slots *s, int64_t more)
{
    for (uint64_t slot = slots_lowest(s); slot < s->used; slot++) {
        if (!is_live(s->kinds[slot])) continue;
        s->weights[slot] = heavier(s->weights[slot], more);
        if (s->first_weights[slot]) s->first_weights[slot] = heavier(s->first_weights[slot], more);
    }
    slots_sum_anew(s);
}

void spreds_stack_clear(struct stack_slots *s) { slots_clear(s); }

/* How many of the live objects, as they are listed, have more than `depth` above them. */
uint64_t spreds_stack_below(const struct stack_slots *s, int64_t depth)
{
    uint64_t deep = 0;
    int64_t upto = 0;
    for (uint64_t slot = 0; slot < s->used; slot++) {
        upto += s->weights[slot];
        if (is_live(s->kinds[slot]) && upto < s->total - depth) deep++;
    }
    return deep;
}
