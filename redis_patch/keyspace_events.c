#include "keyspace_events.h"

#include "client_home.h"
#include "command_filter.h"

#include <string.h>

/* ----------------------------------------------------------------------------------------- keys */

uint64_t late_misses;

static int is_event(const char *event, const char *name) {
    return !strcmp(event, name);
}

/* The read that missed stands in the open batch as a hit, and keeps the database that it has there:
 * one key has one name in all its records. */
static void record_miss(uint64_t hash) {
    sampler_record_t *read = sampler_amend(&spreds, hash, SAMPLER_READ_HIT, command_start);
    if (!read) {
        late_misses++;
        return;
    }
    *read = (sampler_record_t){.hash = hash, .db = read->db, .operation = SAMPLER_READ_MISS};
}

static void record_event(int type, const char *event, RedisModuleString *key, uint16_t db) {
    size_t key_bytes;
    int operation, flags = 0;
    const char *text = RedisModule_StringPtrLen(key, &key_bytes);
    uint64_t hash = sampler_hash(text, key_bytes, spreds.salt);

    if (type == REDISMODULE_NOTIFY_KEY_MISS) {
        if (sampler_takes(&spreds, hash)) record_miss(hash);
        return;
    }
    if (type == REDISMODULE_NOTIFY_EXPIRED) {
        operation = SAMPLER_EXPIRY;
    } else if (type == REDISMODULE_NOTIFY_EVICTED) {
        operation = SAMPLER_EVICTION;
    } else if (is_event(event, "del") || is_event(event, "rename_from") ||
               is_event(event, "move_from")) {
        operation = SAMPLER_DELETE;
    } else if (is_event(event, "expire")) {
        if (is_expiry_of_set(hash)) return;
        operation = SAMPLER_WRITE;
        flags = SAMPLER_HAS_TTL;
    } else if (is_event(event, "persist") || is_event(event, "rename_to") ||
               is_event(event, "move_to") || is_event(event, "copy_to") ||
               is_event(event, "restore")) {
        operation = SAMPLER_WRITE;
    } else {
        return;
    }
    spreds.seen_others++;
    if (sampler_takes(&spreds, hash)) {
        sampler_record(&spreds, hash, operation, flags, db, 0, now_us());
    }
}

static int on_event(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *key) {
    /* Where the filter cannot tell it, events must not either: the key would be two. */
    uint16_t db = get_client_id ? (uint16_t)RedisModule_GetSelectedDb(ctx) : SAMPLER_DB_UNKNOWN;

    if (type == REDISMODULE_NOTIFY_GENERIC) bring_home(ctx, event);
    if (spreds.on) record_event(type, event, key, db);
    return REDISMODULE_OK;
}

#define KEYSPACE_EVENTS \
    (REDISMODULE_NOTIFY_GENERIC | REDISMODULE_NOTIFY_EXPIRED | REDISMODULE_NOTIFY_EVICTED | \
     REDISMODULE_NOTIFY_KEY_MISS)

void subscribe_to_keyspace(void) {
    static int subscribed;

    if (subscribed) return;
    subscribed = 1;
    RedisModule_SubscribeToKeyspaceEvents(detached, KEYSPACE_EVENTS, on_event);
}

/* ------------------------------------------------------------------------- databases as a whole */

static void on_flush(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    RedisModuleFlushInfo *info = data;
    (void)ctx, (void)event;
    if (!spreds.on || subevent != REDISMODULE_SUBEVENT_FLUSHDB_START) return;
    sampler_record(&spreds, 0, SAMPLER_FLUSH, 0, (uint16_t)info->dbnum, 0, now_us());
}

static void on_swap(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    RedisModuleSwapDbInfo *info = data;
    (void)ctx, (void)event, (void)subevent;
    if (!spreds.on) return;
    sampler_record(&spreds, 0, SAMPLER_SWAP, 0, (uint16_t)info->dbnum_first,
                   (uint64_t)info->dbnum_second, now_us());
}

#define WATCH_DATABASES_US 60000000

/* When a command was last seen that may flush or swap databases; 0: nobody listens. */
static uint64_t emptying_us;

void watch_databases(void) {
    if (!emptying_us) {
        RedisModule_SubscribeToServerEvent(detached, RedisModuleEvent_FlushDB, on_flush);
        RedisModule_SubscribeToServerEvent(detached, RedisModuleEvent_SwapDB, on_swap);
    }
    emptying_us = now_us();
}

void rest_from_databases(uint64_t now) {
    if (!emptying_us || now <= emptying_us + WATCH_DATABASES_US) return;
    RedisModule_SubscribeToServerEvent(detached, RedisModuleEvent_FlushDB, NULL);
    RedisModule_SubscribeToServerEvent(detached, RedisModuleEvent_SwapDB, NULL);
    emptying_us = 0;
}
