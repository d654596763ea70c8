/* Copyright (c) 2026, the SPREDS authors. Licensed like the server (3-clause BSD): see LICENSE.
 *
 * SPREDS: sampled accesses to the keyspace, sent to the sidecar of this machine. This is the glue
 * between the server and the sampler (sampler.h), and knows both. The functions below are called
 * where a key is looked up or changed; while sampling is off each of them is one comparison.
 *
 * What is recorded: a read wherever keyspace_hits or keyspace_misses is counted and the key's clock
 * would be set, a write or a delete wherever a client's command signals a modified key, an expiry and
 * an eviction where the server removes a key by itself, and each flush and swap of databases. */

#ifndef SPREDS_H
#define SPREDS_H

#include "sampler.h"

#ifdef VALKEY_VERSION
#define redisDb serverDb
#endif

/* From Valkey 9.1 on, an object may hold its value itself. */
#if defined(VALKEY_VERSION) && VALKEY_VERSION_NUM >= 0x00090100
#define valueOf(object) objectGetVal(object)
#else
#define valueOf(object) ((object)->ptr)
#endif

extern sampler spreds;

/* The configuration directives spreds-endpoint, -threshold, -modulus, -salt and -secret. */
typedef struct {
    char *endpoint; /* where the sidecar listens; NULL: off */
    unsigned long long threshold;
    unsigned long long modulus;
    /* Never kept here, where CONFIG GET and CONFIG REWRITE look; NULL: as they are. */
    char *salt; /* "0": a random one */
    char *secret;
} spreds_config;

extern spreds_config spreds_settings;

/* Called once, when the server is a daemon, has a run id and has loaded its data. */
void spredsInit(void);

/* Whether CONFIG takes a text as spreds-salt, or as spreds-secret. */
int spredsIsSalt(char *text, const char **err);
int spredsIsSecret(char *text, const char **err);

/* Puts spreds_settings into effect, now. Returns 1, or 0 and the reason. */
int spredsApply(const char **err);

/* Appends the counters to INFO. */
sds spredsInfo(sds info);

void spredsRecordRead(redisDb *db, robj *key, robj *val, uint64_t hash);
void spredsRecordRemoved(redisDb *db, uint64_t hash, int operation);
void spredsCountModified(redisDb *db, robj *key);
void spredsRecordDatabases(int operation, uint16_t db, uint16_t other);
void spredsAmendExpire(robj *key, long long when_ms);

static inline uint64_t spredsHash(robj *key) {
    sds name = valueOf(key);
    /* Most keys are of this type, and sdslen() needs ten instructions to find it out. */
    size_t length = (name[-1] & SDS_TYPE_MASK) == SDS_TYPE_8 ? SDS_HDR(8, name)->len : sdslen(name);
    return sampler_hash(name, length, spreds.salt);
}

/* End of lookupKey(): `val` is NULL for a miss. A look-up that leaves the key's clock alone (EXISTS,
 * TTL, TYPE, OBJECT, a client's CLIENT NO-TOUCH) is no reference to it. */
static inline void spredsLookedUp(redisDb *db, robj *key, robj *val, int flags) {
    if (!spreds.on || (flags & (LOOKUP_NOSTATS | LOOKUP_NOTOUCH | LOOKUP_WRITE))) return;
    uint64_t hash = spredsHash(key);
    spreds.seen_reads++;
    if (sampler_takes(&spreds, hash)) spredsRecordRead(db, key, val, hash);
}

/* signalModifiedKey(): a write, or a delete if the key is gone. Without a client the server itself
 * has removed the key, and says so by spredsRemoved(). The rest is not inlined here, so that the
 * compiler goes on inlining signalModifiedKey(). */
static inline void spredsModified(client *c, redisDb *db, robj *key) {
    if (spreds.on && c) spredsCountModified(db, key);
}

/* An expiry, an eviction, or a key that left with its cluster slot. */
static inline void spredsRemoved(redisDb *db, robj *key, int operation) {
    if (!spreds.on) return;
    uint64_t hash = spredsHash(key);
    spreds.seen_others++;
    if (sampler_takes(&spreds, hash)) spredsRecordRemoved(db, hash, operation);
}

/* setExpire(): SET writes the key first and gives it its TTL afterwards; the key is to live until
 * `when_ms`, in Unix time. */
static inline void spredsExpireSet(robj *key, long long when_ms) {
    if (spreds.on) spredsAmendExpire(key, when_ms);
}

/* `dbid` -1 means every database. */
static inline void spredsFlushed(int dbid) {
    if (spreds.on) spredsRecordDatabases(SAMPLER_FLUSH, (uint16_t)dbid, 0);
}

static inline void spredsSwapped(int first, int second) {
    if (spreds.on) spredsRecordDatabases(SAMPLER_SWAP, (uint16_t)first, (uint16_t)second);
}

#endif
