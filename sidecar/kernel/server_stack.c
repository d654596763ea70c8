/* The recency stack of a server's monitor: weighted objects, and holes where one was deleted.
 *
 * The same as sidecar/curves/lru_stack.py, one access after the other: what lies above an object is
 * asked of a Fenwick tree over the slots. All numbers are whole, so both say the same. */

#include "key_map.h"

#define COLD (-1)
#define UNSEEN_HIT (-2)
#define SPARE_SLOTS 16384 /* beyond the live objects before the stack is written anew */
#define CHUNK 1024        /* accesses for which there has to be room, as in lru_stack.py */
#define SPARE_HOLES 1024  /* beyond the live objects; the lowest of more are forgotten */

enum { READ_HIT = 1, READ_MISS, WRITE, DELETE, EXPIRY, EVICTION };
/* ABSENT: a live object that the server itself does not hold. */
enum { EMPTY, LIVE, ABSENT, HOLE };

static int is_live(uint8_t kind)
{
    return kind == LIVE || kind == ABSENT;
}

struct server_stack {
    struct key_map live; /* to the slot after that of each live object */

    /* By slot, the most recent last. */
    uint64_t *keys;
    int64_t *weights;
    uint8_t *kinds;
    int64_t *tree; /* sums of weights, from 1 */
    uint64_t slots;
    uint64_t used;
    uint64_t lowest; /* no live object is below */
    int64_t total;

    /* Slots of the holes, ascending. */
    uint64_t *holes;
    uint64_t hole_count;
    uint64_t hole_room;
};

/* ---------------------------------------------------------------- slots */

static void add(struct server_stack *s, uint64_t slot, int64_t weight)
{
    s->weights[slot] += weight;
    s->total += weight;
    for (uint64_t i = slot + 1; i <= s->slots; i += i & -i) s->tree[i] += weight;
}

static int64_t sum_upto(const struct server_stack *s, uint64_t slot)
{
    int64_t weight = 0;
    for (uint64_t i = slot + 1; i; i &= i - 1) weight += s->tree[i];
    return weight;
}

static void sum_anew(struct server_stack *s)
{
    s->total = 0;
    memset(s->tree, 0, (s->slots + 1) * sizeof *s->tree);
    for (uint64_t i = 1; i <= s->slots; i++) {
        uint64_t parent = i + (i & -i);
        if (i <= s->used) {
            s->tree[i] += s->weights[i - 1];
            s->total += s->weights[i - 1];
        }
        if (parent <= s->slots) s->tree[parent] += s->tree[i];
    }
}

static uint64_t lowest(struct server_stack *s)
{
    while (s->lowest < s->used && !is_live(s->kinds[s->lowest])) s->lowest++;
    return s->lowest;
}

/* Closes the gaps between slots, and makes room for more. Returns 0, or -1 without memory. */
static int write_anew(struct server_stack *s)
{
    uint64_t least = lowest(s), first_hole = 0, kept = 0;
    while (first_hole < s->hole_count && s->holes[first_hole] < least) first_hole++;
    uint64_t holes = s->hole_count - first_hole;
    if (holes > s->live.count + SPARE_HOLES) first_hole += holes - s->live.count - SPARE_HOLES;
    holes = s->hole_count - first_hole;
    uint64_t slots = 2 * (s->live.count + holes) + SPARE_SLOTS;
    uint64_t *keys = malloc(slots * sizeof *keys);
    int64_t *weights = calloc(slots, sizeof *weights);
    uint8_t *kinds = calloc(slots, 1);
    int64_t *tree = malloc((slots + 1) * sizeof *tree);
    if (!keys || !weights || !kinds || !tree) {
        free(keys);
        free(weights);
        free(kinds);
        free(tree);
        return -1;
    }
    uint64_t hole = first_hole;
    for (uint64_t slot = least; slot < s->used; slot++) {
        int is_hole = hole < s->hole_count && s->holes[hole] == slot;
        if (!is_live(s->kinds[slot]) && !is_hole) continue;
        if (is_hole) s->holes[hole++ - first_hole] = kept;
        else key_map_find(&s->live, s->keys[slot])->number = kept + 1;
        keys[kept] = s->keys[slot];
        weights[kept] = s->weights[slot];
        kinds[kept++] = s->kinds[slot];
    }
    free(s->keys);
    free(s->weights);
    free(s->kinds);
    free(s->tree);
    s->keys = keys;
    s->weights = weights;
    s->kinds = kinds;
    s->tree = tree;
    s->slots = slots;
    s->used = kept;
    s->hole_count = holes;
    s->lowest = 0;
    sum_anew(s);
    return 0;
}

/* ---------------------------------------------------------------- holes */

/* Where an object was, whose weight stays. Returns 0, or -1 without memory. */
static int make_hole(struct server_stack *s, uint64_t slot)
{
    if (s->hole_count == s->hole_room) {
        uint64_t room = s->hole_room ? 2 * s->hole_room : 256;
        uint64_t *holes = realloc(s->holes, room * sizeof *holes);
        if (!holes) return -1;
        s->holes = holes;
        s->hole_room = room;
    }
    uint64_t at = s->hole_count++;
    for (; at && s->holes[at - 1] > slot; at--) s->holes[at] = s->holes[at - 1];
    s->holes[at] = slot;
    s->kinds[slot] = HOLE;
    return 0;
}

/* What is inserted fills the topmost holes. */
static void fill_holes(struct server_stack *s, int64_t weight)
{
    while (s->hole_count && weight) {
        uint64_t hole = s->holes[s->hole_count - 1];
        int64_t room = s->weights[hole];
        int64_t some = room > weight ? weight : room;
        add(s, hole, -some);
        weight -= some;
        if (some < room) return;
        s->kinds[hole] = EMPTY;
        s->hole_count--;
    }
}

/* ---------------------------------------------------------------- interface */

void spreds_stack_free(struct server_stack *s)
{
    if (!s) return;
    key_map_free(&s->live);
    free(s->keys);
    free(s->weights);
    free(s->kinds);
    free(s->tree);
    free(s->holes);
    free(s);
}

/* Returns NULL without memory. */
struct server_stack *spreds_stack_new(void)
{
    struct server_stack *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    if (key_map_init(&s->live) || write_anew(s)) {
        spreds_stack_free(s);
        return NULL;
    }
    return s;
}

/* Takes accesses in order; for each read, what lies above the object (or COLD, UNSEEN_HIT) and its own
 * weight. Weights are 0 where unknown. Returns the number of reads, or -1 without memory. */
int64_t spreds_stack_access(struct server_stack *s, const uint64_t *keys, const uint8_t *operations,
                            const int64_t *weights, uint64_t count, int64_t default_weight,
                            int64_t *above, int64_t *own)
{
    int64_t reads = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t chunk = count - i < CHUNK ? count - i : CHUNK;
        if (i % CHUNK == 0 && s->used + chunk > s->slots && write_anew(s)) return -1;
        uint64_t slot = s->used++, key = keys[i];
        int64_t weight = weights[i];
        int operation = operations[i];
        s->kinds[slot] = EMPTY;
        s->weights[slot] = 0;
        struct key_place *place = key_map_find(&s->live, key);
        if (operation > WRITE) {
            if (operation == EVICTION && place->number) s->kinds[place->number - 1] = ABSENT;
            if (operation != EVICTION && place->number) {
                if (make_hole(s, place->number - 1)) return -1;
                key_map_take_out(&s->live, place);
            }
            continue;
        }
        int64_t lies_above = COLD, weighs = 0;
        if (place->number) {
            uint64_t before = place->number - 1;
            lies_above = s->total - sum_upto(s, before);
            weighs = s->weights[before];
            if (!weight) weight = weighs;
            if (s->hole_count && s->holes[s->hole_count - 1] > before) {
                /* Caches too small for the object fill a hole above it with it; the larger ones
                 * have the hole where it was. */
                if (make_hole(s, before)) return -1;
                fill_holes(s, weighs);
            } else {
                add(s, before, -weighs);
                s->kinds[before] = EMPTY;
            }
        } else if (operation != READ_MISS) {
            lies_above = UNSEEN_HIT;
            if (!weight) weight = default_weight;
            weighs = weight;
            fill_holes(s, weight);
            place = key_map_put(&s->live, place, key, slot + 1);
            if (!place) return -1;
        }
        if (lies_above != COLD) {
            place->number = slot + 1;
            s->keys[slot] = key;
            s->kinds[slot] = operation == READ_MISS ? ABSENT : LIVE;
            add(s, slot, weight);
        }
        if (operation <= READ_MISS) {
            above[reads] = lies_above;
            own[reads++] = weighs;
        }
    }
    return reads;
}

uint64_t spreds_stack_live(const struct server_stack *s) { return s->live.count; }
int spreds_stack_has(const struct server_stack *s, uint64_t key) 
{
    return key_map_find(&s->live, key)->number != KEY_NOWHERE;
}

/* Of objects, and of holes above any of them. */
int64_t spreds_stack_total_weight(struct server_stack *s)
{
    uint64_t least = lowest(s);
    return least ? s->total - sum_upto(s, least - 1) : s->total;
}

/* The weight of the objects that the server holds itself, and how many they are. */
int64_t spreds_stack_held(const struct server_stack *s, uint64_t *count)
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

/* Writes the live objects and their weights, least recently used first; either may be NULL. */
void spreds_stack_list(const struct server_stack *s, uint64_t *keys, int64_t *weights)
{
    uint64_t found = 0;
    for (uint64_t slot = s->lowest; slot < s->used; slot++) {
        if (!is_live(s->kinds[slot])) continue;
        if (keys) keys[found] = s->keys[slot];
        if (weights) weights[found] = s->weights[slot];
        found++;
    }
}

/* Takes objects that are there out; they leave holes, or, if forgotten, nothing. Returns 0, or -1
 * without memory. */
int spreds_stack_remove(struct server_stack *s, const uint64_t *keys, uint64_t count, int forgotten)
{
    for (uint64_t i = 0; i < count; i++) {
        struct key_place *place = key_map_find(&s->live, keys[i]);
        if (!place->number) continue;
        if (forgotten) {
            add(s, place->number - 1, -s->weights[place->number - 1]);
            s->kinds[place->number - 1] = EMPTY;
        } else if (make_hole(s, place->number - 1)) {
            return -1;
        }
        key_map_take_out(&s->live, place);
    }
    return forgotten ? write_anew(s) : 0;
}

/* Gives the live objects, as they are listed, other keys. */
void spreds_stack_rename(struct server_stack *s, const uint64_t *keys)
{
    key_map_clear(&s->live);
    for (uint64_t slot = lowest(s), i = 0; slot < s->used; slot++) {
        if (!is_live(s->kinds[slot])) continue;
        s->keys[slot] = keys[i++];
        /* As many as before: there is room. */
        struct key_place *place = key_map_find(&s->live, s->keys[slot]);
        key_map_put(&s->live, place, s->keys[slot], slot + 1);
    }
}

/* Makes each live object so much heavier, but 1 at least. */
void spreds_stack_add_weight(struct server_stack *s, int64_t more)
{
    for (uint64_t slot = lowest(s); slot < s->used; slot++)
        if (is_live(s->kinds[slot]))
            s->weights[slot] = s->weights[slot] + more > 1 ? s->weights[slot] + more : 1;
    sum_anew(s);
}

void spreds_stack_clear(struct server_stack *s)
{
    key_map_clear(&s->live);
    s->hole_count = s->used = s->lowest = 0;
    sum_anew(s);
}

/* How many of the live objects, as they are listed, have more than `depth` above them. */
uint64_t spreds_stack_below(const struct server_stack *s, int64_t depth)
{
    uint64_t deep = 0;
    int64_t upto = 0;
    for (uint64_t slot = 0; slot < s->used; slot++) {
        upto += s->weights[slot];
        if (is_live(s->kinds[slot]) && upto < s->total - depth) deep++;
    }
    return deep;
}
