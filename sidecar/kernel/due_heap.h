/* A heap of times, the first on top. */

#ifndef SPREDS_DUE_HEAP_H
#define SPREDS_DUE_HEAP_H

#include <stdint.h>

struct due {
    double at;
    uint64_t key;
    double expires_at;
};

struct due_heap {
    struct due *all;
    uint64_t count, room;
};

/* Returns 0, or -1 without memory. */
int due_push(struct due_heap *heap, struct due due);

/* Takes out the first; there is one. */
struct due due_pop(struct due_heap *heap);

#endif
