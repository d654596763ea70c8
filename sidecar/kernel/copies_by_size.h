/* The copies that caches of different sizes have of one object: when each of them expires. The same as
 * tests/oracles/copies_by_size.py, and the intervals of sizes in which one is alive. */

#ifndef SPREDS_COPIES_BY_SIZE_H
#define SPREDS_COPIES_BY_SIZE_H

#include <stdint.h>

#define MOST_COPIES 8 /* as in tests/oracles/copies_by_size.py */
#define TTL_GRAIN_SECONDS 0.001 /* as in tests/oracles/lifetimes.py */

struct copy {
    double from_bytes;
    double expires_at;
};

/* Sizes ascending from 0. Without any, nothing is known of the object. */
struct copies {
    uint64_t count;
    struct copy all[MOST_COPIES];
};

struct interval {
    double start;
    double end;
};

/* In caches of all sizes the same. */
static inline void copies_set(struct copies *copies, double expires_at)
{
    copies->count = 1;
    copies->all[0] = (struct copy){0.0, expires_at};
}

/* When the copy of a cache of this size expires. */
double copies_at_size(const struct copies *copies, double size_bytes);

/* When the last of them expires. */
double copies_last(const struct copies *copies);

/* Intervals of sizes, from `distance` upward, in which a copy lives until `at_least`; how many. */
uint32_t copies_alive(const struct copies *copies, double distance, double at_least,
                      struct interval hits[MOST_COPIES]);

/* There is a new copy in caches of all sizes but `hits`. Of very many, those of small caches are given
 * up. */
void copies_refill(struct copies *copies, const struct interval *hits, uint32_t count,
                   double expires_at);

#endif
