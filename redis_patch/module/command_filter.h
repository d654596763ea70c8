/* Commands, as they pass the filter before they run: reads are recorded here, and writes of values. */

#ifndef SPREDS_COMMAND_FILTER_H
#define SPREDS_COMMAND_FILTER_H

#include "module_state.h"

/* Begins to look at commands, or ends it. Costs nothing before it has first begun. */
void filter_commands(module_state *state, int on);

#endif
