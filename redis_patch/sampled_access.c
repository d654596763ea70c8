#include "sampled_access.h"

#include "after_looks.h"
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
    int sets_ttl, keeps_ttl;
} access;

/* The options of SET; all of them stand after the value. */
static void take_options_of_set(module_state *module, RedisModuleCommandFilterCtx *call,
                                access *a) {
    int count = RedisModule_CommandFilterArgsCount(call), is_seen = keys_can_be_seen(module);

    for (int i = 3; i < count; i++) {
        const char *option = text_at(call, i);
        if (!strcasecmp(option, "get")) {
            a->use |= KEYS_READ;
        } else if (!strcasecmp(option, "nx") && is_seen) {
            a->use = (a->use & KEYS_READ) | KEYS_MADE;
        } else if (!strcasecmp(option, "xx") && is_seen) {
            a->use = (a->use & KEYS_READ) | KEYS_CHANGED;
        } else if (!strcasecmp(option, "keepttl")) {
            a->keeps_ttl = 1;
        } else if (!strcasecmp(option, "ex") || !strcasecmp(option, "px") ||
                   !strcasecmp(option, "exat") || !strcasecmp(option, "pxat")) {
            a->sets_ttl = 1;
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

static void record(module_state *module, const access *a, int operation, int flags, uint16_t db,
                   uint64_t size_bytes) {
    sampler_record(&module->sampler, a->hash, operation, flags, db, size_bytes, now_us());
}

/* As it is asked for: where nothing more can be known about the key. Whether a read has missed, an
 * event says. */
static void record_as_asked(module_state *module, RedisModuleCommandFilterCtx *call,
                            const access *a, uint16_t db) {
    int flags = 0, value_offset = a->command->value_offset;
    uint64_t size_bytes = 0;

    if (a->use & KEYS_READ) record(module, a, SAMPLER_READ_HIT, 0, db, 0);
    if (!(a->use & (KEYS_WRITTEN | KEYS_MADE))) return;
    if (value_offset) {
        RedisModuleString *value = RedisModule_CommandFilterArgGet(call, a->at + value_offset);
        size_t value_bytes;
        if (!value) return; /* the server will refuse it */
        RedisModule_StringPtrLen(value, &value_bytes);
        size_bytes = a->key_bytes + value_bytes;
        flags = SAMPLER_SIZE_KNOWN;
        if (a->sets_ttl) {
            flags |= SAMPLER_HAS_TTL;
            module->pending.ttl_hash = a->hash;
            module->pending.sets_ttl = 1;
        }
    }
    record(module, a, SAMPLER_WRITE, flags, db, size_bytes);
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
        .is_queued = who->is_queueing,
        .may_block = a->command->special == SPECIAL_BLOCKS,
        .client_id = who->id,
    };
    key_state *state = &expected.before;

    if (is_seen) *state = look_at_key(module, expected.db, a->key);
    if (who->is_queueing) {
        state->exists = exists_in_transaction(who->id, a->hash, expected.db, state->exists);
    }
    if (a->use & KEYS_READ && is_seen) { /* else it is no reference: its client touches nothing */
        record(module, a, state->exists ? SAMPLER_READ_HIT : SAMPLER_READ_MISS, state->flags,
               expected.db, state->size_bytes);
    }
    if (expected.change && !look_after(module, &expected))
        record_as_asked(module, call, a, expected.db);
}

void record_access(module_state *module, RedisModuleCommandFilterCtx *call, const command *c,
                   key_use use, int at, uint64_t hash) {
    access a = {.command = c, .use = use, .at = at, .hash = hash};
    if (!module->sampler.on) return; /* in a forked child */
    a.key = RedisModule_CommandFilterArgGet(call, at);
    RedisModule_StringPtrLen(a.key, &a.key_bytes);
    take_options(module, call, &a);
    await_confirmation(module);
    caller who = caller_of(module, call);
    if (who.db == SAMPLER_DB_UNKNOWN) {
        record_as_asked(module, call, &a, who.db);
    } else {
        record_as_seen(module, call, &a, &who);
    }
}
