/* The records of a batch of samples, as redis_patch/WIRE_FORMAT.md lays them out, and their columns. */

#ifndef SPREDS_RECORDS_H
#define SPREDS_RECORDS_H

#include <stdint.h>

#define HASH_BITS 48 /* of a record's hash in the identity of its object; above them stands its db */

enum { FLAG_TTL = 1, FLAG_SIZE_KNOWN = 2, FLAG_TTL_KNOWN = 4, FLAG_SIZE_ALLOCATED = 8 };
enum { GOOD_RECORDS, BAD_OPERATION, NOT_SAMPLED };

struct record {
    uint64_t hash;
    uint32_t size_bytes;
    uint16_t db;
    uint8_t operation;
    uint8_t flags;
    uint32_t ttl_ms;
    uint32_t time_us;
};

/* Columns of one length, of which a part may be taken out. */
struct columns {
    uint64_t *ids;
    uint8_t *operations;
    int64_t *weights;     /* 0: unknown */
    double *left_seconds; /* until the object expires; INFINITY: never, NAN: unknown */
    double *times_us;
    uint64_t count;
    int have_ttl;
};

/* What is wrong with the first record that is. Records stand `stride` bytes apart, at any alignment. */
int spreds_records_check(const char *records, uint64_t stride, uint64_t count, uint64_t modulus,
                         uint64_t threshold);

#endif
