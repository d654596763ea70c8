/* For libFuzzer: lines of traces, as the sidecar's kernel parses them. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition) \
    do { \
        if (!(condition)) abort(); \
    } while (0)
#define COLUMNS 9
#define MOST_ROOM 64

uint64_t spreds_lines_parse(const char *text, uint64_t offset, uint64_t length, const void *columns,
                            double *times, uint64_t *keys, uint32_t *sizes, uint64_t room,
                            uint64_t *used, uint64_t *lines, void *operations);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As in lines.c; a table ends with one that has no length. */
struct operation {
    uint64_t seen;
    uint8_t length, counts;
    char text[22];
};

/* The text lies in memory of exactly its length, and its last line has an end. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int32_t columns[COLUMNS];
    if (size < COLUMNS + 1) return 0;
    for (int i = 0; i < COLUMNS; i++) columns[i] = data[i] % 9 - 1;
    columns[COLUMNS - 1] = ",\t; "[data[COLUMNS - 1] % 4];
    struct operation operations[] = {{0, 3, 1, "get"}, {0, 1, 0, "W"}, {0}};
    uint64_t room = 1 + data[COLUMNS] % MOST_ROOM, length = size - COLUMNS, offset = 0;
    uint64_t used, lines, seen = 0;
    char *text = malloc(length);
    memcpy(text, data + COLUMNS + 1, length - 1);
    text[length - 1] = '\n';
    double *times = malloc(room * sizeof *times);
    uint64_t *keys = malloc(room * sizeof *keys);
    uint32_t *sizes = malloc(room * sizeof *sizes);
    while (offset < length) {
        uint64_t count = spreds_lines_parse(text, offset, length, columns, times, keys, sizes,
                                            room, &used, &lines, operations);
        MUST(count <= room && used <= length - offset && lines <= used);
        uint64_t before = seen;
        seen = operations[0].seen + operations[1].seen;
        MUST(seen - before <= lines && !operations[2].seen);
        for (uint64_t i = 0; i < count; i++) MUST(times[i] >= 0);
        if (!used) { /* this line is for Python */
            used = (uint64_t)((char *)memchr(text + offset, '\n', length - offset) - text) - offset + 1;
        }
        offset += used;
    }
    free(text), free(times), free(keys), free(sizes);
    return 0;
}
