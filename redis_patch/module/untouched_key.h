/* Looks at a key from the filter without any effect on it: since Redis 7.2 and in Valkey. */

#ifndef SPREDS_UNTOUCHED_KEY_H
#define SPREDS_UNTOUCHED_KEY_H

#include "module_state.h"

/* Who asks for the command that passes the filter. */
typedef struct {
    unsigned long long id;
    uint16_t db;     /* SAMPLER_DB_UNKNOWN: another module asks, or the server is Redis 7.0 */
    int is_queueing; /* the command runs later, at its transaction's EXEC */
} caller;

/* A key at this moment. */
typedef struct {
    int exists;
    int has_elements; /* its size has to be asked for: asked_sizes.h */
    int is_empty;     /* it is about to be removed */
    int flags;        /* of a record */
    uint64_t size_bytes;
    int64_t ttl_ms;          /* SAMPLER_NO_TTL: it does not expire */
    long long expires_at_ms; /* Unix time; REDISMODULE_NO_EXPIRE: it does not */
} key_state;

static inline int keys_can_be_seen(const module_state *module) {
    return module->get_client_id != NULL;
}

caller caller_of(const module_state *module, RedisModuleCommandFilterCtx *call);

/* Looks at a key in a database that the server has; not while a command of a client passes that may
 * be one of no_touch_clients.h. */
key_state look_at_key(const module_state *module, uint16_t db, RedisModuleString *key);

#endif
