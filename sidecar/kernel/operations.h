/* What happened to a key, as redis_patch/WIRE_FORMAT.md numbers it. */

#ifndef SPREDS_OPERATIONS_H
#define SPREDS_OPERATIONS_H

enum { READ_HIT = 1, READ_MISS, WRITE, DELETE, EXPIRY, EVICTION, FLUSH, SWAP };

#endif
