#include "command_filter.h"

#include "keyspace_events.h"
#include "no_touch_clients.h"
#include "refusals.h"
#include "selected_db.h"

#include <strings.h>

/* Set before the filter is registered; the server hands it no pointer. */
static module_state *module;

/* ------------------------------------------------------------------------------ state of a key */

/* What is known about a key at the moment before a command. */
typedef struct {
    uint16_t db;
    int exists; /* -1: not known */
    int flags;
    uint64_t size_bytes;
    int64_t ttl_ms; /* SAMPLER_NO_TTL: none, or not known */
} key_state;

/* Inspects a sampled key, if this server allows to do so without touching it. */
static key_state inspect(RedisModuleCommandFilterCtx *call, RedisModuleString *key,
                         size_t key_bytes) {
    key_state state = {.db = SAMPLER_DB_UNKNOWN, .exists = -1, .ttl_ms = SAMPLER_NO_TTL};
    RedisModuleClientInfoV1 client = REDISMODULE_CLIENTINFO_INITIALIZER_V1;

    if (!module->get_client_id) return state;
    unsigned long long id = module->get_client_id(call);
    if (RedisModule_GetClientInfoById(&client, id) != REDISMODULE_OK) {
        state.db = db_selected_by_script(module);
        return state;
    }
    state.db = client.db;
    if (may_be_no_touch(id)) return state;
    if (RedisModule_SelectDb(module->ctx, client.db) != REDISMODULE_OK) return state;
    RedisModuleKey *opened = RedisModule_OpenKey(module->ctx, key, OPEN_WITHOUT_EFFECTS);
    state.exists = opened != NULL;
    if (opened) {
        if (RedisModule_KeyType(opened) == REDISMODULE_KEYTYPE_STRING) {
            state.size_bytes = key_bytes + RedisModule_ValueLength(opened);
            state.flags |= SAMPLER_SIZE_KNOWN;
        }
        state.ttl_ms = RedisModule_GetExpire(opened); /* REDISMODULE_NO_EXPIRE is SAMPLER_NO_TTL */
        RedisModule_CloseKey(opened);
    }
    return state;
}

/* ------------------------------------------------------------------------------------- accesses */

typedef struct {
    int reads, expires, keeps_ttl;
    int64_t ttl_ms; /* where it expires; SAMPLER_NO_TTL: not understood */
} set_options;

/* How long a key will live that is set to live for the number in argument `at`, in units of so many
 * ms, or until that time (`is_time`). SAMPLER_NO_TTL: the server will refuse it. */
static int64_t ttl_in_argument(RedisModuleCommandFilterCtx *call, int at, long long unit_ms,
                               int is_time) {
    RedisModuleString *argument = RedisModule_CommandFilterArgGet(call, at);
    long long number, ms;

    if (!argument || RedisModule_StringToLongLong(argument, &number) != REDISMODULE_OK ||
        number <= 0 || __builtin_mul_overflow(number, unit_ms, &ms)) {
        return SAMPLER_NO_TTL;
    }
    if (is_time) ms -= (long long)(now_us() / 1000);
    return ms > 0 ? ms : 0;
}

/* The unit of EX, EXAT, SETEX, PX, PXAT, PSETEX in ms. */
static long long expiry_unit_ms(const char *name) {
    return name[0] == 'p' || name[0] == 'P' ? 1 : 1000;
}

static int64_t ttl_of_setex(RedisModuleCommandFilterCtx *call, int at) {
    RedisModuleString *name = RedisModule_CommandFilterArgGet(call, 0);
    return ttl_in_argument(call, at, expiry_unit_ms(RedisModule_StringPtrLen(name, NULL)), 0);
}

/* The options of SET; all of them stand after the value. */
static set_options options_of_set(RedisModuleCommandFilterCtx *call) {
    set_options options = {0};
    int count = RedisModule_CommandFilterArgsCount(call);

    for (int i = COMMAND_WITHOUT_OPTIONS; i < count; i++) {
        RedisModuleString *argument = RedisModule_CommandFilterArgGet(call, i);
        const char *option = RedisModule_StringPtrLen(argument, NULL);
        if (!strcasecmp(option, "get")) {
            options.reads = 1;
        } else if (!strcasecmp(option, "keepttl")) {
            options.keeps_ttl = 1;
        } else if (!strncasecmp(option, "ex", 2) || !strncasecmp(option, "px", 2)) {
            int is_time = !strcasecmp(option + 2, "at");
            if (option[2] && !is_time) continue;
            options.expires = 1;
            options.ttl_ms = ttl_in_argument(call, ++i, expiry_unit_ms(option), is_time);
        }
    }
    return options;
}

static int is_read(key_use use, set_options options) {
    return use == KEYS_READ || use == KEYS_READ_AND_WRITTEN || options.reads;
}

static void record_write(RedisModuleCommandFilterCtx *call, const command *c, key_use use, int at,
                         set_options options, key_state state, size_t key_bytes, uint64_t hash) {
    int flags = 0;
    int64_t ttl_ms = state.ttl_ms;
    uint64_t size_bytes = 0;

    if (use == KEYS_CHANGED && state.exists != 1) return;
    if (c->value_offset) {
        RedisModuleString *value = RedisModule_CommandFilterArgGet(call, at + c->value_offset);
        size_t value_bytes;
        if (!value) return; /* the server will refuse it */
        RedisModule_StringPtrLen(value, &value_bytes);
        size_bytes = key_bytes + value_bytes;
        flags = SAMPLER_SIZE_KNOWN;
        if (!options.keeps_ttl) ttl_ms = SAMPLER_NO_TTL;
        if (options.expires || c->special == SPECIAL_EXPIRES) {
            flags |= SAMPLER_HAS_TTL;
            ttl_ms = options.expires ? options.ttl_ms : ttl_of_setex(call, at + 1);
            module->pending.ttl_hash = hash;
            module->pending.sets_ttl = 1;
        }
    }
    sampler_record(&module->sampler, hash, SAMPLER_WRITE, flags, state.db, size_bytes, ttl_ms,
                   now_us());
}

/* Records the access to a sampled key in argument `at`. */
__attribute__((noinline)) static void record_access(RedisModuleCommandFilterCtx *call,
                                                    const command *c, key_use use,
                                                    set_options options, int at, uint64_t hash) {
    size_t key_bytes;
    if (!module->sampler.on) return; /* in a forked child */
    RedisModuleString *key = RedisModule_CommandFilterArgGet(call, at);
    RedisModule_StringPtrLen(key, &key_bytes);
    key_state state = inspect(call, key, key_bytes);

    await_confirmation(module);
    if (is_read(use, options)) {
        sampler_record(&module->sampler, hash, SAMPLER_READ_HIT, state.flags, state.db,
                       state.size_bytes, state.ttl_ms, now_us());
    }
    if (use != KEYS_READ) record_write(call, c, use, at, options, state, key_bytes, hash);
}

/* Counts the access to the key in argument `at`, and records it if the key is sampled. */
static void observe_key(RedisModuleCommandFilterCtx *call, const command *c, key_use use, int at) {
    size_t key_bytes;
    RedisModuleString *key = RedisModule_CommandFilterArgGet(call, at);
    if (!key) return; /* too few arguments: the server will refuse it */
    const char *text = RedisModule_StringPtrLen(key, &key_bytes);
    sampler *s = &module->sampler;
    uint64_t hash = sampler_hash(text, key_bytes, s->salt);
    set_options options = {0};

    if (c->special == SPECIAL_SET) options = options_of_set(call);
    s->seen_others += use != KEYS_READ;
    if (sampler_takes(s, hash)) record_access(call, c, use, options, at, hash);
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
static void observe_range(RedisModuleCommandFilterCtx *call, const command *c, const key_range *r) {
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
        sampler_reserve(&module->sampler, (uint64_t)((last - first) / r->step + 1));
        if (module->pending.first_record > module->sampler.count) module->pending.first_record = 0;
    }
    for (int at = first; at <= last; at += r->step) observe_key(call, c, r->use, at);
}

/* ----------------------------------------------------------------------------------- the filter */

__attribute__((noinline)) static void observe_ranges(RedisModuleCommandFilterCtx *call,
                                                     const command *c) {
    if (c->special == SPECIAL_CLIENT) watch_client_command(module, call);
    if (c->special == SPECIAL_FLUSHES_OR_SWAPS) watch_databases();
    remember_selected_db(module, call, c);
    module->pending.first_record = c->special == SPECIAL_EXECUTES ? 0 : module->sampler.count;
    for (int i = 0; i < c->ranges; i++) observe_range(call, c, &c->range[i]);
}

/* Sees every command. Most have one key, and it is not sampled: that path is short. */
static void filter(RedisModuleCommandFilterCtx *call) {
    size_t length, key_bytes;
    const char *name = RedisModule_StringPtrLen(RedisModule_CommandFilterArgGet(call, 0), &length);
    const command_slot *slot = command_find(&module->commands, name, length);

    if (module->pending.unconfirmed) confirm_pending(module);
    if (!slot) return;
    if (slot->layout != LAYOUT_ONE_KEY &&
        (slot->layout == LAYOUT_RANGES ||
         RedisModule_CommandFilterArgsCount(call) > COMMAND_WITHOUT_OPTIONS)) {
        observe_ranges(call, &module->commands.commands[slot->index]);
        return;
    }
    RedisModuleString *key = RedisModule_CommandFilterArgGet(call, 1);
    if (!key) return; /* the server will refuse it */
    const char *text = RedisModule_StringPtrLen(key, &key_bytes);
    sampler *s = &module->sampler;
    uint64_t hash = sampler_hash(text, key_bytes, s->salt);
    s->seen_others += slot->writes;
    if (sampler_takes(s, hash)) {
        const command *c = &module->commands.commands[slot->index];
        module->pending.first_record = s->count;
        record_access(call, c, c->range[0].use, (set_options){0}, 1, hash);
    }
}

/* While sampling is off, if events have to be listened to all the same. */
static void filter_for_selected_db(RedisModuleCommandFilterCtx *call) {
    size_t length;
    const char *name = RedisModule_StringPtrLen(RedisModule_CommandFilterArgGet(call, 0), &length);
    const command_slot *slot = command_find(&module->commands, name, length);
    if (slot) remember_selected_db(module, call, &module->commands.commands[slot->index]);
}

void filter_commands(module_state *state, int on) {
    static RedisModuleCommandFilter *registered;

    module = state;
    if (registered) RedisModule_UnregisterCommandFilter(module->ctx, registered);
    registered = NULL;
    if (on) {
        if (module->get_client_id) learn_no_touch_clients(module);
        registered = RedisModule_RegisterCommandFilter(module->ctx, filter, 0);
    } else if (module->loses_selected_db) {
        registered = RedisModule_RegisterCommandFilter(module->ctx, filter_for_selected_db, 0);
    }
}
