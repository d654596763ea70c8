/* Clients that may have asked by CLIENT NO-TOUCH that their accesses do not count. For such a client
 * a key cannot be opened from the filter: Redis and Valkey up to 9.1 then read the command that runs,
 * and none runs yet. */

#ifndef SPREDS_UNTOUCHING_H
#define SPREDS_UNTOUCHING_H

#include "module.h"

/* Learns which clients have asked so while nobody looked. */
void learn_untouching(void);

/* Before CLIENT runs, in a transaction or not, refused or not: this client may become one. */
void watch_client(RedisModuleCommandFilterCtx *call);

int is_untouching(unsigned long long client_id);

/* Forgets all of them. */
void forget_untouching(void);

#endif
