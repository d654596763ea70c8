#include "keyspace_events.h"

#include "keys_after_command.h"
#include "selected_db.h"
#include "untouched_key.h"

#include <string.h>

/* Set when the module subscribes; the server hands no pointer to these callbacks. */
static module_state *module;

/* ----------------------------------------------------------------------------------------- keys */

static int is_event(const char *event, const char *name) {
    return !strcmp(event, name);
}

/* The read that missed stands in the open batch as a hit, and keeps the database that it has there:
 * one key has one name in all its records. */
static void record_miss(uint64_t hash) {
    sampler_record_t *read =
        sampler_amend(&module->sampler, hash, SAMPLER_READ_HIT, module->pending.first_record);
    if (!read) {
        module->late_misses += !module->pending.is_look;
        return;
    }
    *read = (sampler_record_t){
        .hash = hash, .db = read->db, .operation = SAMPLER_READ_MISS, .time_us = read->time_us};
}

static void record_event(int type, const char *event, RedisModuleString *key, uint16_t db) {
    size_t key_bytes;
    int operation, flags = 0;
    sampler *s = &module->sampler;
    const char *text = RedisModule_StringPtrLen(key, &key_bytes);
    uint64_t hash = sampler_hash(text, key_bytes, s->salt);

    if (type == REDISMODULE_NOTIFY_KEY_MISS) {
        if (sampler_takes(s, hash)) record_miss(hash);
        return;
    }
    if (type == REDISMODULE_NOTIFY_EXPIRED) {
        /* Valkey 9 tells so of fields; after the last one the hash goes, too. */
        if (is_event(event, "hexpired") && !look_at_key(module, db, key).is_empty) return;
        operation = SAMPLER_EXPIRY;
    } else if (type == REDISMODULE_NOTIFY_EVICTED) {
        operation = SAMPLER_EVICTION;
    } else if (is_event(event, "del") || is_event(event, "rename_from") ||
               is_event(event, "move_from")) {
        operation = SAMPLER_DELETE;
    } else if (is_event(event, "expire")) {
        if (pending_takes_expire(&module->pending, hash)) return;
        operation = SAMPLER_WRITE;
        flags = SAMPLER_HAS_TTL;
    } else if (is_event(event, "persist") || is_event(event, "rename_to") ||
               is_event(event, "move_to") || is_event(event, "copy_to") ||
               is_event(event, "restore")) {
        operation = SAMPLER_WRITE;
    } else {
        return;
    }
    s->seen_others++;
    if (sampler_takes(s, hash)) {
        key_is_gone(hash, db);
        sampler_record(s, hash, operation, flags, db, 0, SAMPLER_NO_TTL, now_us());
    }
}

static int on_event(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *key) {
    /* Where the filter cannot tell it, events must not either: the key would be two. */
    uint16_t db = SAMPLER_DB_UNKNOWN;

    if (module->get_client_id) db = (uint16_t)RedisModule_GetSelectedDb(ctx);
    restore_selected_db(module, ctx);
    if (module->sampler.on) record_event(type, event, key, db);
    return REDISMODULE_OK;
}

#define EVENTS_WITHOUT_COMMAND (REDISMODULE_NOTIFY_EXPIRED | REDISMODULE_NOTIFY_EVICTED)
#define EVENTS_OF_COMMANDS (REDISMODULE_NOTIFY_GENERIC | REDISMODULE_NOTIFY_KEY_MISS)

/* The server makes a client for each event of a kind that a module listens to, some 700 instructions,
 * also where no key is sampled: what can be seen of commands is not listened to. */
void subscribe_to_keyspace(module_state *state) {
    if (module) return;
    module = state;
    int events = EVENTS_WITHOUT_COMMAND | (keys_can_be_seen(module) ? 0 : EVENTS_OF_COMMANDS);
    RedisModule_SubscribeToKeyspaceEvents(module->ctx, events, on_event);
}

/* ------------------------------------------------------------------------- databases as a whole */

static void on_flush(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    RedisModuleFlushInfo *info = data;
    (void)ctx, (void)event;
    if (!module->sampler.on || subevent != REDISMODULE_SUBEVENT_FLUSHDB_START) return;
    sampler_record(&module->sampler, 0, SAMPLER_FLUSH, 0, (uint16_t)info->dbnum, 0, SAMPLER_NO_TTL,
                   now_us());
}

static void on_swap(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    RedisModuleSwapDbInfo *info = data;
    (void)ctx, (void)event, (void)subevent;
    if (!module->sampler.on) return;
    sampler_record(&module->sampler, 0, SAMPLER_SWAP, 0, (uint16_t)info->dbnum_first,
                   (uint16_t)info->dbnum_second, SAMPLER_NO_TTL, now_us());
}

#define WATCH_DATABASES_US 60000000

/* When a command was last seen that may flush or swap databases; 0: nobody listens. */
static uint64_t last_candidate_us;

void watch_databases(void) {
    if (!last_candidate_us) {
        RedisModule_SubscribeToServerEvent(module->ctx, RedisModuleEvent_FlushDB, on_flush);
        RedisModule_SubscribeToServerEvent(module->ctx, RedisModuleEvent_SwapDB, on_swap);
    }
    last_candidate_us = now_us();
}

void unwatch_idle_databases(uint64_t now) {
    if (!last_candidate_us || now <= last_candidate_us + WATCH_DATABASES_US) return;
    RedisModule_SubscribeToServerEvent(module->ctx, RedisModuleEvent_FlushDB, NULL);
    RedisModule_SubscribeToServerEvent(module->ctx, RedisModuleEvent_SwapDB, NULL);
    last_candidate_us = 0;
}
