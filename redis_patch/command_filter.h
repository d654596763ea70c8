/* Commands, as they pass the filter before they run: reads are recorded here, and writes of values. */

#ifndef SPREDS_COMMAND_FILTER_H
#define SPREDS_COMMAND_FILTER_H

#include "module.h"

#pragma GCC visibility push(hidden)
/* Where the records of the newest command begin in the open batch: its misses belong to them. */
extern uint32_t command_start;
#pragma GCC visibility pop

/* Begins to look at commands, or ends it. Costs nothing before it has first begun. */
void filter_commands(int on);

/* Whether an "expire" event is of the sampled SET before it, which has been recorded; once. */
int is_expiry_of_set(uint64_t hash);

#endif
