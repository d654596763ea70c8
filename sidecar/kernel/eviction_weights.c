/* Which sizes of exact LRU stand for a cache that evicts by samples: sidecar/curves/sampled_eviction.py
 * says why. In numpy a loop's curve takes 40 ms, and at random 150: each size converges by itself. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MOST_STEPS 256
/* A loop that hardly fits converges slowly, all else in three or four rounds. */
#define ROUNDS 40
#define CONVERGED 1e-4
#define LEAST_RATIO 1e-12

/* The share of the objects that is lost in each of `steps` steps; returns what the cache misses by
 * that. `beyond` are the miss ratios of exact LRU there, `ratio` that of the cache itself. */
static double follow(const double *beyond, uint64_t steps, double ratio, double samples,
                     double width, double *lost) {
    double behind = 1 / samples; /* the part of the cache that is older */
    double surviving = 1, missed = 0;
    for (uint64_t step = 0; step + 1 < steps; step++) {
        double evictions = ratio / fmax(beyond[step], LEAST_RATIO);
        double left = surviving * exp(-samples * width * evictions);
        lost[step] = surviving - left;
        missed += lost[step] * beyond[step];
        surviving = left;
        behind = fmax(0, behind - width * (1 - evictions + samples * behind * evictions));
    }
    lost[steps - 1] = surviving;
    return missed + surviving * beyond[steps - 1];
}

/* Fills `weights`, shape (sizes, offsets): of the curve's values around each size. `exact` is the curve
 * of exact LRU, `full` how much of the time a cache of each size was full. A step lies between the
 * offsets `low` and the next one, by `between`; offset `none` is the size itself. Returns 0, or -1 if
 * there are too many steps. */
int spreds_eviction_weights(const double *exact, const double *full, uint64_t sizes,
                            uint64_t samples, double width, const int64_t *low,
                            const double *between, uint64_t steps, uint64_t none, uint64_t offsets,
                            double *weights) {
    double beyond[MOST_STEPS], lost[MOST_STEPS];
    if (steps > MOST_STEPS || !steps) return -1;
    memset(weights, 0, sizes * offsets * sizeof *weights);
    for (uint64_t size = 0; size < sizes; size++) {
        double *row = weights + size * offsets;
        for (uint64_t step = 0; step < steps; step++) {
            int64_t place = (int64_t)size + low[step] - (int64_t)none, end = (int64_t)sizes - 1;
            int64_t at = place < 0 ? 0 : place > end ? end : place;
            int64_t next = place + 1 < 0 ? 0 : place + 1 > end ? end : place + 1;
            beyond[step] = (1 - between[step]) * exact[at] + between[step] * exact[next];
        }
        row[none] = 1;
        /* Where the curve is flat, nothing is bent. */
        if (!(beyond[0] > beyond[steps - 1]) || !(full[size] > 0)) continue;
        double ratio = exact[size];
        for (int round = 0; round < ROUNDS; round++) {
            double before = ratio;
            ratio = follow(beyond, steps, before, (double)samples, width, lost);
            if (fabs(ratio - before) < CONVERGED) break;
        }
        row[none] = 1 - full[size];
        for (uint64_t step = 0; step < steps; step++) {
            row[low[step]] += full[size] * lost[step] * (1 - between[step]);
            row[low[step] + 1] += full[size] * lost[step] * between[step];
        }
    }
    return 0;
}
