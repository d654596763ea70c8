/* A heap of times: due_heap.h. Of equal ones the order is that of tests/oracles/due_expiries.py. */

#include "due_heap.h"

#include <stdlib.h>

static int before(const struct due *a, const struct due *b)
{
    if (a->at != b->at) return a->at < b->at;
    return a->key != b->key ? a->key < b->key : a->expires_at < b->expires_at;
}

int due_push(struct due_heap *heap, struct due due)
{
    if (heap->count == heap->room) {
        uint64_t room = heap->room ? 2 * heap->room : 256;
        struct due *all = realloc(heap->all, room * sizeof *all);
        if (!all) return -1;
        heap->all = all;
        heap->room = room;
    }
    uint64_t i = heap->count++;
    for (; i && before(&due, &heap->all[(i - 1) / 2]); i = (i - 1) / 2)
        heap->all[i] = heap->all[(i - 1) / 2];
    heap->all[i] = due;
    return 0;
}

struct due due_pop(struct due_heap *heap)
{
    struct due top = heap->all[0], last = heap->all[--heap->count];
    uint64_t i = 0;
    for (;;) {
        uint64_t child = 2 * i + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && before(&heap->all[child + 1], &heap->all[child])) child++;
        if (!before(&heap->all[child], &last)) break;
        heap->all[i] = heap->all[child];
        i = child;
    }
    heap->all[i] = last;
    return top;
}
