/* How large lists, sets, hashes and sorted sets are: the server is asked (MEMORY USAGE, of a few
 * elements of each), as a module cannot tell from the key that it opens. That is done once the
 * commands that have arrived together are done, before the records of them are sent: while a command
 * runs, its client could be told of changes of keys that it has not asked for (CLIENT TRACKING).
 *
 * It is not asked more often in a second than the setting size-estimates says, nor for more than a
 * hundredth of the time; what it is not asked for is counted, and the record goes without a size. */

#ifndef SPREDS_ASKED_SIZES_H
#define SPREDS_ASKED_SIZES_H

#include "module_state.h"

#define SIZE_ESTIMATES_DEFAULT 2000 /* a second, so that they take half a percent of the time */
#define SIZE_ESTIMATES_MOST 1000000

/* From now on sizes can be asked for. Returns 0 if the server watches no more file descriptors. */
int begin_to_ask_sizes(module_state *module);

/* The newest record tells of a key that is there and has elements: its size is to be asked for. In
 * SAMPLER_DB_UNKNOWN it is looked for in database 0. */
void want_size(module_state *module, uint64_t hash, uint16_t db, RedisModuleString *key);

/* Asks for what is wanted so far; not while a command runs. */
void ask_wanted_sizes(module_state *module);

/* The open batch leaves: what is not known now will not be. */
void forget_wanted_sizes(module_state *module);

/* Sampling is switched off. */
void end_to_ask_sizes(module_state *module);

#endif
