/* SPREDS as a module, for servers that are not patched: Redis 7.0 and later, Valkey 8 and later.
 *
 * This is the glue between the server's module interface and the sampler (sampler.h). Commands pass
 * a filter before they run: there reads are recorded, and writes of values. Events of the keyspace
 * tell what a command's arguments cannot: misses, deletes, expiries, evictions, and what the generic
 * commands (EXPIRE, RENAME, COPY ...) changed. Events for each write would be exact, but cost some
 * 490 instructions a SET (measured with callgrind on Redis 7.0.15).
 *
 * What this way of looking misses is written down in MODULE.md, and each line of that is tested. */

#define _GNU_SOURCE /* memmem */

#include "command_table.h"
#include "redismodule.h"
#include "sampler.h"
#include "transport.h"

#include <inttypes.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

static sampler spreds;
static transport spreds_transport;

/* For calls to the server from where there is no context: the filter and the configuration. */
static RedisModuleCtx *detached;

/* ------------------------------------------------------------------------- the server's interface */

/* Only in Redis 7.2 and later. Since then a key can also be opened without any effect on it. */
static unsigned long long (*get_client_id)(RedisModuleCommandFilterCtx *call);
#define OPEN_WITHOUT_EFFECTS (REDISMODULE_READ | (1 << 16) | (1 << 17) | (1 << 18) | (1 << 19))

/* Only sampled accesses ask for the time: a few milliseconds of grain are enough, and cheap. */
static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* What is known about a key at the moment before a command. */
typedef struct {
    uint16_t db;
    int exists; /* -1: not known */
    int flags;
    uint64_t size_bytes;
} key_state;

/* Some client may have asked by CLIENT NO-TOUCH that its accesses do not count. For such a client a
 * key cannot be opened from the filter: Redis and Valkey up to 9.1 then read the command that runs,
 * and none runs yet. Nothing tells which client it is; so no key is opened any more. */
static int may_be_untouching;

/* Looks at a sampled key, if this server allows to do so without touching it. */
static key_state look_at(RedisModuleCommandFilterCtx *call, RedisModuleString *key,
                         size_t key_bytes) {
    key_state state = {.db = SAMPLER_DB_UNKNOWN, .exists = -1};
    RedisModuleClientInfoV1 client = {.version = 1};

    if (!get_client_id) return state;
    /* Commands of a script have no client of their own that could be asked. */
    if (RedisModule_GetClientInfoById(&client, get_client_id(call)) != REDISMODULE_OK) return state;
    state.db = client.db;
    if (may_be_untouching) return state;
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

/* ----------------------------------------------------------------------------- the command filter */

/* Misses whose read was no longer in the open batch: these reads stay recorded as hits. */
static uint64_t late_misses;

/* Where the records of the newest command begin in the open batch: its misses belong to them. */
static uint32_t command_start;

/* A sampled SET gives a TTL: the "expire" event that follows belongs to the same write. */
static uint64_t expiring_hash;
static int expiring;

/* When a command was last seen that may flush or swap databases; 0: not since a minute. */
static uint64_t emptying_us;

static void watch_databases(void);

/* Valkey 8.1 and later: see bring_home(). */
static int leaves_clients_away;

/* The database that the command, transaction or script that runs is in; -1: not known. */
static int home_db = -1;

static void remember_home(RedisModuleCommandFilterCtx *call, const command *c) {
    RedisModuleClientInfoV1 client = {.version = 1};
    long long selected;

    if (!leaves_clients_away) return;
    if (c->special != SPECIAL_COPIES && c->special != SPECIAL_EXECUTES &&
        c->special != SPECIAL_SELECTS) return;
    if (RedisModule_GetClientInfoById(&client, get_client_id(call)) == REDISMODULE_OK) {
        /* What a transaction queues runs later, in the database of its EXEC. */
        if (!(client.flags & REDISMODULE_CLIENTINFO_FLAG_MULTI) || c->special == SPECIAL_EXECUTES) {
            home_db = client.db;
        }
    } else if (!(RedisModule_GetContextFlags(detached) & REDISMODULE_CTX_FLAGS_LUA)) {
        home_db = -1; /* another module's command */
    } else if (c->special == SPECIAL_SELECTS && RedisModule_CommandFilterArgGet(call, 1) &&
               RedisModule_StringToLongLong(RedisModule_CommandFilterArgGet(call, 1), &selected) ==
                   REDISMODULE_OK) {
        home_db = (int)selected;
    }
}

typedef struct {
    int reads, expires, keeps_ttl;
} set_options;

/* The options of SET; all of them stand after the value. */
static set_options options_of_set(RedisModuleCommandFilterCtx *call) {
    set_options options = {0};
    int count = RedisModule_CommandFilterArgsCount(call);

    for (int i = 3; i < count; i++) {
        const char *option = RedisModule_StringPtrLen(RedisModule_CommandFilterArgGet(call, i), NULL);
        if (!strcasecmp(option, "get")) options.reads = 1;
        else if (!strcasecmp(option, "keepttl")) options.keeps_ttl = 1;
        else if (!strcasecmp(option, "ex") || !strcasecmp(option, "px") ||
                 !strcasecmp(option, "exat") || !strcasecmp(option, "pxat")) options.expires = 1;
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
    spreds.seen_reads += (uint64_t)is_read(use, options);
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

/* CLIENT, of which one subcommand matters. */
static void watch_client(RedisModuleCommandFilterCtx *call) {
    RedisModuleString *subcommand = RedisModule_CommandFilterArgGet(call, 1);
    if (subcommand && !strcasecmp(RedisModule_StringPtrLen(subcommand, NULL), "no-touch")) {
        may_be_untouching = 1;
    }
}

/* Whether a client has asked so while nobody looked; if the server does not say, one may have. */
static int is_any_untouching(void) {
    static const char field[] = " flags=";
    size_t length = 0;
    int found = 1;
    RedisModuleCallReply *reply = RedisModule_Call(detached, "CLIENT", "c", "LIST");

    if (reply && RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_STRING) {
        const char *list = RedisModule_CallReplyStringPtr(reply, &length), *end = list + length;
        found = 0;
        while ((list = memmem(list, (size_t)(end - list), field, sizeof field - 1))) {
            for (list += sizeof field - 1; list < end && *list != ' '; list++) found |= *list == 'T';
        }
    }
    if (reply) RedisModule_FreeCallReply(reply);
    return found;
}

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
    if (slot->one_use == KEYS_READ) spreds.seen_reads++;
    else spreds.seen_others++;
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

/* ------------------------------------------------------------------------- events of the keyspace */

static int is_event(const char *event, const char *name) {
    return !strcmp(event, name);
}

/* The read that missed stands in the open batch as a hit. */
static void record_miss(uint64_t hash, uint16_t db) {
    sampler_record_t *read = sampler_amend(&spreds, hash, SAMPLER_READ_HIT, command_start);
    if (!read) {
        late_misses++;
        return;
    }
    *read = (sampler_record_t){.hash = hash, .db = db, .operation = SAMPLER_READ_MISS};
}

static void record_event(int type, const char *event, RedisModuleString *key, uint16_t db) {
    size_t key_bytes;
    int operation, flags = 0;
    const char *text = RedisModule_StringPtrLen(key, &key_bytes);
    uint64_t hash = sampler_hash(text, key_bytes, spreds.salt);

    if (type == REDISMODULE_NOTIFY_KEY_MISS) {
        if (sampler_takes(&spreds, hash)) record_miss(hash, db);
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
        int is_of_set = expiring && expiring_hash == hash;
        if (is_of_set) expiring = 0;
        if (is_of_set) return;
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

/* Valkey 8.1 runs this on the client's own context, and leaves the client in the database of the
 * event (valkey-io/valkey pull request 4024 repairs it): bring it back after MOVE and COPY. */
static void bring_home(RedisModuleCtx *ctx, const char *event) {
    if (is_event(event, "move_from")) {
        home_db = RedisModule_GetSelectedDb(ctx);
    } else if ((is_event(event, "move_to") || is_event(event, "copy_to")) && home_db >= 0) {
        RedisModule_SelectDb(ctx, home_db);
    }
}

static int on_event(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *key) {
    uint16_t db = (uint16_t)RedisModule_GetSelectedDb(ctx);

    if (leaves_clients_away && type == REDISMODULE_NOTIFY_GENERIC) bring_home(ctx, event);
    if (spreds.on) record_event(type, event, key, db);
    return REDISMODULE_OK;
}
/* ----------------------------------------------------------------------------- databases as a whole */

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

/* Listening costs each turn of the server's event loop some 120 instructions: it begins when a
 * command is seen that may flush or swap, and ends a minute after the last of them, when any
 * transaction that held it has run. */
#define WATCH_DATABASES_US 60000000

static void watch_databases(void) {
    if (!emptying_us) {
        RedisModule_SubscribeToServerEvent(detached, RedisModuleEvent_FlushDB, on_flush);
        RedisModule_SubscribeToServerEvent(detached, RedisModuleEvent_SwapDB, on_swap);
    }
    emptying_us = now_us();
}

static void stop_watching_databases(void) {
    RedisModule_SubscribeToServerEvent(detached, RedisModuleEvent_FlushDB, NULL);
    RedisModule_SubscribeToServerEvent(detached, RedisModuleEvent_SwapDB, NULL);
    emptying_us = 0;
}

/* ------------------------------------------------------------------------------------------ timer */

static RedisModuleTimerID timer;
static int timer_runs;

static void on_timer(RedisModuleCtx *ctx, void *data);

static void run_timer(int64_t milliseconds) {
    if (timer_runs) return;
    timer = RedisModule_CreateTimer(detached, milliseconds, on_timer, NULL);
    timer_runs = 1;
}

static void stop_timer(void) {
    if (timer_runs) RedisModule_StopTimer(detached, timer, NULL);
    timer_runs = 0;
}

/* ---------------------------------------------------------------------------------- configuration */

/* Looks at commands and events, or at commands no longer; the server has no way to unsubscribe from
 * events. A module that was never switched on costs nothing at either. */
static void look(int on) {
    static RedisModuleCommandFilter *registered;
    static int looking, subscribed;

    if (on == looking) return;
    looking = on;
    if (registered) RedisModule_UnregisterCommandFilter(detached, registered);
    registered = NULL;
    if (on) {
        may_be_untouching = get_client_id && is_any_untouching();
        registered = RedisModule_RegisterCommandFilter(detached, filter, 0);
    } else if (leaves_clients_away) {
        registered = RedisModule_RegisterCommandFilter(detached, filter_for_home, 0);
    }
    if (!subscribed) {
        RedisModule_SubscribeToKeyspaceEvents(
            detached, REDISMODULE_NOTIFY_GENERIC | REDISMODULE_NOTIFY_EXPIRED |
                          REDISMODULE_NOTIFY_EVICTED | REDISMODULE_NOTIFY_KEY_MISS, on_event);
        subscribed = 1;
    }
}

static struct {
    RedisModuleString *endpoint;
    long long threshold, modulus, salt; /* salt 0 is replaced by a random one */
} settings;

static char *endpoint_in_force; /* NULL: none */

/* The first timer runs when the server has loaded its data: what happens while it replays a log of
 * commands are no accesses. */
static int is_loaded;

static void start(void) {
    if (!is_loaded) return;
    look(endpoint_in_force != NULL);
    if (!endpoint_in_force) {
        stop_timer(); /* the server unloads no module that has one */
        return;
    }
    sampler_start(&spreds, now_us());
    run_timer(SAMPLER_FLUSH_US / 1000);
}

static void on_timer(RedisModuleCtx *ctx, void *data) {
    uint64_t now = now_us();
    (void)ctx, (void)data;
    timer_runs = 0;
    if (!is_loaded) {
        is_loaded = 1;
        start();
    }
    if (!spreds.on) return;
    sampler_tick(&spreds, now);
    if (emptying_us && now > emptying_us + WATCH_DATABASES_US) stop_watching_databases();
    run_timer(SAMPLER_FLUSH_US / 1000);
}

static long long get_number(const char *name, void *number) {
    (void)name;
    return *(long long *)number;
}

static int set_number(const char *name, long long value, void *number, RedisModuleString **err) {
    (void)name, (void)err;
    *(long long *)number = value;
    return REDISMODULE_OK;
}

static RedisModuleString *get_endpoint(const char *name, void *data) {
    (void)name, (void)data;
    return settings.endpoint;
}

static int set_endpoint(const char *name, RedisModuleString *value, void *data,
                        RedisModuleString **err) {
    (void)name, (void)data, (void)err;
    if (settings.endpoint) RedisModule_FreeString(NULL, settings.endpoint);
    RedisModule_RetainString(NULL, value);
    settings.endpoint = value;
    return REDISMODULE_OK;
}

static int refuse(RedisModuleString **err, const char *why) {
    if (err) *err = RedisModule_CreateString(NULL, why, strlen(why));
    return REDISMODULE_ERR;
}

/* Connects to the endpoint that is set, unless it is the one in force; starts or stops sampling. */
static const char *apply_endpoint(void) {
    const char *wanted = RedisModule_StringPtrLen(settings.endpoint, NULL);

    if (!strcmp(wanted, endpoint_in_force ? endpoint_in_force : "")) return NULL;
    sampler_stop(&spreds, now_us()); /* what was sampled for the old one goes there */
    const char *why = transport_connect(&spreds_transport, wanted);
    if (!why) {
        free(endpoint_in_force);
        endpoint_in_force = *wanted ? strdup(wanted) : NULL;
    }
    start();
    return why;
}

/* Puts the settings into effect, once after all that one CONFIG SET has changed. */
static int apply(RedisModuleCtx *ctx, void *data, RedisModuleString **err) {
    (void)ctx, (void)data;
    if (!sampler_sampling_is_valid((uint64_t)settings.threshold, (uint64_t)settings.modulus)) {
        return refuse(err, "spreds.modulus must be a power of two up to 4294967296, "
                           "and spreds.threshold at most spreds.modulus");
    }
    while (settings.salt == 0) {
        RedisModule_GetRandomBytes((unsigned char *)&settings.salt, sizeof settings.salt);
        settings.salt &= INT64_MAX;
    }
    const char *why = apply_endpoint();
    if (why) return refuse(err, why);
    sampler_set_sampling(&spreds, (uint64_t)settings.threshold, (uint64_t)settings.modulus,
                         (uint64_t)settings.salt, now_us());
    return REDISMODULE_OK;
}

static void info(RedisModuleInfoCtx *ctx, int for_crash_report) {
    (void)for_crash_report;
    char salt_id[17];
    snprintf(salt_id, sizeof salt_id, "%016" PRIx64, spreds.batch.header.salt_id);
    RedisModule_InfoAddSection(ctx, "");
    RedisModule_InfoAddFieldLongLong(ctx, "on", spreds.on);
    RedisModule_InfoAddFieldULongLong(ctx, "threshold", spreds.threshold);
    RedisModule_InfoAddFieldULongLong(ctx, "modulus", spreds.mask + 1);
    RedisModule_InfoAddFieldCString(ctx, "salt_id", salt_id);
    RedisModule_InfoAddFieldULongLong(ctx, "seen", spreds.seen_reads + spreds.seen_others);
    RedisModule_InfoAddFieldULongLong(ctx, "seen_reads", spreds.seen_reads);
    RedisModule_InfoAddFieldULongLong(ctx, "sampled", spreds.sampled);
    RedisModule_InfoAddFieldULongLong(ctx, "dropped", spreds.dropped);
    RedisModule_InfoAddFieldULongLong(ctx, "batches", spreds.batch.header.sequence);
    RedisModule_InfoAddFieldULongLong(ctx, "batches_dropped", spreds.batches_dropped);
    RedisModule_InfoAddFieldULongLong(ctx, "late_misses", late_misses);
}

/* -------------------------------------------------------------------------------- load and unload */

/* The first 16 hexadecimal digits of the run id; notices on the way which server this is. */
static uint64_t instance_of_server(RedisModuleCtx *ctx) {
    char digits[17] = {0};
    RedisModuleServerInfoData *data = RedisModule_GetServerInfo(ctx, "server");
    leaves_clients_away =
        get_client_id && RedisModule_ServerInfoGetFieldC(data, "valkey_version") != NULL;
    const char *run_id = RedisModule_ServerInfoGetFieldC(data, "run_id");
    if (run_id) strncpy(digits, run_id, 16);
    RedisModule_FreeServerInfo(ctx, data);
    return strtoull(digits, NULL, 16);
}

__attribute__((visibility("default"))) int RedisModule_OnLoad(RedisModuleCtx *ctx,
                                                              RedisModuleString **argv, int argc) {
    (void)argv, (void)argc;
    if (RedisModule_Init(ctx, "spreds", 1, REDISMODULE_APIVER_1) != REDISMODULE_OK ||
        !RedisModule_RegisterNumericConfig) {
        return REDISMODULE_ERR;
    }
    RedisModule_GetApi("RedisModule_CommandFilterGetClientId", (void **)&get_client_id);
    if (command_table_load(ctx) < 0) {
        RedisModule_Log(ctx, "warning", "spreds does not understand this server's COMMAND");
        return REDISMODULE_ERR;
    }
    detached = RedisModule_GetDetachedThreadSafeContext(ctx);
    sampler_init(&spreds, SAMPLER_SOURCE_MODULE, instance_of_server(ctx), transport_send,
                 &spreds_transport);
    if (RedisModule_RegisterStringConfig(ctx, "endpoint", "", REDISMODULE_CONFIG_DEFAULT,
                                         get_endpoint, set_endpoint, apply, NULL) ||
        RedisModule_RegisterNumericConfig(ctx, "threshold", SAMPLER_DEFAULT_THRESHOLD,
                                          REDISMODULE_CONFIG_DEFAULT, 0, SAMPLER_MAX_MODULUS,
                                          get_number, set_number, apply, &settings.threshold) ||
        RedisModule_RegisterNumericConfig(ctx, "modulus", SAMPLER_DEFAULT_MODULUS,
                                          REDISMODULE_CONFIG_DEFAULT, 1, SAMPLER_MAX_MODULUS,
                                          get_number, set_number, apply, &settings.modulus) ||
        RedisModule_RegisterNumericConfig(ctx, "salt", 0, REDISMODULE_CONFIG_DEFAULT, 0, INT64_MAX,
                                          get_number, set_number, apply, &settings.salt) ||
        RedisModule_LoadConfigs(ctx) ||
        RedisModule_RegisterInfoFunc(ctx, info)) {
        return REDISMODULE_ERR;
    }
    if (apply(ctx, NULL, NULL) != REDISMODULE_OK) {
        RedisModule_Log(ctx, "warning", "spreds cannot use its configuration: spreds.modulus must "
                                        "be a power of two, spreds.threshold at most that, "
                                        "spreds.endpoint an address that ZeroMQ understands");
        return REDISMODULE_ERR;
    }
    run_timer(0);
    return REDISMODULE_OK;
}

__attribute__((visibility("default"))) int RedisModule_OnUnload(RedisModuleCtx *ctx) {
    (void)ctx;
    transport_close(&spreds_transport);
    if (settings.endpoint) RedisModule_FreeString(NULL, settings.endpoint);
    free(endpoint_in_force);
    RedisModule_FreeThreadSafeContext(detached);
    return REDISMODULE_OK;
}
