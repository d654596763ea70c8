/* Copyright (c) 2026, the SPREDS authors. Licensed like the server (3-clause BSD): see LICENSE.
 *
 * See spreds.h. */

#include "server.h" /* first: spreds.h needs its types */

#include "spreds.h"
#include "transport.h"
#include "value_size.h"

sampler spreds;
spreds_config spreds_settings;

static transport spreds_transport;

/* The endpoint in force: spreds_settings holds the one that is wanted. */
static sds spreds_endpoint;

static int spreds_started;

/* Number of the command that made the newest record of a write. */
static long long spreds_write_command = -1;

/* --------------------------------------------------------------------------------- the keyspace */

/* Both look without moving the server's incremental rehashing along, as other look-ups do; but for
 * Redis 8, which has no such way. */

#ifdef VALKEY_VERSION
static robj *findKey(redisDb *db, robj *key) {
    int slot = server.cluster_enabled ? getKeySlot(valueOf(key)) : 0;
    hashtable *keys = kvstoreGetHashtable(db->keys, slot);
    hashtableIncrementalFindState find;
    void *val = NULL;

    if (!keys) return NULL;
    hashtableIncrementalFindInit(&find, keys, valueOf(key));
    while (hashtableIncrementalFindStep(&find)) continue;
    return hashtableIncrementalFindGetResult(&find, &val) ? val : NULL;
}

static long long expiryOf(redisDb *db, robj *key, robj *val) {
    (void)db, (void)key;
    return objectGetExpire(val);
}
#elif REDIS_VERSION_NUM >= 0x00080200
static robj *findKey(redisDb *db, robj *key) {
    return dbFind(db, valueOf(key));
}

static long long expiryOf(redisDb *db, robj *key, robj *val) {
    (void)db, (void)key;
    return kvobjGetExpire(val);
}
#elif REDIS_VERSION_NUM >= 0x00080000
static robj *findKey(redisDb *db, robj *key) {
    dictEntry *de = dbFind(db, valueOf(key));
    return de ? dictGetVal(de) : NULL;
}

static long long expiryOf(redisDb *db, robj *key, robj *val) {
    (void)val;
    return getExpire(db, key);
}
#else
static robj *findKey(redisDb *db, robj *key) {
    dictPauseRehashing(db->dict);
    dictEntry *de = dictFind(db->dict, valueOf(key));
    dictResumeRehashing(db->dict);
    return de ? dictGetVal(de) : NULL;
}

static long long expiryOf(redisDb *db, robj *key, robj *val) {
    (void)val;
    dictPauseRehashing(db->expires);
    long long expire = getExpire(db, key);
    dictResumeRehashing(db->expires);
    return expire;
}
#endif

/* What is left until a key expires, by the clock that its record has. */
static int64_t ttlUntil(long long when_ms) {
    long long left_ms = when_ms - server.ustime / 1000;
    return left_ms > 0 ? left_ms : 0; /* it may be over, and the key not yet be gone */
}

/* A key that is there. It may be signalled as modified while its list or hash is half built. */
static void recordPresent(redisDb *db, robj *key, robj *val, uint64_t hash, int operation) {
    int is_string = val->type == OBJ_STRING;
    uint64_t bytes = is_string ? stringObjectLen(val) : valueBytes(val, server.ustime);
    int is_known = is_string || bytes != VALUE_SIZE_UNKNOWN;
    int flags = is_known ? SAMPLER_SIZE_KNOWN : 0;
    long long when_ms = expiryOf(db, key, val);

    if (is_known && valueBytesAreAllocated(val)) flags |= SAMPLER_SIZE_ALLOCATED;
    sampler_record(&spreds, hash, operation, flags, (uint16_t)db->id,
                   is_known ? sdslen(valueOf(key)) + bytes : 0,
                   when_ms == -1 ? SAMPLER_NO_TTL : ttlUntil(when_ms), server.ustime);
}

static void recordAbsent(redisDb *db, uint64_t hash, int operation) {
    sampler_record(&spreds, hash, operation, 0, (uint16_t)db->id, 0, SAMPLER_NO_TTL, server.ustime);
}

/* lookupKey() finds out that a client touches nothing only where the key is there. */
static int isFromNoTouchClient(void) {
#ifdef VALKEY_VERSION
    client *asks = server.current_client;
    return asks && asks->flag.no_touch && server.executing_client &&
           server.executing_client->cmd->proc != touchCommand;
#elif REDIS_VERSION_NUM >= 0x00080000
    client *asks = server.current_client;
    return asks && asks->flags & CLIENT_NO_TOUCH && server.executing_client &&
           server.executing_client->cmd->proc != touchCommand;
#else
    return 0; /* Redis 7.0 has none */
#endif
}

void spredsRecordRead(redisDb *db, robj *key, robj *val, uint64_t hash) {
    if (val) recordPresent(db, key, val, hash, SAMPLER_READ_HIT);
    else if (!isFromNoTouchClient()) recordAbsent(db, hash, SAMPLER_READ_MISS);
}

/* Not inlined: a write that is not sampled would save registers for it. */
__attribute__((noinline)) static void recordModified(redisDb *db, robj *key, uint64_t hash) {
    robj *val = findKey(db, key);

    if (!val) {
        recordAbsent(db, hash, SAMPLER_DELETE);
        return;
    }
    recordPresent(db, key, val, hash, SAMPLER_WRITE);
    spreds_write_command = server.stat_numcommands;
}

void spredsCountModified(redisDb *db, robj *key) {
    uint64_t hash = spredsHash(key);
    spreds.seen_others++;
    if (sampler_takes(&spreds, hash)) recordModified(db, key, hash);
}

void spredsRecordRemoved(redisDb *db, uint64_t hash, int operation) {
    recordAbsent(db, hash, operation);
}

void spredsRecordDatabases(int operation, uint16_t db, uint16_t other) {
    sampler_record(&spreds, 0, operation, 0, db, other, SAMPLER_NO_TTL, server.ustime);
}

/* The record of a write by the same command learns how long its key has to live. */
void spredsAmendExpire(robj *key, long long when_ms) {
    if (spreds_write_command != server.stat_numcommands) return;
    uint64_t hash = spredsHash(key);
    sampler_record_t *record = sampler_amend(&spreds, hash, SAMPLER_WRITE, 0);
    if (record) sampler_set_ttl(record, ttlUntil(when_ms));
}

/* ---------------------------------------------------------------------------------------- control */

#if defined(VALKEY_VERSION) && VALKEY_VERSION_NUM >= 0x00090100
#define readNumber(text, number) string2ull(text, strlen(text), number)
#else
#define readNumber(text, number) string2ull(text, number)
#endif

int spredsIsSalt(char *text, const char **err) {
    unsigned long long salt;

    if (!*text || readNumber(text, &salt)) return 1;
    *err = "spreds-salt must be a number below 2^64";
    return 0;
}

int spredsIsSecret(char *text, const char **err) {
    uint8_t secret[SAMPLER_SECRET_BYTES];

    if (!*text || sampler_read_secret(text, secret)) return 1;
    *err = "spreds-secret must be 32 hexadecimal digits, in small letters";
    return 0;
}

/* Whether who runs CONFIG SET may set what is protected. */
static int maySetProtected(void) {
    client *c = server.current_client;
    return c && c->conn && allowProtectedAction(server.enable_protected_configs, c);
}

static void takeSecret(void) {
    uint8_t secret[SAMPLER_SECRET_BYTES];
    char *text = spreds_settings.secret;

    if (text && sampler_read_secret(text, secret)) sampler_set_secret(&spreds, secret);
    zfree(text);
    spreds_settings.secret = NULL;
}

int spredsApply(const char **err) {
    spreds_config *wanted = &spreds_settings;
    const char *endpoint = wanted->endpoint ? wanted->endpoint : "";
    unsigned long long salt = spreds.salt;

    if (!sampler_sampling_is_valid(wanted->threshold, wanted->modulus)) {
        *err = "spreds-modulus must be a power of two up to 4294967296, "
               "and spreds-threshold at most spreds-modulus";
        return 0;
    }
    if (!spreds_endpoint) return 1; /* spredsInit() is still to come, and will do it */
    if (strcmp(endpoint, spreds_endpoint)) {
        if (spreds_started && *endpoint && !transport_is_local(endpoint) && !maySetProtected()) {
            *err = "spreds-endpoint: " TRANSPORT_NOT_LOCAL;
            return 0;
        }
        sampler_stop(&spreds, server.ustime); /* what was sampled for the old one goes there */
        *err = transport_connect(&spreds_transport, endpoint);
        if (!*err) {
            sdsfree(spreds_endpoint);
            spreds_endpoint = sdsnew(endpoint);
            sampler_set_secret(&spreds, NULL); /* which was for the old one */
        }
        if (sdslen(spreds_endpoint)) sampler_start(&spreds, server.ustime);
        if (*err) return 0;
    }
    takeSecret();
    if (wanted->salt) readNumber(wanted->salt, &salt);
    zfree(wanted->salt);
    wanted->salt = NULL;
    while (salt == 0) getRandomBytes((unsigned char *)&salt, sizeof salt);
    sampler_set_sampling(&spreds, wanted->threshold, wanted->modulus, salt, server.ustime);
    return 1;
}

void spredsInit(void) {
    char instance[17] = {0};
    const char *err = NULL;

    memcpy(instance, server.runid, 16);
    sampler_init(&spreds, SAMPLER_SOURCE_PATCH, strtoull(instance, NULL, 16), (uint64_t)mstime(),
                 transport_send, &spreds_transport);
    spreds_endpoint = sdsempty();
    if (!spredsApply(&err)) {
        serverLog(LL_WARNING, "Bad SPREDS configuration: %s", err);
        exit(1);
    }
    spreds_started = 1;
}

sds spredsInfo(sds info) {
    return sdscatprintf(
        info,
        "# Spreds\r\n"
        "spreds_on:%d\r\n"
        "spreds_threshold:%llu\r\n"
        "spreds_modulus:%llu\r\n"
        "spreds_seen:%llu\r\n"
        "spreds_seen_reads:%llu\r\n"
        "spreds_sampled:%llu\r\n"
        "spreds_dropped:%llu\r\n"
        "spreds_batches:%llu\r\n"
        "spreds_batches_dropped:%llu\r\n",
        spreds.on, (unsigned long long)spreds.threshold, (unsigned long long)spreds.mask + 1,
        (unsigned long long)(spreds.seen_reads + spreds.seen_others),
        (unsigned long long)spreds.seen_reads, (unsigned long long)spreds.sampled,
        (unsigned long long)spreds.dropped, (unsigned long long)sampler_batches(&spreds),
        (unsigned long long)spreds.batches_dropped);
}
