/* Switches sampling on, towards an endpoint, and off; sends what is sampled, twenty times a second. */

#ifndef SPREDS_SAMPLING_SWITCH_H
#define SPREDS_SAMPLING_SWITCH_H

#include "module_state.h"

/* Where samples are sent to; "" while sampling is off. */
const char *endpoint_in_force(void);

/* Sends samples to this endpoint from now on; "" switches sampling off. What happens while the server
 * loads its data is not sampled. Returns NULL, or why the endpoint cannot be used; then the old one
 * stays. */
const char *switch_endpoint(module_state *module, const char *wanted);

/* Before the module is unloaded. */
void close_endpoint(module_state *module);

#endif
