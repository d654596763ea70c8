#include "keys_after_command.h"

#include "asked_sizes.h"

#include <stdlib.h>
#include <string.h>

#define MOST_LOOKS 65536 /* of one command */

/* What transactions have queued and blocked clients have asked for may wait for long, while commands of
 * others pass: it is few, and its copied names are short. */
#define MOST_WAITING 512
#define MOST_WAITING_BYTES (1 << 20)

typedef struct {
    uint64_t hash;
    RedisModuleString *key;
    unsigned long long waits_for; /* a client; 0: for none */
    unsigned long long blocks;    /* this client, perhaps; 0: none */
    long long expired_at_ms;
    int64_t given_ttl_ms;
    uint16_t db;
    uint8_t change; /* a key_use */
    uint8_t is_seen;
    uint8_t existed; /* and there is no record yet that it has gone */
} after_look;

/* Those of the command that passed last stand at the end. */
static after_look *looks;
static size_t count, room, ready; /* `ready`: how many wait for no client */
static size_t settled;            /* so many at the beginning are known to wait */
static size_t waiting, waiting_bytes;

static size_t bytes_of(const after_look *look) {
    size_t length;
    RedisModule_StringPtrLen(look->key, &length);
    return length;
}

static int may_wait(size_t key_bytes) {
    return waiting < MOST_WAITING && waiting_bytes + key_bytes <= MOST_WAITING_BYTES;
}

static void begin_to_wait(after_look *look, unsigned long long client_id) {
    look->waits_for = client_id;
    waiting++;
    waiting_bytes += bytes_of(look);
}

static void end_to_wait(after_look *look) {
    look->waits_for = 0;
    waiting--;
    waiting_bytes -= bytes_of(look);
}

static void free_look(const after_look *look) {
    RedisModule_FreeString(NULL, look->key);
}

int expect_change(module_state *module, const expected_change *expected) {
    size_t length;
    const char *text = RedisModule_StringPtrLen(expected->key, &length);
    if (expected->is_queued && !may_wait(length)) return 0;
    if (count == room) {
        size_t more = room ? 2 * room : 64;
        after_look *grown = more > MOST_LOOKS ? NULL : realloc(looks, more * sizeof *looks);
        if (!grown) return 0;
        looks = grown;
        room = more;
    }
    looks[count++] = (after_look){
        .hash = expected->hash,
        .key = RedisModule_CreateString(NULL, text, length),
        .blocks = expected->may_block && !expected->is_queued ? expected->client_id : 0,
        .given_ttl_ms = expected->ttl_ms,
        .expired_at_ms = expected->before.expires_at_ms,
        .db = expected->db,
        .change = (uint8_t)expected->change,
        .is_seen = (uint8_t)expected->is_seen,
        .existed = (uint8_t)expected->before.exists,
    };
    if (expected->is_queued) begin_to_wait(&looks[count - 1], expected->client_id);
    else ready++;
    module->pending.is_open = 1;
    return 1;
}

/* Whether the command has changed the key, which is there now. */
static int has_changed(const after_look *look, const key_state *now) {
    switch (look->change) {
    case KEYS_REMOVED:
        return 0;
    case KEYS_MADE:
        return look->is_seen && !look->existed;
    case KEYS_EXPIRED:
        return look->is_seen && look->existed && now->expires_at_ms != look->expired_at_ms;
    default:
        return 1;
    }
}

static void mark_gone(size_t first, size_t end, uint64_t hash, uint16_t db) {
    for (size_t i = first; i < end && i < count; i++) {
        if (looks[i].hash == hash && looks[i].db == db) looks[i].existed = 0;
    }
}

static void take(module_state *module, const after_look *look) {
    sampler *s = &module->sampler;
    size_t length;
    const char *text = RedisModule_StringPtrLen(look->key, &length);
    uint64_t hash = sampler_hash(text, length, s->salt); /* the salt may have changed */

    if (!s->on || !sampler_takes(s, hash)) return;
    key_state now = look_at_key(module, look->db, look->key);
    if (now.exists) {
        if (!has_changed(look, &now)) return;
        if (now.ttl_ms >= 0 && look->given_ttl_ms > now.ttl_ms) now.ttl_ms = look->given_ttl_ms;
        sampler_record(s, hash, SAMPLER_WRITE, now.flags, look->db, now.size_bytes, now.ttl_ms,
                       now_us());
        if (now.has_elements) want_size(module, hash, look->db, look->key);
    } else if (look->existed) {
        sampler_record(s, hash, SAMPLER_DELETE, 0, look->db, 0, SAMPLER_NO_TTL, now_us());
        /* What waits stands at the beginning, or follows soon. A command that removes thousands of
         * keys is not to compare each with each. */
        size_t next = (size_t)(look - looks) + 1;
        mark_gone(0, MOST_WAITING, look->hash, look->db);
        mark_gone(next, next + MOST_WAITING, look->hash, look->db);
    }
}

/* Whether what the client has asked for is still to run. */
static int still_waits(unsigned long long client_id) {
    RedisModuleClientInfoV1 client = REDISMODULE_CLIENTINFO_INITIALIZER_V1;
    if (RedisModule_GetClientInfoById(&client, client_id) != REDISMODULE_OK) return 0;
    return client.flags & (REDISMODULE_CLIENTINFO_FLAG_MULTI | REDISMODULE_CLIENTINFO_FLAG_BLOCKED);
}

void record_changed_keys(module_state *module) {
    size_t kept = settled;
    if (!ready) return;
    for (size_t i = settled; i < count; i++) {
        after_look *look = &looks[i];
        if (look->blocks && !look->waits_for && still_waits(look->blocks)) {
            if (may_wait(bytes_of(look))) begin_to_wait(look, look->blocks);
            else module->unseen_changes++;
        }
        if (look->waits_for) {
            looks[kept++] = *look;
        } else {
            take(module, look);
            free_look(look);
        }
    }
    count = settled = kept;
    ready = 0;
}

void forget_refused_keys(void) {
    while (count && !looks[count - 1].waits_for) free_look(&looks[--count]);
    ready = 0;
    for (size_t i = settled; i < count; i++) ready += !looks[i].waits_for;
}

void transaction_runs(module_state *module, unsigned long long client_id) {
    for (size_t i = 0; i < count; i++) {
        if (looks[i].waits_for != client_id) continue;
        end_to_wait(&looks[i]);
        ready++;
        settled = 0;
        module->pending.is_open = 1;
    }
}

void transaction_is_discarded(unsigned long long client_id) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (looks[i].waits_for == client_id) {
            end_to_wait(&looks[i]);
            free_look(&looks[i]);
        } else {
            looks[kept++] = looks[i];
        }
    }
    count = kept;
    settled = 0;
}

int exists_in_transaction(unsigned long long client_id, uint64_t hash, uint16_t db, int exists) {
    for (size_t i = count; i-- > 0;) {
        const after_look *look = &looks[i];
        if (look->waits_for != client_id || look->hash != hash || look->db != db) continue;
        if (look->change == KEYS_WRITTEN || look->change == KEYS_MADE) return 1;
        if (look->change == KEYS_REMOVED) return 0;
    }
    return exists;
}

void key_is_gone(uint64_t hash, uint16_t db) {
    mark_gone(0, count, hash, db);
}

void release_waiting_keys(module_state *module) {
    enum { AT_A_TICK = 64 };
    static size_t at;
    size_t some = count < AT_A_TICK ? count : AT_A_TICK;
    for (size_t i = 0; i < some; i++) {
        if (++at >= count) at = 0;
        unsigned long long client_id = looks[at].waits_for;
        if (client_id && !still_waits(client_id)) transaction_runs(module, client_id);
    }
}

void forget_waiting_keys(void) {
    while (count) free_look(&looks[--count]);
    free(looks);
    looks = NULL;
    room = ready = settled = waiting = waiting_bytes = 0;
}
