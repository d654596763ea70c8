/* Remembers which database the command, transaction or script that runs is in. Two need it:
 *
 * Commands of a script have no client of their own that could be asked for it.
 *
 * Valkey 8.1 runs a module's keyspace events on the client's own context, and leaves the client in
 * the database of the event (valkey-io/valkey pull request 4024 repairs it): this brings it back
 * after MOVE and COPY. */

#ifndef SPREDS_CLIENT_HOME_H
#define SPREDS_CLIENT_HOME_H

#include "command_table.h"
#include "module.h"

#pragma GCC visibility push(hidden)
/* Whether the server is one that leaves clients away. */
extern int leaves_clients_away;
#pragma GCC visibility pop

/* The database that the script that runs is in; SAMPLER_DB_UNKNOWN if none runs. */
uint16_t db_of_script(void);

/* Before a command runs. */
void remember_home(RedisModuleCommandFilterCtx *call, const command *c);

/* At a generic event of the keyspace, on the event's context. */
void bring_home(RedisModuleCtx *ctx, const char *event);

#endif
