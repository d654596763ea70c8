/* What a command has done to its sampled keys: they are looked at once it has run, which is when the
 * next command passes the filter, or at the next tick. So it is known which of them were made,
 * changed or removed, and how large they are, whatever the command's options, and also if the server
 * has refused it. Only where keys can be seen (untouched_key.h).
 *
 * What a transaction queues is looked at after its EXEC. */

#ifndef SPREDS_KEYS_AFTER_COMMAND_H
#define SPREDS_KEYS_AFTER_COMMAND_H

#include "command_table.h"
#include "untouched_key.h"

/* A key that a command may change, before it runs. */
typedef struct {
    key_use change; /* without KEYS_READ */
    uint64_t hash;
    RedisModuleString *key; /* is copied */
    uint16_t db;
    int is_seen;      /* the state is: not for a client that must not be looked at */
    int64_t ttl_ms;   /* that the command gives it; SAMPLER_NO_TTL: none, or not known */
    key_state before; /* in a transaction: as it is when the command is queued */
    int is_queued;    /* in a transaction */
    int may_block;    /* its client may be blocked, and the command do its work later */
    unsigned long long client_id;
} expected_change;

/* Returns 0 if there is no memory for it, or too many wait. */
int expect_change(module_state *module, const expected_change *expected);

/* Records what has come of the commands that have run. */
void record_changed_keys(module_state *module);

/* The command that passed last was refused. */
void forget_refused_keys(void);

/* EXEC and DISCARD of this client, before they run. */
void transaction_runs(module_state *module, unsigned long long client_id);
void transaction_is_discarded(unsigned long long client_id);

/* Whether a key exists for the next command of a transaction: as it is, but for what stands before
 * it in the transaction. */
int exists_in_transaction(unsigned long long client_id, uint64_t hash, uint16_t db, int exists);

/* The key has gone by itself, and there is a record of it. */
void key_is_gone(uint64_t hash, uint16_t db);

/* Twenty times a second: for those whose client no longer waits, or is gone. */
void release_waiting_keys(module_state *module);

void forget_waiting_keys(void);

#endif
