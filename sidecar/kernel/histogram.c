/* Many reads at once: histogram.h. */

#include "histogram.h"

void spreds_histogram_add(const struct histogram *h, const double *distances, const uint64_t *ids,
                          uint64_t count, double weight)
{
    for (uint64_t i = 0; i < count; i++) histogram_count(h, distances[i], ids[i], weight);
}
