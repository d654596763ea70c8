/* A table of objects with a TTL, and a heap of when they expire: timed_objects.h. */

#include "timed_objects.h"

#define SPARE_ENTRIES 256 /* as in tests/oracles/due_expiries.py */

/* `is_due` of an object whose entry has been found to stay, while others are dropped: it may stand in
 * the heap twice. */
enum { DROPPING = 2 };

int objects_init(struct timed_objects *o)
{
    *o = (struct timed_objects){0};
    return key_map_init(&o->map);
}

void objects_free(struct timed_objects *o)
{
    key_map_free(&o->map);
    free(o->all);
    free(o->due.all);
}

struct timed_object *object_made(struct timed_objects *o, uint64_t key)
{
    struct key_place *place = key_map_find(&o->map, key);
    if (place->number) return &o->all[place->number - 1];
    if (o->count == o->room) {
        uint64_t room = o->room ? 2 * o->room : 256;
        struct timed_object *all = realloc(o->all, room * sizeof *all);
        if (!all) return NULL;
        o->all = all;
        o->room = room;
    }
    if (!key_map_put(&o->map, place, key, o->count + 1)) return NULL;
    o->all[o->count] = (struct timed_object){.key = key};
    return &o->all[o->count++];
}

/* ---------------------------------------------------------------- what is due */

static int is_newest(const struct timed_object *object, const struct due *due)
{
    return object->is_due && object->due_at == due->at &&
           object->due_expires_at == due->expires_at;
}

static int is_last(const struct timed_object *object, double expires_at)
{
    return object->copies.count && copies_last(&object->copies) == expires_at;
}

/* Forgets all entries that do not count. */
static void drop_stale(struct timed_objects *o)
{
    uint64_t left = o->due.count;
    o->due.count = 0;
    for (uint64_t i = 0; i < left; i++) {
        struct due one = o->due.all[i];
        struct timed_object *object = object_of(o, one.key);
        if (!object || object->is_due == DROPPING || !is_newest(object, &one)) continue;
        if (!is_last(object, one.expires_at)) {
            object->is_due = 0;
            continue;
        }
        object->is_due = DROPPING;
        due_push(&o->due, one); /* there were more: there is room */
    }
    for (uint64_t i = 0; i < o->due.count; i++) object_of(o, o->due.all[i].key)->is_due = 1;
}

int object_is_due(struct timed_objects *o, struct timed_object *object, double expires_at, double at)
{
    if (!object->is_due || object->due_expires_at != expires_at) {
        object->is_due = 1;
        object->due_at = at;
        object->due_expires_at = expires_at;
        if (due_push(&o->due, (struct due){at, object->key, expires_at})) return -1;
    }
    if (o->due.count > 2 * o->alive + SPARE_ENTRIES) drop_stale(o);
    return 0;
}

int objects_next_due(struct timed_objects *o, double now, uint64_t *key)
{
    while (o->due.count && o->due.all[0].at <= now) {
        struct due due = due_pop(&o->due);
        struct timed_object *object = object_of(o, due.key);
        if (!object || !is_newest(object, &due)) continue;
        object->is_due = 0;
        if (!is_last(object, due.expires_at)) continue;
        object_drop(o, object);
        *key = due.key;
        return 1;
    }
    return 0;
}

void objects_keep_only(struct timed_objects *o, const uint64_t *keys, uint64_t count)
{
    uint64_t kept = 0;
    key_map_clear(&o->map);
    o->alive = 0;
    for (uint64_t i = 0; i < o->count; i++) {
        uint64_t low = 0, high = count;
        while (low < high) {
            uint64_t middle = (low + high) / 2;
            if (keys[middle] < o->all[i].key) low = middle + 1;
            else high = middle;
        }
        if (low == count || keys[low] != o->all[i].key) continue;
        o->all[kept++] = o->all[i];
        o->alive += o->all[kept - 1].copies.count != 0;
        uint64_t key = o->all[kept - 1].key;
        key_map_put(&o->map, key_map_find(&o->map, key), key, kept); /* fewer than before */
    }
    o->count = kept;
    drop_stale(o);
}
