/* The settings spreds.endpoint, .threshold, .modulus, .salt, .secret and .size-estimates, and what CONFIG
 * SET may do to them. */

#ifndef SPREDS_SETTINGS_H
#define SPREDS_SETTINGS_H

#include "module_state.h"

/* Registers the settings and puts them into effect; call it once. Returns 1, or 0 if the server
 * refuses that, or the module what is set. */
int take_settings(module_state *module, RedisModuleCtx *ctx);

/* Before the module is unloaded. */
void free_settings(void);

#endif
