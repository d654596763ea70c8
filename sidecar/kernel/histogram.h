/* Counts of reads by stack distance, all together and by groups of objects, as
 * sidecar/curves/miss_ratio_histogram.py keeps them. */

#ifndef SPREDS_HISTOGRAM_H
#define SPREDS_HISTOGRAM_H

#include <stdint.h>
#include <string.h>

/* `edges` are the upper ends of the buckets, ascending, `per_octave` of them until they double; what is
 * above the last falls into one more bucket. The same fields, in this order, as in structures.py. */
struct histogram {
    const double *edges;
    uint64_t edge_count;
    uint64_t per_octave;
    uint64_t group_count;
    uint64_t group_width;
    uint64_t group_shift;
    uint64_t coarse;
    double *counts;
    double *groups;
};

/* The first edge that is not below the distance. */
static inline uint64_t bucket_of(const struct histogram *h, double distance)
{
    if (distance > h->edges[h->edge_count - 1]) return h->edge_count;
    if (!(distance > h->edges[0])) return 0;
    uint64_t bits, first;
    memcpy(&bits, &distance, sizeof bits);
    memcpy(&first, h->edges, sizeof first);
    /* About the logarithm of its fraction, off by less than a hundredth. */
    double fraction = (double)(bits & 0xFFFFFFFFFFFFFu) * 0x1p-52;
    double part = fraction * (1.3465 - 0.3465 * fraction);
    uint64_t bucket = ((bits >> 52) - (first >> 52)) * h->per_octave;
    bucket += (uint64_t)(part * (double)h->per_octave + 0.5);
    if (bucket >= h->edge_count) bucket = h->edge_count - 1;
    while (h->edges[bucket] < distance) bucket++;
    while (bucket && h->edges[bucket - 1] >= distance) bucket--;
    return bucket;
}

static inline void histogram_count(const struct histogram *h, double distance, uint64_t id,
                                   double weight)
{
    uint64_t bucket = bucket_of(h, distance);
    uint64_t group = (id >> h->group_shift) % h->group_count;
    h->counts[bucket] += weight;
    h->groups[group * h->group_width + (bucket + h->coarse - 1) / h->coarse] += weight;
}

#endif
