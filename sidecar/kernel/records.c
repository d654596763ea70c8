/* Whether a batch's records can be: records.h. */

#include "records.h"

#include "operations.h"

#include <string.h>

int spreds_records_check(const char *records, uint64_t stride, uint64_t count, uint64_t modulus,
                         uint64_t threshold)
{
    for (uint64_t i = 0; i < count; i++, records += stride) {
        struct record record;
        memcpy(&record, records, sizeof record);
        if (record.operation < READ_HIT || record.operation > SWAP) return BAD_OPERATION;
        if (record.operation < FLUSH && (record.hash & (modulus - 1)) >= threshold)
            return NOT_SAMPLED;
    }
    return GOOD_RECORDS;
}
