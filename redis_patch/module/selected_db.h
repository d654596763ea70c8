/* Remembers which database the command, transaction or script that runs has selected. Two need it:
 *
 * Commands of a script have no client of their own that could be asked for it.
 *
 * Valkey 8.1 runs a module's keyspace events on the client's own context, and leaves the client in
 * the database of the event (valkey-io/valkey pull request 4024 repairs it). That is another one
 * where COPY or MOVE finds an expired key in it: then the client's own is selected again. */

#ifndef SPREDS_SELECTED_DB_H
#define SPREDS_SELECTED_DB_H

#include "module_state.h"

/* Before a command runs. */
void remember_selected_db(module_state *module, RedisModuleCommandFilterCtx *call,
                          const command *c);

/* When the next command passes. Returns whether one that was remembered still runs: a script, whose
 * command this is. */
int forget_selected_db(const module_state *module, RedisModuleCommandFilterCtx *call);

/* The database that the script that runs has selected; SAMPLER_DB_UNKNOWN if none runs. */
uint16_t db_selected_by_script(const module_state *module);

/* At an event of the keyspace, on the event's context: for the client that was remembered only. */
void restore_selected_db(const module_state *module, RedisModuleCtx *event_ctx);

#endif
