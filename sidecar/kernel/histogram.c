/* Counts of reads by stack distance, all together and by groups of objects, as
 * sidecar/curves/miss_ratio_histogram.py keeps them. */

#include <stdint.h>
#include <string.h>

/* The exponent of a double that is neither negative nor tiny. */
static int octave_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)(bits >> 52);
}

/* Adds reads; `edges` are the upper ends of the buckets, ascending, `per_octave` of them until they
 * double. What is above the last falls into one more bucket. */
void spreds_histogram_add(const double *edges, uint64_t edge_count, uint64_t per_octave,
                          const double *distances, const uint64_t *ids, uint64_t count,
                          double weight, double *counts, double *groups, uint64_t group_count,
                          uint64_t group_width, uint64_t group_shift, uint64_t coarse)
{
    int first = octave_of(edges[0]);
    for (uint64_t i = 0; i < count; i++) {
        double distance = distances[i];
        uint64_t bucket = 0;
        if (distance > edges[edge_count - 1]) {
            bucket = edge_count;
        } else if (distance > edges[0]) {
            /* Within its octave, by halves: edges[low] < distance <= edges[high]. */
            uint64_t low = (uint64_t)(octave_of(distance) - first) * per_octave;
            uint64_t high = low + per_octave;
            if (low >= edge_count || edges[low] >= distance) {
                high = low;
                low -= per_octave;
            }
            while (high - low > 1) {
                uint64_t middle = (low + high) / 2;
                if (edges[middle] < distance) low = middle;
                else high = middle;
            }
            bucket = high;
        }
        counts[bucket] += weight;
        uint64_t group = (ids[i] >> group_shift) % group_count;
        groups[group * group_width + (bucket + coarse - 1) / coarse] += weight;
    }
}
