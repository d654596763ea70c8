/* Misses that wait for the write of the same key. */

#ifndef SPREDS_FILLS_H
#define SPREDS_FILLS_H

#include <stdint.h>

struct fills;

/* What one call has counted: fills, misses without one, and seconds from miss to fill, summed up. */
struct counted {
    double fills;
    double unfilled;
    double seconds;
};

/* Takes accesses in order, of which only misses and writes matter, and then gives up those misses that
 * have waited for longer than `longest_us` at `now_us`, and the oldest of more than `most`. Returns 0,
 * or -1 without memory. */
int spreds_fills_take(struct fills *f, const uint64_t *keys, const uint8_t *operations,
                      const double *times_us, uint64_t count, double now_us, double longest_us,
                      uint64_t most, struct counted *counted);

#endif
