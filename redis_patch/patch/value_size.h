/* Copyright (c) 2026, the SPREDS authors. Licensed like the server (3-clause BSD): see LICENSE.
 *
 * How many bytes a value takes, in bounded time: part of spreds.c, after server.h.
 *
 * Exact where the value knows it: strings, listpacks, integer sets, and from Redis 8.6 on the others
 * below. Of quicklists, hash tables and skip lists a few elements are looked at elsewhere, and taken
 * for all; that is done so many times a second, and then not. Streams and the types of modules are not
 * known.
 *
 * Strings, listpacks and integer sets are as long as they are, without what the allocator adds, which
 * the sidecar learns from the server's memory in use; the rest is as MEMORY USAGE has it. */

#ifndef SPREDS_VALUE_SIZE_H
#define SPREDS_VALUE_SIZE_H

#include "intset.h"
#include "listpack.h"
#include "quicklist.h"

#define VALUE_SIZE_UNKNOWN 0
#define VALUE_SIZE_ELEMENTS 8              /* looked at of one value: some microseconds at most */
#define VALUE_SIZE_ESTIMATES_A_SECOND 2000 /* so that those take half a percent of the time */

#if !defined(VALKEY_VERSION) && REDIS_VERSION_NUM >= 0x00080600
#define SIZES_ARE_KEPT

static uint64_t keptBytes(const robj *val) {
    switch (val->type) {
    case OBJ_LIST:
        return listTypeAllocSize(val);
    case OBJ_SET:
        return setTypeAllocSize(val);
    case OBJ_HASH:
        return hashTypeAllocSize(val);
    default:
        return zsetAllocSize(val);
    }
}

#define ENCODING_TABLE OBJ_ENCODING_HT
#else

/* Whether one more value may be estimated in this second. */
static int mayEstimate(long long now_us) {
    static long long second;
    static int left;

    if (now_us / 1000000 != second) {
        second = now_us / 1000000;
        left = VALUE_SIZE_ESTIMATES_A_SECOND;
    }
    if (left == 0) return 0;
    left--;
    return 1;
}

/* All of `count` elements, if `looked_at` of them take `bytes`. */
static uint64_t ofAll(uint64_t bytes, uint64_t looked_at, uint64_t count) {
    return looked_at ? bytes * count / looked_at : VALUE_SIZE_UNKNOWN;
}

/* Lists are signalled as modified before their first element is in. */
static uint64_t quicklistBytes(const quicklist *list) {
    const quicklistNode *node = list->head;
    uint64_t nodes = 0, bytes = 0;

    for (; node && nodes < VALUE_SIZE_ELEMENTS; node = node->next, nodes++) {
        bytes += sizeof *node + zmalloc_size(node->entry);
    }
    bytes = ofAll(bytes, nodes, list->len);
    return bytes ? bytes + sizeof *list : VALUE_SIZE_UNKNOWN;
}

#ifdef VALKEY_VERSION

#if VALKEY_VERSION_NUM >= 0x00090100
#define fieldBytes entryMemUsage
#else
#define fieldBytes hashTypeEntryMemUsage
#endif

typedef struct {
    int is_hash; /* its entries are fields with values; else they are strings */
    uint64_t entries, bytes;
} spreds_looked_at;

static void lookAtEntry(void *looked_at, void *entry) {
    spreds_looked_at *all = looked_at;
    if (all->entries >= VALUE_SIZE_ELEMENTS) return;
    all->bytes += all->is_hash ? fieldBytes(entry) : sdsAllocSize(entry);
    all->entries++;
}

/* A step is one bucket, or those of the larger table that it stands for while the table is being
 * moved: tens of them at most, for the server does not let a table become emptier before it moves. */
static uint64_t tableBytes(robj *val) {
    hashtable *table = valueOf(val);
    spreds_looked_at all = {.is_hash = val->type == OBJ_HASH};
    size_t cursor = 0;

    for (int i = 0; i < VALUE_SIZE_ELEMENTS && all.entries < VALUE_SIZE_ELEMENTS; i++) {
        cursor = hashtableScan(table, cursor, lookAtEntry, &all);
        if (cursor == 0) break;
    }
    uint64_t bytes = ofAll(all.bytes, all.entries, hashtableSize(table));
    return bytes ? bytes + hashtableMemUsage(table) : VALUE_SIZE_UNKNOWN;
}

static uint64_t indexBytes(const zset *set) {
    return hashtableMemUsage(set->ht);
}

#define ENCODING_TABLE OBJ_ENCODING_HASHTABLE
#define stringBytes sdsAllocSize
#else

#if REDIS_VERSION_NUM >= 0x00080000
#define dictSlots dictBuckets
#define entryBytes() dictEntryMemUsage()
#define fieldBytes hfieldZmallocSize
#else
#define entryBytes() sizeof(dictEntry)
#define fieldBytes sdsZmallocSize
#endif

static uint64_t indexOf(dict *table) {
    return sizeof *table + dictSlots(table) * sizeof(dictEntry *) + dictSize(table) * entryBytes();
}

static uint64_t tableBytes(robj *val) {
    dict *table = valueOf(val);
    dictEntry *entries[VALUE_SIZE_ELEMENTS];
    uint64_t bytes = 0;

    dictPauseRehashing(table);
    unsigned count = dictGetSomeKeys(table, entries, VALUE_SIZE_ELEMENTS);
    dictResumeRehashing(table);
    for (unsigned i = 0; i < count; i++) {
        if (val->type == OBJ_HASH) {
            bytes += fieldBytes(dictGetKey(entries[i])) + sdsZmallocSize(dictGetVal(entries[i]));
        } else {
            bytes += sdsZmallocSize(dictGetKey(entries[i]));
        }
    }
    bytes = ofAll(bytes, count, dictSize(table));
    return bytes ? bytes + indexOf(table) : VALUE_SIZE_UNKNOWN;
}

static uint64_t indexBytes(const zset *set) {
    return indexOf(set->dict);
}

#define ENCODING_TABLE OBJ_ENCODING_HT
#define stringBytes sdsZmallocSize
#endif

/* From Valkey 9.1 on, a list holds its header, and a node its element. */
#if defined(VALKEY_VERSION) && VALKEY_VERSION_NUM >= 0x00090100
#define headerOf(list) zslGetHeader(list)
#define lengthOf(list) zslGetLength(list)
#define nodeBytes(node) zmalloc_size((void *)node)
#define listBytes(list) zslGetAllocSize()
#else
#define headerOf(list) ((list)->header)
#define lengthOf(list) ((list)->length)
#define nodeBytes(node) (zmalloc_size((void *)node) + stringBytes((node)->ele))
#define listBytes(list) (sizeof *(list) + zmalloc_size((list)->header))
#endif

static uint64_t skiplistBytes(const zset *set) {
    const zskiplistNode *node = headerOf(set->zsl)->level[0].forward;
    uint64_t nodes = 0, bytes = 0;

    for (; node && nodes < VALUE_SIZE_ELEMENTS; node = node->level[0].forward, nodes++) {
        bytes += nodeBytes(node);
    }
    bytes = ofAll(bytes, nodes, lengthOf(set->zsl));
    bytes += sizeof *set + listBytes(set->zsl) + indexBytes(set);
    return nodes ? bytes : VALUE_SIZE_UNKNOWN;
}

#endif

/* Whether that is with what the allocator adds. */
static int valueBytesAreAllocated(const robj *val) {
    return val->encoding == OBJ_ENCODING_QUICKLIST || val->encoding == ENCODING_TABLE ||
           val->encoding == OBJ_ENCODING_SKIPLIST;
}

static uint64_t valueBytes(robj *val, long long now_us) {
    switch (val->encoding) {
    case OBJ_ENCODING_LISTPACK:
        return lpBytes(valueOf(val));
#ifdef OBJ_ENCODING_LISTPACK_EX
    case OBJ_ENCODING_LISTPACK_EX: /* a hash with fields that expire */
        return sizeof(listpackEx) + lpBytes(((listpackEx *)valueOf(val))->lp);
#endif
    case OBJ_ENCODING_INTSET:
        return intsetBlobLen(valueOf(val));
#ifdef SIZES_ARE_KEPT
    case OBJ_ENCODING_QUICKLIST:
    case ENCODING_TABLE:
    case OBJ_ENCODING_SKIPLIST:
        (void)now_us;
        return keptBytes(val);
#else
    case OBJ_ENCODING_QUICKLIST:
        return mayEstimate(now_us) ? quicklistBytes(valueOf(val)) : VALUE_SIZE_UNKNOWN;
    case ENCODING_TABLE:
        return mayEstimate(now_us) ? tableBytes(val) : VALUE_SIZE_UNKNOWN;
    case OBJ_ENCODING_SKIPLIST:
        return mayEstimate(now_us) ? skiplistBytes(valueOf(val)) : VALUE_SIZE_UNKNOWN;
#endif
    default:
        return VALUE_SIZE_UNKNOWN;
    }
}

#endif
