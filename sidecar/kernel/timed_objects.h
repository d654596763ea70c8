/* The objects with a TTL of one server: what is known of each, and which of them expire next. */

#ifndef SPREDS_TIMED_OBJECTS_H
#define SPREDS_TIMED_OBJECTS_H

#include "copies_by_size.h"
#include "due_heap.h"
#include "key_map.h"

struct timed_object {
    uint64_t key;
    uint8_t is_given, is_filled, is_missed;
    uint8_t is_due; /* its newest entry stands in the heap; see DROPPING */
    double given_seconds;
    double filled_at;
    double missed; /* when copies of it expire that have just been made */
    struct copies copies;
    double due_at, due_expires_at; /* of that entry, the only one that counts */
};

struct timed_objects {
    struct key_map map; /* to the place after that of each object */
    struct timed_object *all;
    uint64_t count, room;
    uint64_t alive; /* objects that have a copy */
    struct due_heap due;
};

/* Returns 0, or -1 without memory. */
int objects_init(struct timed_objects *o);
void objects_free(struct timed_objects *o);

/* NULL: the key is not known. */
static inline struct timed_object *object_of(const struct timed_objects *o, uint64_t key)
{
    uint64_t number = key_map_find(&o->map, key)->number;
    return number ? &o->all[number - 1] : NULL;
}

/* Asks for the memory that object_of gives; key_map_prefetch comes before. */
static inline void object_prefetch(const struct timed_objects *o, uint64_t key)
{
    const struct timed_object *object = object_of(o, key);
    if (!object) return;
    __builtin_prefetch(object, 1);
    __builtin_prefetch((const char *)object + 64, 1);
}

/* The same, which knows the key from now on. Returns NULL without memory. */
struct timed_object *object_made(struct timed_objects *o, uint64_t key);

/* There is one copy in caches of all sizes. */
static inline void object_copy(struct timed_objects *o, struct timed_object *object,
                               double expires_at)
{
    if (!object->copies.count) o->alive++;
    copies_set(&object->copies, expires_at);
}

/* There is no copy of it any more. */
static inline void object_drop(struct timed_objects *o, struct timed_object *object)
{
    if (!object) return;
    if (object->copies.count) o->alive--;
    object->copies.count = 0;
    object->is_missed = object->is_filled = 0;
}

/* Its last copies, which expire then, are to be taken out at `at`. Returns 0, or -1 without memory. */
int object_is_due(struct timed_objects *o, struct timed_object *object, double expires_at, double at);

/* Drops the next object whose time has come, and tells its key; 0: there is none. */
int objects_next_due(struct timed_objects *o, double now, uint64_t *key);

/* Forgets all objects but those, which are sorted. */
void objects_keep_only(struct timed_objects *o, const uint64_t *keys, uint64_t count);

#endif
