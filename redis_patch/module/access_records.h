/* An access to a sampled key, by a command that passes the filter: what is recorded of it. */

#ifndef SPREDS_ACCESS_RECORDS_H
#define SPREDS_ACCESS_RECORDS_H

#include "module_state.h"

/* Records the access to the key in argument `at`, now or when the command has run. */
void record_access(module_state *module, RedisModuleCommandFilterCtx *call, const command *c,
                   key_use use, int at, uint64_t hash);

/* The first argument after `keyword`, searched from `start` on; 0 if it is not there. A negative
 * start counts from the end, and searches backwards. */
int find_keyword(RedisModuleCommandFilterCtx *call, int start, const char *keyword);

#endif
