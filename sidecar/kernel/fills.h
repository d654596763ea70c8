/* Misses, and hits, that wait for the write of the same key. */

#ifndef SPREDS_FILLS_H
#define SPREDS_FILLS_H

#include <stdint.h>

/* Waits of 2^i up to 2^(i + 1) microseconds are in bin i; those that were given up in the last. */
enum { WAIT_BINS = 27 };

/* How waits ended: by a write, with their seconds in all, or otherwise. */
struct waits {
    double written[WAIT_BINS];
    double written_seconds[WAIT_BINS];
    double unwritten[WAIT_BINS];
};

struct fills;

/* Of misses, and then of hits; it lives as long as the fills, and counts on. */
struct waits *spreds_fills_waits(struct fills *f);

/* Takes accesses in order, and then gives up those that have waited for longer than `longest_us` at
 * `now_us`, and the oldest of more than `most` misses, or hits. Returns 0, or -1 without memory. */
int spreds_fills_take(struct fills *f, const uint64_t *keys, const uint8_t *operations,
                      const double *times_us, uint64_t count, double now_us, double longest_us,
                      uint64_t most);

#endif
