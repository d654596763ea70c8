#include "untouched_key.h"

#include "selected_db.h"

/* Redis 7.0's header, which this is built against, has only the first of these flags of 7.2. */
#ifndef REDISMODULE_OPEN_KEY_NONOTIFY
#define REDISMODULE_OPEN_KEY_NONOTIFY (1 << 17)
#define REDISMODULE_OPEN_KEY_NOSTATS (1 << 18)
#define REDISMODULE_OPEN_KEY_NOEXPIRE (1 << 19)
#endif

#define OPEN_WITHOUT_EFFECTS \
    (REDISMODULE_READ | REDISMODULE_OPEN_KEY_NOTOUCH | REDISMODULE_OPEN_KEY_NONOTIFY | \
     REDISMODULE_OPEN_KEY_NOSTATS | REDISMODULE_OPEN_KEY_NOEXPIRE)

caller caller_of(const module_state *module, RedisModuleCommandFilterCtx *call) {
    caller who = {.db = SAMPLER_DB_UNKNOWN};
    RedisModuleClientInfoV1 client = REDISMODULE_CLIENTINFO_INITIALIZER_V1;

    if (!keys_can_be_seen(module)) return who;
    who.id = module->get_client_id(call);
    if (RedisModule_GetClientInfoById(&client, who.id) != REDISMODULE_OK) {
        who.db = db_selected_by_script(module);
        return who;
    }
    who.db = client.db;
    who.is_queueing = !!(client.flags & REDISMODULE_CLIENTINFO_FLAG_MULTI);
    return who;
}

key_state look_at_key(const module_state *module, uint16_t db, RedisModuleString *key) {
    key_state state = {.ttl_ms = SAMPLER_NO_TTL, .expires_at_ms = REDISMODULE_NO_EXPIRE};
    size_t key_bytes;

    if (RedisModule_SelectDb(module->ctx, db) != REDISMODULE_OK) return state;
    RedisModuleKey *opened = RedisModule_OpenKey(module->ctx, key, OPEN_WITHOUT_EFFECTS);
    if (!opened) return state;
    state.exists = 1;
    int type = RedisModule_KeyType(opened);
    if (type == REDISMODULE_KEYTYPE_STRING) {
        RedisModule_StringPtrLen(key, &key_bytes);
        state.size_bytes = key_bytes + RedisModule_ValueLength(opened);
        state.flags |= SAMPLER_SIZE_KNOWN;
    }
    state.has_elements = type == REDISMODULE_KEYTYPE_LIST || type == REDISMODULE_KEYTYPE_HASH ||
                         type == REDISMODULE_KEYTYPE_SET || type == REDISMODULE_KEYTYPE_ZSET;
    state.is_empty = state.has_elements && !RedisModule_ValueLength(opened);
    state.expires_at_ms = RedisModule_GetAbsExpire(opened);
    state.ttl_ms = RedisModule_GetExpire(opened); /* REDISMODULE_NO_EXPIRE is SAMPLER_NO_TTL */
    RedisModule_CloseKey(opened);
    return state;
}
