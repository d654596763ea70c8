/* For libFuzzer: the stack of `spreds mrc` beside one that is plainly right. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition) \
    do { \
        if (!(condition)) abort(); \
    } while (0)
#define MOST_KEYS 400

struct mrc;
struct mrc *spreds_mrc_new(int in_bytes, uint64_t threshold, uint64_t limit, uint64_t salt);
void spreds_mrc_free(struct mrc *m);
int spreds_mrc_take(struct mrc *m, const char *keys, int64_t key_stride, const char *sizes,
                    int64_t size_stride, uint64_t count);
int spreds_mrc_take_cache2k(struct mrc *m, const char *keys, uint64_t count);
uint64_t spreds_mrc_bins(const struct mrc *m, uint64_t *distances, double *counts, uint64_t room);
double spreds_mrc_cold(const struct mrc *m);
uint64_t spreds_mrc_requests(const struct mrc *m);
uint64_t spreds_mrc_sampled(const struct mrc *m);
uint64_t spreds_mrc_live(const struct mrc *m);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Exact distances in objects, one by one: how much else was asked for since. */
static void check_exact(const uint8_t *keys, uint64_t count, const uint64_t *distances,
                        const double *counts, uint64_t bins, double cold) {
    double expected[MOST_KEYS + 2] = {0}, expected_cold = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t j = i, distance = 1;
        while (j > 0 && keys[j - 1] != keys[i]) j--;
        if (j == 0) {
            expected_cold++;
            continue;
        }
        for (uint64_t k = j; k < i; k++) {
            uint64_t first = k;
            for (uint64_t l = j; l < k; l++) {
                if (keys[l] == keys[k]) first = l;
            }
            distance += first == k;
        }
        expected[distance]++;
    }
    MUST(cold == expected_cold);
    for (uint64_t i = 0; i < bins; i++) {
        MUST(distances[i] <= count && counts[i] == expected[distances[i]]);
        expected[distances[i]] = 0;
    }
    for (uint64_t i = 0; i <= count; i++) MUST(expected[i] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 6) return 0;
    int in_bytes = data[0] & 1, as_cache2k = data[0] & 2, is_exact = !(data[0] & 4) && !in_bytes;
    uint64_t threshold = is_exact ? 0 : (uint64_t)data[1] << 56 | data[2];
    uint64_t limit = is_exact ? 0 : data[3] % 40, count = size - 6 < MOST_KEYS ? size - 6 : MOST_KEYS;
    /* Keys and sizes at any alignment, with nothing behind them. */
    uint64_t stride = as_cache2k ? 4 : 8 + data[4] % 9, key_bytes = as_cache2k ? 4 : 8;
    char *keys = calloc(1, count ? (count - 1) * stride + key_bytes : 1);
    char *sizes = malloc(count * 4 + 1);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t weight = data[6 + i] * (data[5] * UINT32_C(65537));
        keys[i * stride] = (char)data[6 + i];
        memcpy(sizes + i * 4, &weight, 4);
    }
    struct mrc *m = spreds_mrc_new(in_bytes, threshold, limit, data[5]);
    MUST(m);
    if (as_cache2k) MUST(!spreds_mrc_take_cache2k(m, keys, count));
    else MUST(!spreds_mrc_take(m, keys, (int64_t)stride, data[0] & 8 ? sizes : NULL, 4, count));
    MUST(spreds_mrc_requests(m) == count && spreds_mrc_sampled(m) <= count);
    MUST(!limit || spreds_mrc_live(m) <= limit);
    uint64_t bins = spreds_mrc_bins(m, NULL, NULL, 0);
    uint64_t *distances = malloc(bins * sizeof *distances + 1);
    double *counts = malloc(bins * sizeof *counts + 1);
    MUST(spreds_mrc_bins(m, distances, counts, bins) == bins);
    for (uint64_t i = 1; i < bins; i++) MUST(distances[i] > distances[i - 1]);
    if (is_exact) check_exact(data + 6, count, distances, counts, bins, spreds_mrc_cold(m));
    spreds_mrc_free(m);
    free(keys), free(sizes), free(distances), free(counts);
    return 0;
}
