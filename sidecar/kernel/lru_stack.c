/* See lru_stack.h. */

#include "lru_stack.h"

#include <stdlib.h>

#define LEAST_SLOTS 1024
#define LEAST_POSITIONS 4096

/* ---------------------------------------------------------------- hash table */

static inline struct lru_object *find(const struct lru_stack *stack, uint64_t hash)
{
    uint64_t slot = hash & (stack->slots - 1);
    while (stack->objects[slot].position && stack->objects[slot].hash != hash)
        slot = (slot + 1) & (stack->slots - 1);
    return &stack->objects[slot];
}

static int grow_table(struct lru_stack *stack)
{
    struct lru_object *old = stack->objects;
    uint64_t old_slots = stack->slots;
    struct lru_object *new = calloc(old_slots * 2, sizeof *new);
    if (!new) return LRU_NO_MEMORY;
    stack->objects = new;
    stack->slots = old_slots * 2;
    for (uint64_t i = 0; i < old_slots; i++)
        if (old[i].position) *find(stack, old[i].hash) = old[i];
    free(old);
    return 0;
}

/* Linear probing without tombstones: later members of the run move up. */
static void empty_slot(struct lru_stack *stack, struct lru_object *gone)
{
    uint64_t mask = stack->slots - 1;
    uint64_t hole = (uint64_t)(gone - stack->objects);
    for (uint64_t i = (hole + 1) & mask; stack->objects[i].position; i = (i + 1) & mask) {
        uint64_t home = stack->objects[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            stack->objects[hole] = stack->objects[i];
            hole = i;
        }
    }
    stack->objects[hole].position = 0;
    stack->live--;
}

/* ---------------------------------------------------------------- positions */

static inline uint64_t blocks(const struct lru_stack *stack)
{
    return (stack->positions >> LRU_BLOCK_BITS) + 1;
}

static inline void add(struct lru_stack *stack, uint64_t position, uint64_t weight)
{
    uint64_t block = (position >> LRU_BLOCK_BITS) + 1, count = blocks(stack);
    for (; block <= count; block += block & -block) stack->tree[block] += weight;
}

/* The weight from position 1 up to this one, which is taken. */
static inline uint64_t sum(const struct lru_stack *stack, uint64_t position)
{
    uint64_t weight = 0, block = position >> LRU_BLOCK_BITS;
    uint64_t bits = stack->live_bits[block] << (63 - (position & 63)) >> (63 - (position & 63));
    if (stack->is_even) {
        weight = (uint64_t)__builtin_popcountll(bits);
    } else {
        for (; bits; bits &= bits - 1)
            weight += stack->weight_at[(block << LRU_BLOCK_BITS) + (uint64_t)__builtin_ctzll(bits)];
    }
    for (; block; block &= block - 1) weight += stack->tree[block];
    return weight;
}

static inline void set_live(struct lru_stack *stack, uint64_t position)
{
    stack->live_bits[position >> LRU_BLOCK_BITS] |= (uint64_t)1 << (position & 63);
}

static inline int is_live(const struct lru_stack *stack, uint64_t position)
{
    return stack->live_bits[position >> LRU_BLOCK_BITS] >> (position & 63) & 1;
}

static void leave_position(struct lru_stack *stack, const struct lru_object *object)
{
    add(stack, object->position, -(uint64_t)object->weight);
    stack->live_bits[object->position >> LRU_BLOCK_BITS] &= ~((uint64_t)1 << (object->position & 63));
    stack->total_weight -= object->weight;
}

static void free_positions(struct lru_stack *stack)
{
    free(stack->hash_at);
    free(stack->weight_at);
    free(stack->live_bits);
    free(stack->tree);
}

/* Numbers the live objects anew, with room for as many accesses as there are objects, at least. */
static int renumber(struct lru_stack *stack)
{
    uint64_t positions = LEAST_POSITIONS;
    while (positions < 2 * stack->live) positions *= 2;
    if (positions >= UINT32_MAX) return LRU_NO_MEMORY;
    struct lru_stack old = *stack;
    stack->positions = positions;
    stack->hash_at = malloc((positions + 1) * sizeof *stack->hash_at);
    stack->weight_at = malloc((positions + 1) * sizeof *stack->weight_at);
    stack->live_bits = calloc(blocks(stack), sizeof *stack->live_bits);
    stack->tree = calloc(blocks(stack) + 1, sizeof *stack->tree);
    if (!stack->hash_at || !stack->weight_at || !stack->live_bits || !stack->tree) {
        free_positions(stack);
        *stack = old;
        return LRU_NO_MEMORY;
    }
    uint64_t count = 0;
    for (uint64_t i = 1; i < old.next_position; i++) {
        if (!is_live(&old, i)) continue;
        struct lru_object *object = find(stack, old.hash_at[i]);
        object->position = (uint32_t)++count;
        stack->hash_at[count] = object->hash;
        stack->weight_at[count] = object->weight;
        set_live(stack, count);
        stack->tree[(count >> LRU_BLOCK_BITS) + 1] += object->weight;
    }
    for (uint64_t i = 1; i <= blocks(stack); i++) {
        uint64_t parent = i + (i & -i);
        if (parent <= blocks(stack)) stack->tree[parent] += stack->tree[i];
    }
    free_positions(&old);
    stack->next_position = count + 1;
    return 0;
}

/* ---------------------------------------------------------------- interface */

int lru_init(struct lru_stack *stack, uint64_t expected)
{
    *stack = (struct lru_stack){.slots = LEAST_SLOTS, .next_position = 1, .is_even = 1};
    while (stack->slots < 2 * (expected + 1)) stack->slots *= 2;
    stack->objects = calloc(stack->slots, sizeof *stack->objects);
    return stack->objects ? renumber(stack) : LRU_NO_MEMORY;
}

void lru_free(struct lru_stack *stack)
{
    free(stack->objects);
    free_positions(stack);
}

int lru_access(struct lru_stack *stack, uint64_t hash, uint32_t weight, uint64_t *above,
               uint32_t *own)
{
    if (stack->next_position > stack->positions && renumber(stack)) return LRU_NO_MEMORY;
    struct lru_object *object = find(stack, hash);
    int found = object->position != 0;
    if (found) {
        *above = stack->total_weight - sum(stack, object->position);
        *own = object->weight;
        if (object->position + 1 == stack->next_position && object->weight == weight)
            return LRU_FOUND; /* it is the most recent already */
        leave_position(stack, object);
    } else {
        if (2 * (stack->live + 1) > stack->slots) {
            if (grow_table(stack)) return LRU_NO_MEMORY;
            object = find(stack, hash);
        }
        object->hash = hash;
        stack->live++;
    }
    object->position = (uint32_t)stack->next_position++;
    object->weight = weight;
    stack->hash_at[object->position] = hash;
    stack->weight_at[object->position] = weight;
    set_live(stack, object->position);
    if (weight != 1) stack->is_even = 0;
    add(stack, object->position, weight);
    stack->total_weight += weight;
    return found ? LRU_FOUND : LRU_NEW;
}

void lru_remove(struct lru_stack *stack, uint64_t hash)
{
    struct lru_object *object = find(stack, hash);
    leave_position(stack, object);
    empty_slot(stack, object);
}
