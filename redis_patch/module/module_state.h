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

#include <time.h>

#define LOOK_SIZES 32 /* a command has fewer than 2^31 arguments */

typedef struct {
    uint64_t commands, looks;
} looks_of_size;

typedef struct {
    sampler sampler;
    pending_command pending;
    command_table commands;
    transport transport;
    /* Reads since the last batch that the server counts and are no references, by how many keys a
     * command has: 2^i or more, below 2^(i+1). */
    looks_of_size looks[LOOK_SIZES];
    uint64_t late_misses;     /* misses whose read had left the open batch, where it stays a hit */
    uint64_t unseen_changes;  /* of keys that were not looked at afterwards: too many waited */
    uint64_t sizes_not_asked; /* too many, or their batch had to leave before */
    long long size_estimates; /* how many sizes may be asked for in a second */
    int errors_are_refusals;  /* see refusals.h */
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

/* What this thread has taken of the processor: what others took meanwhile is not in it. */
static inline uint64_t processor_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

#endif
