/* A recency stack of weighted objects. The distance of an object is the weight of those that were
 * accessed since.
 *
 * Each access takes the next position, and a Fenwick tree over blocks of 64 positions sums the
 * weights of the objects that stand there (Bennett and Kruskal, IBM J. R&D 19(4), 1975); within a
 * block there is a bit for each position that is taken. When positions run out, the live objects are
 * numbered anew.
 *
 *     struct lru_stack stack;
 *     if (lru_init(&stack, 0)) ...no memory...
 *     uint64_t above;
 *     uint32_t own;
 *     switch (lru_access(&stack, hash, weight, &above, &own)) { case LRU_FOUND: ... }
 *     lru_free(&stack); */

#ifndef SPREDS_LRU_STACK_H
#define SPREDS_LRU_STACK_H

#include <stdint.h>

struct lru_object {
    uint64_t hash;
    uint32_t position; /* 0: this slot is empty */
    uint32_t weight;
};

struct lru_stack {
    /* Live objects: open addressing, linear probing, at most half full. */
    struct lru_object *objects;
    uint64_t slots;
    uint64_t live;

    /* By position, from 1: whose it is, its weight, and a bit if somebody stands there still. */
    uint64_t *hash_at;
    uint32_t *weight_at;
    uint64_t *live_bits;
    uint64_t *tree; /* sums of weights of the blocks, from 1 */
    int is_even; /* all weights are 1 */
    uint64_t positions;
    uint64_t next_position;
    uint64_t total_weight;
};

#define LRU_BLOCK_BITS 6

enum { LRU_NO_MEMORY = -1, LRU_NEW, LRU_FOUND };

/* With room for `expected` objects from the start. Returns 0, or LRU_NO_MEMORY; then, too,
 * lru_free may be called. */
int lru_init(struct lru_stack *stack, uint64_t expected);
void lru_free(struct lru_stack *stack);

/* Makes the object the most recent, with this weight. Returns LRU_FOUND, and how much weight lay
 * above it and its own before; or LRU_NEW; or LRU_NO_MEMORY, and the stack must not be used any more. */
int lru_access(struct lru_stack *stack, uint64_t hash, uint32_t weight, uint64_t *above,
               uint32_t *own);

/* Takes out an object that is there. */
void lru_remove(struct lru_stack *stack, uint64_t hash);

/* Ask for the memory that lru_access will need: first its slot, later its place in the tree. */
static inline void lru_prefetch_slot(const struct lru_stack *stack, uint64_t hash)
{
    __builtin_prefetch(&stack->objects[hash & (stack->slots - 1)], 1);
}

static inline void lru_prefetch_position(const struct lru_stack *stack, uint64_t hash)
{
    uint32_t position = stack->objects[hash & (stack->slots - 1)].position;
    __builtin_prefetch(&stack->tree[(position >> LRU_BLOCK_BITS) + 1], 1);
    __builtin_prefetch(&stack->live_bits[position >> LRU_BLOCK_BITS], 1);
}

#endif
