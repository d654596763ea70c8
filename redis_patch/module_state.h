/* What several parts of the module need. module.c owns the one module_state and hands it to the
 * parts; where the server calls back without passing a pointer on, the file that registers the
 * callback keeps it. What only one part needs stays in the part's own file. */

#ifndef SPREDS_MODULE_STATE_H
#define SPREDS_MODULE_STATE_H

#include "command_table.h"
#include "pending_command.h"
#include "redismodule.h"
#include "sampler.h"
#include "transport.h"

typedef struct {
    sampler sampler;
    pending_command pending;
    command_table commands;
    transport transport;
    uint64_t looks; /* reads since the last batch that the server counts and are no references */
    uint64_t late_misses;     /* misses whose read had left the open batch, where it stays a hit */
    uint64_t unseen_changes;  /* of keys that were not looked at afterwards: too many waited */
    uint64_t sizes_not_asked; /* too many, or their batch had to leave before */
    long long size_estimates; /* how many sizes may be asked for in a second */
    int is_loaded;            /* the server has taken the module and its settings */

    /* The server. */
    RedisModuleCtx *ctx;    /* for calls from where no context is passed: callbacks, settings */
    int loses_selected_db;  /* it leaves clients in another database: see selected_db.h */
    int usage_lacks_key;    /* MEMORY USAGE tells of the value alone: see asked_sizes.h */
    int arguments_are_open; /* see call_arguments.h; -1: to be found out at the first command */
    /* Only in Redis 7.2 and later, else NULL. Since then a key can also be opened without any effect
     * on it. */
    unsigned long long (*get_client_id)(RedisModuleCommandFilterCtx *call);
} module_state;

/* Microseconds since the Unix epoch, in steps of a millisecond: only sampled accesses ask. It is the
 * server's clock, by which its keys live: Valkey binds modules so (RTLD_DEEPBIND) that a clock which
 * was put before libc's does not hold for them. */
static inline uint64_t now_us(void) {
    return (uint64_t)RedisModule_Milliseconds() * 1000;
}

#endif
