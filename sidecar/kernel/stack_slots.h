/* The slots of a server's recency stack, the most recent last: who stands in each, how much it weighs,
 * and how much stands above it.
 *
 * Weights are summed by blocks of 64 slots and by blocks of 64 such: an update is three additions, and
 * a sum is of neighbours in memory. For the hundred thousand slots that there are at most, that takes
 * half of the time that a Fenwick tree does. */

#ifndef SPREDS_STACK_SLOTS_H
#define SPREDS_STACK_SLOTS_H

#include "key_map.h"

#define SPARE_SLOTS 16384 /* beyond the live objects before the slots are written anew */

/* ABSENT: a live object that the server itself does not hold. */
enum { EMPTY, LIVE, ABSENT, HOLE };

struct stack_slots {
    struct key_map live; /* to the slot after that of each live object */

    uint64_t *keys;
    int64_t *weights;
    int64_t *first_weights; /* when the server came to hold it; 0: not known */
    uint8_t *kinds;
    int64_t *blocks;
    int64_t *large_blocks;
    uint64_t count;
    uint64_t used;
    uint64_t lowest; /* no live object is below; see slots_lowest */
    int64_t total;

    /* Slots of the holes, ascending. */
    uint64_t *holes;
    uint64_t hole_count;
    uint64_t hole_room;
};

/* Returns 0, or -1 without memory; then, too, slots_free may be called. */
int slots_init(struct stack_slots *s);
void slots_free(struct stack_slots *s);
void slots_clear(struct stack_slots *s);

static inline int is_live(uint8_t kind) { return kind == LIVE || kind == ABSENT; }

/* The first slot with a live object, or the first that is not used. */
uint64_t slots_lowest(struct stack_slots *s);

/* Makes what stands in a slot so much heavier. */
void slots_add(struct stack_slots *s, uint64_t slot, int64_t weight);

/* What all slots above this one weigh. */
int64_t slots_above(const struct stack_slots *s, uint64_t slot);

/* After weights have been changed by other means. */
void slots_sum_anew(struct stack_slots *s);

/* Closes the gaps between slots, and makes room for more. Returns 0, or -1 without memory. */
int slots_write_anew(struct stack_slots *s);

/* Where an object was, whose weight stays. Returns 0, or -1 without memory. */
int slots_make_hole(struct stack_slots *s, uint64_t slot);

/* What is inserted fills the topmost holes. */
void slots_fill_holes(struct stack_slots *s, int64_t weight);

#endif
