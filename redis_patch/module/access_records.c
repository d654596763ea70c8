#include "access_records.h"

#include "asked_sizes.h"
#include "keys_after_command.h"
#include "no_touch_clients.h"
#include "refusals.h"

#include <strings.h>

/* ------------------------------------------------------------------------------------------ options */

static const char *text_at(RedisModuleCommandFilterCtx *call, int at) {
    RedisModuleString *argument = RedisModule_CommandFilterArgGet(call, at);
    return argument ? RedisModule_StringPtrLen(argument, NULL) : "";
}

int find_keyword(RedisModuleCommandFilterCtx *call, int start, const char *keyword) {
    int count = RedisModule_CommandFilterArgsCount(call), forward = start > 0;
    for (int i = forward ? start : count + start; i > 0 && i < count; i += forward ? 1 : -1) {
        if (!strcasecmp(text_at(call, i), keyword)) return i + 1;
    }
    return 0;
}

/* An access to a sampled key. */
typedef struct {
    const command *command;
    key_use use;
    int at; /* which argument the key is */
    RedisModuleString *key;
    size_t key_bytes;
    uint64_t hash;
    int sets_ttl;
    int64_t ttl_ms; /* that it sets; SAMPLER_NO_TTL: none, or not understood */
} access;

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

/* The options of SET; all of them stand after the value. */
static void take_options_of_set(module_state *module, RedisModuleCommandFilterCtx *call,
                                access *a) {
    int count = RedisModule_CommandFilterArgsCount(call), is_seen = keys_can_be_seen(module);

    for (int i = 3; i < count; i++) {
        const char *option = text_at(call, i);
        if (!strcasecmp(option, "ifeq")) {
            i++; /* Valkey 8.1: what follows is a value */
        } else if (!strcasecmp(option, "get")) {
            a->use |= KEYS_READ;
        } else if (!strcasecmp(option, "nx") && is_seen) {
            a->use = (a->use & KEYS_READ) | KEYS_MADE;
        } else if (!strcasecmp(option, "xx") && is_seen) {
            a->use = (a->use & KEYS_READ) | KEYS_CHANGED;
        } else if (!strncasecmp(option, "ex", 2) || !strncasecmp(option, "px", 2)) {
            int is_time = !strcasecmp(option + 2, "at");
            if (option[2] && !is_time) continue;
            a->sets_ttl = 1;
            a->ttl_ms = ttl_in_argument(call, ++i, expiry_unit_ms(option), is_time);
        }
    }
}

static void take_options(module_state *module, RedisModuleCommandFilterCtx *call, access *a) {
    switch (a->command->special) {
    case SPECIAL_SET:
        take_options_of_set(module, call, a);
        break;
    case SPECIAL_EXPIRES:
        a->sets_ttl = 1;
        a->ttl_ms = ttl_in_argument(call, a->at + 1, expiry_unit_ms(text_at(call, 0)), 0);
        break;
    case SPECIAL_BITFIELD:
        if (!find_keyword(call, 2, "set") && !find_keyword(call, 2, "incrby")) {
            a->use = KEYS_READ;
        }
        break;
    case SPECIAL_COPIES:
        if (a->use == KEYS_WRITTEN && !find_keyword(call, 3, "replace")) a->use = KEYS_MADE;
        break;
    default:
        break;
    }
}

/* The database that the change is made in: COPY and MOVE may name another one than the client's. */
static uint16_t db_of_change(RedisModuleCommandFilterCtx *call, const access *a, uint16_t db) {
    command_special special = a->command->special;
    long long named;
    int at = 0;

    if (special == SPECIAL_COPIES && a->use != KEYS_READ) at = find_keyword(call, 3, "db");
    if (special == SPECIAL_MOVES && a->use == KEYS_MADE) at = 2;
    RedisModuleString *number = at ? RedisModule_CommandFilterArgGet(call, at) : NULL;
    int is_named = number && RedisModule_StringToLongLong(number, &named) == REDISMODULE_OK &&
                   named >= 0 && named < SAMPLER_DB_UNKNOWN;
    return is_named ? (uint16_t)named : db;
}

/* ------------------------------------------------------------------------------------------ records */

static void record(module_state *module, const access *a, int operation, const key_state *state,
                   uint16_t db) {
    sampler_record(&module->sampler, a->hash, operation, state->flags, db, state->size_bytes,
                   state->ttl_ms, now_us());
    if (state->has_elements) want_size(module, a->hash, db, a->key);
}

static const key_state NOTHING_KNOWN = {.ttl_ms = SAMPLER_NO_TTL};

/* A write as it is asked for: where nothing more can be known about the key. */
static void record_asked_write(module_state *module, RedisModuleCommandFilterCtx *call,
                               const access *a, uint16_t db) {
    int value_offset = a->command->value_offset;
    key_state asked = {.ttl_ms = SAMPLER_NO_TTL, .has_elements = a->command->has_elements};

    if (!(a->use & (KEYS_WRITTEN | KEYS_MADE))) return;
    if (value_offset) {
        RedisModuleString *value = RedisModule_CommandFilterArgGet(call, a->at + value_offset);
        size_t value_bytes;
        if (!value) return; /* the server will refuse it */
        RedisModule_StringPtrLen(value, &value_bytes);
        asked.size_bytes = a->key_bytes + value_bytes;
        asked.flags = SAMPLER_SIZE_KNOWN;
    }
    if (a->sets_ttl) {
        asked.flags |= SAMPLER_HAS_TTL;
        asked.ttl_ms = a->ttl_ms;
        module->pending.ttl_hash = a->hash;
        module->pending.sets_ttl = 1;
    }
    record(module, a, SAMPLER_WRITE, &asked, db);
}

/* As the key is seen, before the command and after it. */
static void record_as_seen(module_state *module, RedisModuleCommandFilterCtx *call, const access *a,
                           const caller *who) {
    int is_seen = !is_no_touch(module, who->id);
    expected_change expected = {
        .change = a->use & KEYS_ALL_CHANGES,
        .hash = a->hash,
        .key = a->key,
        .db = db_of_change(call, a, who->db),
        .is_seen = is_seen,
        .ttl_ms = a->ttl_ms,
        .is_queued = who->is_queueing,
        .may_block = a->command->special == SPECIAL_BLOCKS,
        .client_id = who->id,
    };
    key_state *state = &expected.before;

    *state = NOTHING_KNOWN;
    if (is_seen) *state = look_at_key(module, expected.db, a->key);
    if (who->is_queueing) {
        state->exists = exists_in_transaction(who->id, a->hash, expected.db, state->exists);
    }
    if (a->use & KEYS_READ && is_seen) { /* else it is no reference: its client touches nothing */
        if (state->exists) record(module, a, SAMPLER_READ_HIT, state, expected.db);
        else record(module, a, SAMPLER_READ_MISS, &NOTHING_KNOWN, expected.db);
    }
    if (expected.change && !expect_change(module, &expected)) {
        module->unseen_changes++;
        record_asked_write(module, call, a, expected.db);
    }
}

void record_access(module_state *module, RedisModuleCommandFilterCtx *call, const command *c,
                   key_use use, int at, uint64_t hash) {
    access a = {.command = c, .use = use, .at = at, .hash = hash, .ttl_ms = SAMPLER_NO_TTL};
    if (!module->sampler.on) return; /* in a forked child */
    a.key = RedisModule_CommandFilterArgGet(call, at);
    RedisModule_StringPtrLen(a.key, &a.key_bytes);
    take_options(module, call, &a);
    await_confirmation(module);
    caller who = caller_of(module, call);
    if (who.db == SAMPLER_DB_UNKNOWN) {
        /* Whether a read has missed, an event says. */
        key_state asked = {.ttl_ms = SAMPLER_NO_TTL, .has_elements = c->has_elements};
        if (a.use & KEYS_READ) record(module, &a, SAMPLER_READ_HIT, &asked, who.db);
        record_asked_write(module, call, &a, who.db);
    } else {
        record_as_seen(module, call, &a, &who);
    }
}
