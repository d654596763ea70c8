/* Clients that may have asked by CLIENT NO-TOUCH that their accesses do not count. For such a client
 * a key cannot be opened from the filter: Redis and Valkey up to 9.1 then read the command that runs,
 * and none runs yet. */

#ifndef SPREDS_NO_TOUCH_CLIENTS_H
#define SPREDS_NO_TOUCH_CLIENTS_H

#include "module_state.h"

/* Learns which clients have asked so while the filter was off. */
void learn_no_touch_clients(const module_state *module);

/* Before CLIENT runs, in a transaction or not, refused or not: this client may become one. */
void watch_client_command(const module_state *module, RedisModuleCommandFilterCtx *call);

int may_be_no_touch(unsigned long long client_id);

/* The same, but asks the server: some thousand instructions for a client that may be one. */
int is_no_touch(const module_state *module, unsigned long long client_id);

/* Forgets all of them. */
void forget_no_touch_clients(void);

#endif
