/* The copies of one object by the size of the cache: copies_by_size.h. */

#include "copies_by_size.h"

#include <math.h>
#include <string.h>

static double end_of(const struct copies *copies, uint64_t copy)
{
    return copy + 1 < copies->count ? copies->all[copy + 1].from_bytes : INFINITY;
}

double copies_at_size(const struct copies *copies, double size_bytes)
{
    double expires_at = copies->all[0].expires_at;
    for (uint64_t i = 0; i < copies->count; i++) {
        if (copies->all[i].from_bytes > size_bytes) break;
        expires_at = copies->all[i].expires_at;
    }
    return expires_at;
}

double copies_last(const struct copies *copies)
{
    double last = copies->all[0].expires_at;
    for (uint64_t i = 1; i < copies->count; i++)
        if (copies->all[i].expires_at > last) last = copies->all[i].expires_at;
    return last;
}

uint32_t copies_alive(const struct copies *copies, double distance, double at_least,
                      struct interval hits[MOST_COPIES])
{
    uint32_t count = 0;
    for (uint64_t i = 0; i < copies->count; i++) {
        double start = copies->all[i].from_bytes, end = end_of(copies, i);
        if (end <= distance || copies->all[i].expires_at < at_least - TTL_GRAIN_SECONDS) continue;
        if (start < distance) start = distance;
        if (count && hits[count - 1].end == start) hits[count - 1].end = end;
        else hits[count++] = (struct interval){start, end};
    }
    return count;
}

/* At the end of `copies`, unless its neighbour there expires at the same time. */
static void put(struct copy *copies, uint32_t *made, double from_bytes, double expires_at)
{
    if (copies[*made - 1].expires_at == expires_at) return;
    copies[(*made)++] = (struct copy){from_bytes, expires_at};
}

void copies_refill(struct copies *copies, const struct interval *hits, uint32_t count,
                   double expires_at)
{
    struct copy anew[2 * MOST_COPIES + 1];
    uint32_t made = 1;
    anew[0] = (struct copy){0.0, expires_at};
    for (uint32_t hit = 0; hit < count; hit++) {
        for (uint64_t i = 0; i < copies->count; i++) {
            double low = copies->all[i].from_bytes, high = end_of(copies, i);
            if (low < hits[hit].start) low = hits[hit].start;
            if (high > hits[hit].end) high = hits[hit].end;
            if (low < high) put(anew, &made, low, copies->all[i].expires_at);
        }
        if (hits[hit].end < INFINITY) put(anew, &made, hits[hit].end, expires_at);
    }
    uint32_t left_out = made > MOST_COPIES ? made - MOST_COPIES : 0;
    copies->all[0] = anew[0];
    memcpy(copies->all + 1, anew + 1 + left_out, (made - 1 - left_out) * sizeof *anew);
    copies->count = made - left_out;
}
