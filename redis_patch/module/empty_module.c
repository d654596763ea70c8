/* A module that does nothing: for measuring what the server itself pays for having one. With the
 * argument "filter" it also sees every command, and does nothing with it. */

#include "redismodule.h"

static void filter(RedisModuleCommandFilterCtx *call) {
    (void)call;
}

__attribute__((visibility("default"))) int RedisModule_OnLoad(RedisModuleCtx *ctx,
                                                              RedisModuleString **argv, int argc) {
    (void)argv;
    if (RedisModule_Init(ctx, "empty", 1, REDISMODULE_APIVER_1) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    if (argc) RedisModule_RegisterCommandFilter(ctx, filter, 0);
    return REDISMODULE_OK;
}
