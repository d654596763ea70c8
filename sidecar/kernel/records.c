/* Whether a batch's records can be: records.h. */

#include "records.h"

#include "operations.h"

#include <string.h>

#define MOST_DB UINT16_MAX

int spreds_records_check(const char *records, uint64_t stride, uint64_t count, uint64_t modulus,
                         uint64_t threshold)
{
    for (uint64_t i = 0; i < count; i++, records += stride) {
        struct record record = {0};
        memcpy(&record, records, 16); /* version 1 has no more */
        if (record.operation < READ_HIT || record.operation > SWAP) return BAD_OPERATION;
        if (record.operation == SWAP && record.size_bytes > MOST_DB) return BAD_SWAP;
        if (record.operation < FLUSH && (record.hash & (modulus - 1)) >= threshold)
            return NOT_SAMPLED;
    }
    return GOOD_RECORDS;
}
