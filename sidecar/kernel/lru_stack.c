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

static inline void add(struct lru_stack *stack, uint64_t position, uint64_t weight)
{
    for (; position <= stack->positions; position += position & -position)
        stack->tree[position] += weight;
}

static inline uint64_t sum(const struct lru_stack *stack, uint64_t position)
{
    uint64_t weight = 0;
    for (; position; position &= position - 1) weight += stack->tree[position];
    return weight;
}

static void leave_position(struct lru_stack *stack, const struct lru_object *object)
{
    add(stack, object->position, -(uint64_t)object->weight);
    stack->is_live[object->position] = 0;
    stack->total_weight -= object->weight;
}

/* Numbers the live objects anew, with room for as many accesses as there are objects, at least. */
static int renumber(struct lru_stack *stack)
{
    uint64_t positions = LEAST_POSITIONS;
    while (positions < 2 * stack->live) positions *= 2;
    if (positions >= UINT32_MAX) return LRU_NO_MEMORY;
    uint64_t *hashes = malloc((positions + 1) * sizeof *hashes);
    uint64_t *tree = calloc(positions + 1, sizeof *tree);
    uint8_t *is_live = calloc(positions + 1, 1);
    if (!hashes || !tree || !is_live) {
        free(hashes);
        free(tree);
        free(is_live);
        return LRU_NO_MEMORY;
    }
    uint64_t count = 0;
    for (uint64_t i = 1; i < stack->next_position; i++) {
        if (!stack->is_live[i]) continue;
        struct lru_object *object = find(stack, stack->hash_at[i]);
        object->position = (uint32_t)++count;
        hashes[count] = object->hash;
        is_live[count] = 1;
        tree[count] = object->weight;
    }
    for (uint64_t i = 1; i <= positions; i++) {
        uint64_t parent = i + (i & -i);
        if (parent <= positions) tree[parent] += tree[i];
    }
    free(stack->hash_at);
    free(stack->tree);
    free(stack->is_live);
    stack->hash_at = hashes;
    stack->tree = tree;
    stack->is_live = is_live;
    stack->positions = positions;
    stack->next_position = count + 1;
    return 0;
}

/* ---------------------------------------------------------------- interface */

int lru_init(struct lru_stack *stack, uint64_t expected)
{
    *stack = (struct lru_stack){.slots = LEAST_SLOTS, .next_position = 1};
    while (stack->slots < 2 * (expected + 1)) stack->slots *= 2;
    stack->objects = calloc(stack->slots, sizeof *stack->objects);
    return stack->objects ? renumber(stack) : LRU_NO_MEMORY;
}

void lru_free(struct lru_stack *stack)
{
    free(stack->objects);
    free(stack->tree);
    free(stack->hash_at);
    free(stack->is_live);
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
    stack->is_live[object->position] = 1;
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
