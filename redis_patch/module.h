/* What the parts of the module share: the sampler, and how the server is spoken to. */

#ifndef SPREDS_MODULE_H
#define SPREDS_MODULE_H

#include "redismodule.h"
#include "sampler.h"

#include <time.h>

/* Hidden, or the filter would look these up in a table for each command. */
#pragma GCC visibility push(hidden)

extern sampler spreds;

/* For calls to the server from where there is no context: the filter and the configuration. */
extern RedisModuleCtx *detached;

/* Only in Redis 7.2 and later, else NULL. Since then a key can also be opened without any effect on
 * it. */
extern unsigned long long (*get_client_id)(RedisModuleCommandFilterCtx *call);

#pragma GCC visibility pop

/* Only sampled accesses ask for the time: a few milliseconds of grain are enough, and cheap. */
static inline uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

#endif
