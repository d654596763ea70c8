/* What the TTLs of one server's objects change in the distances of its reads. */

#ifndef SPREDS_LIFETIMES_H
#define SPREDS_LIFETIMES_H

#include "timed_objects.h"

/* A read that is to be counted at another size. */
struct move {
    double size_bytes;
    uint64_t key;
};

/* Of lifetimes that are not told, Python knows: draw(age) gives one, or INFINITY. */
typedef double draw_function(double age_seconds);
typedef void add_function(double seconds, int expired);

struct lifetimes {
    struct timed_objects objects;

    /* What the accesses that were taken last correct. */
    struct move *added, *removed;
    uint64_t added_count, removed_count, move_room;

    double delay_seconds;
    double shortest_seconds;
    draw_function *draw;
    add_function *add;
};

/* Takes accesses in order; distances are those of the reads, one after the other. What they correct
 * stands until the next call. Returns 0, or -1 without memory. */
int spreds_lifetimes_take(struct lifetimes *l, const uint64_t *keys, const uint8_t *operations,
                          const double *left_seconds, const double *distances_bytes,
                          const double *times_seconds, uint64_t count, double resident_bytes);

/* The next object that has expired in caches of every size until now; 0 when there is none. */
int spreds_lifetimes_due(struct lifetimes *l, double now_seconds, uint64_t *key);

uint64_t spreds_lifetimes_alive(const struct lifetimes *l);

#endif
