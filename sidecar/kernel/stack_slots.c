/* Slots of a recency stack: weights, their sums, and holes. What for: stack_slots.h. */

#include "stack_slots.h"

#define BLOCK_BITS 6 /* and large blocks are of as many blocks */
#define SPARE_HOLES 1024 /* beyond the live objects; the lowest of more are forgotten */

static uint64_t blocks_of(uint64_t slots) { return (slots >> BLOCK_BITS) + 1; }

/* ---------------------------------------------------------------- sums */

void slots_add(struct stack_slots *s, uint64_t slot, int64_t weight)
{
    s->weights[slot] += weight;
    s->blocks[slot >> BLOCK_BITS] += weight;
    s->large_blocks[slot >> 2 * BLOCK_BITS] += weight;
    s->total += weight;
}

/* Of the numbers from `first` up to the end of the block that it is in, but of `count` at most. */
static inline int64_t rest_of_block(const int64_t *numbers, uint64_t first, uint64_t count)
{
    uint64_t end = ((first >> BLOCK_BITS) + 1) << BLOCK_BITS;
    int64_t sum = 0;
    if (end > count) end = count;
    for (uint64_t i = first; i < end; i++) sum += numbers[i];
    return sum;
}

int64_t slots_above(const struct stack_slots *s, uint64_t slot)
{
    uint64_t block = slot >> BLOCK_BITS, large = block >> BLOCK_BITS;
    uint64_t blocks = blocks_of(s->used), large_blocks = blocks_of(blocks);
    int64_t above = rest_of_block(s->weights, slot, s->used) - s->weights[slot];
    above += rest_of_block(s->blocks, block, blocks) - s->blocks[block];
    for (uint64_t i = large + 1; i < large_blocks; i++) above += s->large_blocks[i];
    return above;
}

void slots_sum_anew(struct stack_slots *s)
{
    s->total = 0;
    memset(s->blocks, 0, blocks_of(s->count) * sizeof *s->blocks);
    memset(s->large_blocks, 0, blocks_of(blocks_of(s->count)) * sizeof *s->large_blocks);
    for (uint64_t slot = 0; slot < s->used; slot++) {
        s->blocks[slot >> BLOCK_BITS] += s->weights[slot];
        s->large_blocks[slot >> 2 * BLOCK_BITS] += s->weights[slot];
        s->total += s->weights[slot];
    }
}

uint64_t slots_lowest(struct stack_slots *s)
{
    while (s->lowest < s->used && !is_live(s->kinds[s->lowest])) s->lowest++;
    return s->lowest;
}

/* ---------------------------------------------------------------- memory */

/* Without slots. Returns 0, or -1 without memory. */
static int allocate(struct stack_slots *s, uint64_t count)
{
    s->keys = malloc(count * sizeof *s->keys);
    s->weights = calloc(count, sizeof *s->weights);
    s->first_weights = malloc(count * sizeof *s->first_weights);
    s->kinds = calloc(count, 1);
    s->blocks = malloc(blocks_of(count) * sizeof *s->blocks);
    s->large_blocks = malloc(blocks_of(blocks_of(count)) * sizeof *s->large_blocks);
    s->count = count;
    return s->keys && s->weights && s->first_weights && s->kinds && s->blocks && s->large_blocks
               ? 0
               : -1;
}

static void release(struct stack_slots *s)
{
    free(s->keys);
    free(s->weights);
    free(s->first_weights);
    free(s->kinds);
    free(s->blocks);
    free(s->large_blocks);
}

int slots_init(struct stack_slots *s)
{
    *s = (struct stack_slots){0};
    return key_map_init(&s->live) || slots_write_anew(s) ? -1 : 0;
}

void slots_free(struct stack_slots *s)
{
    key_map_free(&s->live);
    release(s);
    free(s->holes);
}

void slots_clear(struct stack_slots *s)
{
    key_map_clear(&s->live);
    s->hole_count = s->used = s->lowest = 0;
    slots_sum_anew(s);
}

int slots_write_anew(struct stack_slots *s)
{
    uint64_t least = slots_lowest(s), first_hole = 0, kept = 0;
    while (first_hole < s->hole_count && s->holes[first_hole] < least) first_hole++;
    uint64_t holes = s->hole_count - first_hole;
    if (holes > s->live.count + SPARE_HOLES) first_hole += holes - s->live.count - SPARE_HOLES;
    holes = s->hole_count - first_hole;
    struct stack_slots anew = *s;
    if (allocate(&anew, 2 * (s->live.count + holes) + SPARE_SLOTS)) {
        release(&anew);
        return -1;
    }
    uint64_t hole = first_hole;
    for (uint64_t slot = least; slot < s->used; slot++) {
        int is_hole = hole < s->hole_count && s->holes[hole] == slot;
        if (!is_live(s->kinds[slot]) && !is_hole) continue;
        if (is_hole) s->holes[hole++ - first_hole] = kept;
        else key_map_find(&s->live, s->keys[slot])->number = kept + 1;
        anew.keys[kept] = s->keys[slot];
        anew.weights[kept] = s->weights[slot];
        anew.first_weights[kept] = s->first_weights[slot];
        anew.kinds[kept++] = s->kinds[slot];
    }
    release(s);
    *s = anew;
    s->used = kept;
    s->hole_count = holes;
    s->lowest = 0;
    slots_sum_anew(s);
    return 0;
}

/* ---------------------------------------------------------------- holes */

int slots_make_hole(struct stack_slots *s, uint64_t slot)
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

void slots_fill_holes(struct stack_slots *s, int64_t weight)
{
    while (s->hole_count && weight) {
        uint64_t hole = s->holes[s->hole_count - 1];
        int64_t room = s->weights[hole];
        int64_t some = room > weight ? weight : room;
        slots_add(s, hole, -some);
        weight -= some;
        if (some < room) return;
        s->kinds[hole] = EMPTY;
        s->hole_count--;
    }
}
