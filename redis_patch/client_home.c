#include "client_home.h"

#include <string.h>

int leaves_clients_away;

/* The database that the command, transaction or script that runs is in; -1: not known. */
static int home_db = -1;

void remember_home(RedisModuleCommandFilterCtx *call, const command *c) {
    RedisModuleClientInfoV1 client = {.version = 1};
    long long selected;

    if (!get_client_id) return;
    if (c->special != SPECIAL_COPIES && c->special != SPECIAL_EXECUTES &&
        c->special != SPECIAL_SELECTS) {
        return;
    }
    if (RedisModule_GetClientInfoById(&client, get_client_id(call)) == REDISMODULE_OK) {
        /* What a transaction queues runs later, in the database of its EXEC. */
        if (!(client.flags & REDISMODULE_CLIENTINFO_FLAG_MULTI) || c->special == SPECIAL_EXECUTES) {
            home_db = client.db;
        }
    } else if (!(RedisModule_GetContextFlags(detached) & REDISMODULE_CTX_FLAGS_LUA)) {
        home_db = -1; /* another module's command */
    } else if (c->special == SPECIAL_SELECTS && RedisModule_CommandFilterArgGet(call, 1) &&
               RedisModule_StringToLongLong(RedisModule_CommandFilterArgGet(call, 1), &selected) ==
                   REDISMODULE_OK) {
        home_db = (int)selected;
    }
}

uint16_t db_of_script(void) {
    int runs = RedisModule_GetContextFlags(detached) & REDISMODULE_CTX_FLAGS_LUA;
    return runs && home_db >= 0 ? (uint16_t)home_db : SAMPLER_DB_UNKNOWN;
}

void bring_home(RedisModuleCtx *ctx, const char *event) {
    if (!leaves_clients_away) return;
    if (!strcmp(event, "move_from")) {
        home_db = RedisModule_GetSelectedDb(ctx);
    } else if ((!strcmp(event, "move_to") || !strcmp(event, "copy_to")) && home_db >= 0) {
        RedisModule_SelectDb(ctx, home_db);
    }
}
