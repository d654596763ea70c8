#include "command_filter.h"

#include "client_home.h"
#include "command_table.h"
#include "keyspace_events.h"
#include "refusals.h"
#include "untouching.h"

#include <strings.h>

/* ------------------------------------------------------------------------------ a look at a key */

/* What is known about a key at the moment before a command. */
typedef struct {
    uint16_t db;
    int exists; /* -1: not known */
    int flags;
    uint64_t size_bytes;
} key_state;

#define OPEN_WITHOUT_EFFECTS (REDISMODULE_READ | (1 << 16) | (1 << 17) | (1 << 18) | (1 << 19))

/* Looks at a sampled key, if this server allows to do so without touching it. */
static key_state look_at(RedisModuleCommandFilterCtx *call, RedisModuleString *key,
                         size_t key_bytes) {
    key_state state = {.db = SAMPLER_DB_UNKNOWN, .exists = -1};
    RedisModuleClientInfoV1 client = {.version = 1};

    if (!get_client_id) return state;
    unsigned long long id = get_client_id(call);
    if (RedisModule_GetClientInfoById(&client, id) != REDISMODULE_OK) {
        state.db = db_of_script();
        return state;
    }
    state.db = client.db;
    if (is_untouching(id)) return state;
    if (RedisModule_SelectDb(detached, client.db) != REDISMODULE_OK) return state;
    RedisModuleKey *opened = RedisModule_OpenKey(detached, key, OPEN_WITHOUT_EFFECTS);
    state.exists = opened != NULL;
    if (opened) {
        if (RedisModule_KeyType(opened) == REDISMODULE_KEYTYPE_STRING) {
            state.size_bytes = key_bytes + RedisModule_ValueLength(opened);
            state.flags |= SAMPLER_SIZE_KNOWN;
        }
        if (RedisModule_GetExpire(opened) != REDISMODULE_NO_EXPIRE) state.flags |= SAMPLER_HAS_TTL;
        RedisModule_CloseKey(opened);
    }
    return state;
}

/* ------------------------------------------------------------------------------------- accesses */

uint32_t command_start;

/* A sampled SET gives a TTL: the "expire" event that follows belongs to the same write. */
static uint64_t expiring_hash;
static int expiring;

int is_expiry_of_set(uint64_t hash) {
    if (!expiring || expiring_hash != hash) return 0;
    expiring = 0;
    return 1;
}

typedef struct {
    int reads, expires, keeps_ttl;
} set_options;

/* The options of SET; all of them stand after the value. */
static set_options options_of_set(RedisModuleCommandFilterCtx *call) {
    set_options options = {0};
    int count = RedisModule_CommandFilterArgsCount(call);

    for (int i = 3; i < count; i++) {
        RedisModuleString *argument = RedisModule_CommandFilterArgGet(call, i);
        const char *option = RedisModule_StringPtrLen(argument, NULL);
        if (!strcasecmp(option, "get")) {
            options.reads = 1;
        } else if (!strcasecmp(option, "keepttl")) {
            options.keeps_ttl = 1;
        } else if (!strcasecmp(option, "ex") || !strcasecmp(option, "px") ||
                   !strcasecmp(option, "exat") || !strcasecmp(option, "pxat")) {
            options.expires = 1;
        }
    }
    return options;
}

static int is_read(key_use use, set_options options) {
    return use == KEYS_READ || use == KEYS_READ_AND_WRITTEN || options.reads;
}

static void record_write(RedisModuleCommandFilterCtx *call, const command *c, key_use use, int at,
                         set_options options, key_state state, size_t key_bytes, uint64_t hash) {
    int flags = state.flags & SAMPLER_HAS_TTL;
    uint64_t size_bytes = 0;

    if (use == KEYS_CHANGED && state.exists != 1) return;
    if (c->value_after) {
        RedisModuleString *value = RedisModule_CommandFilterArgGet(call, at + c->value_after);
        size_t value_bytes;
        if (!value) return; /* the server will refuse it */
        RedisModule_StringPtrLen(value, &value_bytes);
        size_bytes = key_bytes + value_bytes;
        flags = SAMPLER_SIZE_KNOWN;
        if (options.keeps_ttl) flags |= state.flags & SAMPLER_HAS_TTL;
        if (options.expires || c->special == SPECIAL_EXPIRES) {
            flags |= SAMPLER_HAS_TTL;
            expiring_hash = hash;
            expiring = 1;
        }
    }
    sampler_record(&spreds, hash, SAMPLER_WRITE, flags, state.db, size_bytes, now_us());
}

/* Records the access to a sampled key in argument `at`. */
__attribute__((noinline)) static void record_access(RedisModuleCommandFilterCtx *call,
                                                    const command *c, key_use use,
                                                    set_options options, int at, uint64_t hash) {
    size_t key_bytes;
    if (!spreds.on) return; /* in a forked child */
    RedisModuleString *key = RedisModule_CommandFilterArgGet(call, at);
    RedisModule_StringPtrLen(key, &key_bytes);
    key_state state = look_at(call, key, key_bytes);

    await_confirmation();
    if (is_read(use, options)) {
        sampler_record(&spreds, hash, SAMPLER_READ_HIT, state.flags, state.db, state.size_bytes,
                       now_us());
    }
    if (use != KEYS_READ) record_write(call, c, use, at, options, state, key_bytes, hash);
}

/* An access to the key in argument `at`. */
static void access_key(RedisModuleCommandFilterCtx *call, const command *c, key_use use, int at) {
    size_t key_bytes;
    RedisModuleString *key = RedisModule_CommandFilterArgGet(call, at);
    if (!key) return; /* too few arguments: the server will refuse it */
    const char *text = RedisModule_StringPtrLen(key, &key_bytes);
    uint64_t hash = sampler_hash(text, key_bytes, spreds.salt);
    set_options options = {0};

    if (c->special == SPECIAL_SET) options = options_of_set(call);
    spreds.seen_others += use != KEYS_READ;
    if (sampler_takes(&spreds, hash)) record_access(call, c, use, options, at, hash);
}

/* The first argument after `keyword`, searched from `start` on; 0 if it is not there. A negative
 * start counts from the end, and searches backwards. */
static int find_keyword(RedisModuleCommandFilterCtx *call, int count, int start,
                        const char *keyword) {
    int forward = start > 0;
    for (int i = forward ? start : count + start; i > 0 && i < count; i += forward ? 1 : -1) {
        RedisModuleString *argument = RedisModule_CommandFilterArgGet(call, i);
        if (!strcasecmp(RedisModule_StringPtrLen(argument, NULL), keyword)) return i + 1;
    }
    return 0;
}

/* All keys of one range. */
static void access_range(RedisModuleCommandFilterCtx *call, const command *c, const key_range *r) {
    int count = RedisModule_CommandFilterArgsCount(call);
    int start = r->keyword ? find_keyword(call, count, r->start, r->keyword) : r->start;
    int first = start, last;

    if (start == 0) return;
    if (r->first) {
        RedisModuleString *number = RedisModule_CommandFilterArgGet(call, start + r->count_at);
        long long keys;
        if (!number || RedisModule_StringToLongLong(number, &keys) != REDISMODULE_OK) return;
        if (keys < 1 || keys > count) return;
        first = start + r->first;
        last = first + ((int)keys - 1) * r->step;
    } else if (r->last >= 0) {
        last = start + r->last;
    } else if (r->limit > 1) {
        last = start + (count - start) / r->limit - 1;
    } else {
        last = count + r->last;
    }
    if (last >= count) last = count - 1;
    if (last > first) {
        sampler_reserve(&spreds, (uint64_t)((last - first) / r->step + 1));
        if (command_start > spreds.count) command_start = 0;
    }
    for (int at = first; at <= last; at += r->step) access_key(call, c, r->use, at);
}

/* ----------------------------------------------------------------------------------- the filter */

__attribute__((noinline)) static void access_all(RedisModuleCommandFilterCtx *call,
                                                 const command *c) {
    if (c->special == SPECIAL_CLIENT) watch_client(call);
    if (c->special == SPECIAL_EMPTIES) watch_databases();
    remember_home(call, c);
    command_start = c->special == SPECIAL_EXECUTES ? 0 : spreds.count;
    for (int i = 0; i < c->ranges; i++) access_range(call, c, &c->range[i]);
}

/* Sees every command. Most have one key, and it is not sampled: that road is short. */
static void filter(RedisModuleCommandFilterCtx *call) {
    size_t length, key_bytes;
    const char *name = RedisModule_StringPtrLen(RedisModule_CommandFilterArgGet(call, 0), &length);
    const command_slot *slot = command_find(name, length);

    if (unconfirmed) confirm();
    if (!slot) return;
    if (slot->road != ROAD_ONE_KEY &&
        (slot->road == ROAD_LONG || RedisModule_CommandFilterArgsCount(call) > 3)) {
        access_all(call, &commands[slot->index]);
        return;
    }
    RedisModuleString *key = RedisModule_CommandFilterArgGet(call, 1);
    if (!key) return; /* the server will refuse it */
    const char *text = RedisModule_StringPtrLen(key, &key_bytes);
    uint64_t hash = sampler_hash(text, key_bytes, spreds.salt);
    spreds.seen_others += slot->one_use != KEYS_READ;
    if (sampler_takes(&spreds, hash)) {
        command_start = spreds.count;
        record_access(call, &commands[slot->index], slot->one_use, (set_options){0}, 1, hash);
    }
}

/* While sampling is off, if events have to be listened to all the same. */
static void filter_for_home(RedisModuleCommandFilterCtx *call) {
    size_t length;
    const char *name = RedisModule_StringPtrLen(RedisModule_CommandFilterArgGet(call, 0), &length);
    const command_slot *slot = command_find(name, length);
    if (slot) remember_home(call, &commands[slot->index]);
}

void filter_commands(int on) {
    static RedisModuleCommandFilter *registered;

    if (registered) RedisModule_UnregisterCommandFilter(detached, registered);
    registered = NULL;
    if (on) {
        if (get_client_id) learn_untouching();
        registered = RedisModule_RegisterCommandFilter(detached, filter, 0);
    } else if (leaves_clients_away) {
        registered = RedisModule_RegisterCommandFilter(detached, filter_for_home, 0);
    }
}
