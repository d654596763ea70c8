/* From keys to numbers: open addressing, linear probing, at most half full.
 *
 *     struct key_map map;
 *     if (key_map_init(&map)) ...no memory...
 *     struct key_place *place = key_map_find(&map, key);
 *     if (place->number == KEY_NOWHERE && !(place = key_map_put(&map, place, key, number))) ...
 *     key_map_take_out(&map, place);
 *     key_map_free(&map); */

#ifndef SPREDS_KEY_MAP_H
#define SPREDS_KEY_MAP_H

#include "hash.h"

#include <stdlib.h>

#define KEY_NOWHERE 0 /* so numbers are from 1 */

struct key_place {
    uint64_t key;
    uint64_t number;
};

struct key_map {
    struct key_place *places;
    uint64_t room;
    uint64_t count;
};

/* Returns 0, or -1 without memory. */
static inline int key_map_init(struct key_map *map)
{
    *map = (struct key_map){.room = 1024};
    map->places = calloc(map->room, sizeof *map->places);
    return map->places ? 0 : -1;
}

static inline void key_map_free(struct key_map *map) { free(map->places); }

static inline void key_map_clear(struct key_map *map)
{
    memset(map->places, 0, map->room * sizeof *map->places);
    map->count = 0;
}

/* Where the key is, or would be: then the number is KEY_NOWHERE. */
static inline struct key_place *key_map_find(const struct key_map *map, uint64_t key)
{
    uint64_t i = mix(key) & (map->room - 1);
    while (map->places[i].number != KEY_NOWHERE && map->places[i].key != key)
        i = (i + 1) & (map->room - 1);
    return &map->places[i];
}

/* Asks for the memory that key_map_find will need. */
static inline void key_map_prefetch(const struct key_map *map, uint64_t key)
{
    __builtin_prefetch(&map->places[mix(key) & (map->room - 1)], 1);
}

/* Puts a key in that is not there, at the place where it was not found. Returns its place, or NULL
 * without memory. */
static inline struct key_place *key_map_put(struct key_map *map, struct key_place *place,
                                            uint64_t key, uint64_t number)
{
    if (2 * (map->count + 1) > map->room) {
        struct key_map larger = {.room = 2 * map->room, .count = map->count};
        larger.places = calloc(larger.room, sizeof *larger.places);
        if (!larger.places) return NULL;
        for (uint64_t i = 0; i < map->room; i++)
            if (map->places[i].number != KEY_NOWHERE)
                *key_map_find(&larger, map->places[i].key) = map->places[i];
        free(map->places);
        *map = larger;
        place = key_map_find(map, key);
    }
    *place = (struct key_place){key, number};
    map->count++;
    return place;
}

/* Without tombstones: later members of the run move up. */
static inline void key_map_take_out(struct key_map *map, struct key_place *gone)
{
    uint64_t mask = map->room - 1, hole = (uint64_t)(gone - map->places);
    for (uint64_t i = (hole + 1) & mask; map->places[i].number != KEY_NOWHERE; i = (i + 1) & mask) {
        uint64_t home = mix(map->places[i].key) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->places[hole] = map->places[i];
            hole = i;
        }
    }
    map->places[hole].number = KEY_NOWHERE;
    map->count--;
}

#endif
