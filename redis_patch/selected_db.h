/* Remembers which database the command, transaction or script that runs has selected. Two need it:
 *
 * Commands of a script have no client of their own that could be asked for it.
 *
 * Valkey 8.1 runs a module's keyspace events on the client's own context, and leaves the client in
 * the database of the event (valkey-io/valkey pull request 4024 repairs it): after MOVE and COPY the
 * client's own database is selected again. */

#ifndef SPREDS_SELECTED_DB_H
#define SPREDS_SELECTED_DB_H

#include "module_state.h"

/* Before a command runs. */
void remember_selected_db(const module_state *module, RedisModuleCommandFilterCtx *call,
                          const command *c);

/* The database that the script that runs has selected; SAMPLER_DB_UNKNOWN if none runs. */
uint16_t db_selected_by_script(const module_state *module);

/* At a generic event of the keyspace, on the event's context. */
void restore_selected_db(const module_state *module, RedisModuleCtx *event_ctx, const char *event);

#endif
