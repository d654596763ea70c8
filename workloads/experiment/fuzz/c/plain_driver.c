/* Stands in for libFuzzer where there is only gcc: gives a target the same inputs each time, drawn
 * from a seed, some of them from one before.
 *
 *   TARGET RUNS SEED */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 2048
#define KEPT 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state;

static uint64_t draw(uint64_t below) { /* SplitMix64 */
    uint64_t x = state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return (x ^ x >> 31) % below;
}

static uint8_t draw_byte(void) {
    static const char likely[] = "0123456789,,,\n\n\n. GETipc://tcp://127.0.0.1:80-+e\r\t";
    return draw(3) ? (uint8_t)likely[draw(sizeof likely)] : (uint8_t)draw(256);
}

int main(int count, char **words) {
    static struct {
        uint8_t bytes[MOST_BYTES];
        size_t size;
    } kept[KEPT];
    if (count != 3) {
        fprintf(stderr, "usage: %s RUNS SEED\n", words[0]);
        return 2;
    }
    state = strtoull(words[2], NULL, 10);
    for (uint64_t runs = strtoull(words[1], NULL, 10); runs--;) {
        uint64_t place = draw(KEPT);
        if (!kept[place].size || !draw(4)) {
            kept[place].size = 1 + draw(draw(8) ? 128 : MOST_BYTES);
            for (size_t i = 0; i < kept[place].size; i++) kept[place].bytes[i] = draw_byte();
        }
        for (uint64_t changes = draw(4); changes--;) {
            kept[place].bytes[draw(kept[place].size)] = draw_byte();
        }
        /* With nothing behind it. */
        uint8_t *data = malloc(kept[place].size);
        memcpy(data, kept[place].bytes, kept[place].size);
        LLVMFuzzerTestOneInput(data, kept[place].size);
        free(data);
    }
    return 0;
}
