/* Events of the keyspace: what a command's arguments cannot tell. Misses, deletes, expiries,
 * evictions, what the generic commands (EXPIRE, RENAME, COPY ...) changed, and databases as a whole. */

#ifndef SPREDS_KEYSPACE_EVENTS_H
#define SPREDS_KEYSPACE_EVENTS_H

#include "module_state.h"

/* Once is enough: the server has no way to unsubscribe. */
void subscribe_to_keyspace(module_state *state);

/* Listens to flushes and swaps from now on. It costs each turn of the server's event loop some 120
 * instructions, so it begins when a command is seen that may flush or swap. */
void watch_databases(void);

/* Ends that a minute after the last such command, when any transaction that held it has run. */
void unwatch_idle_databases(uint64_t now);

#endif
