#include "selected_db.h"

#include <string.h>

/* By the command, transaction or script that runs; -1: not known. */
static int selected_db = -1;

static int runs_script(const module_state *module) {
    return RedisModule_GetContextFlags(module->ctx) & REDISMODULE_CTX_FLAGS_LUA;
}

void remember_selected_db(const module_state *module, RedisModuleCommandFilterCtx *call,
                          const command *c) {
    RedisModuleClientInfoV1 client = REDISMODULE_CLIENTINFO_INITIALIZER_V1;
    long long db;

    if (!module->get_client_id) return;
    if (c->special != SPECIAL_COPIES && c->special != SPECIAL_EXECUTES &&
        c->special != SPECIAL_SELECTS) {
        return;
    }
    if (RedisModule_GetClientInfoById(&client, module->get_client_id(call)) == REDISMODULE_OK) {
        /* What a transaction queues runs later, in the database of its EXEC. */
        if (!(client.flags & REDISMODULE_CLIENTINFO_FLAG_MULTI) || c->special == SPECIAL_EXECUTES) {
            selected_db = client.db;
        }
    } else if (!runs_script(module)) {
        selected_db = -1; /* another module's command */
    } else if (c->special == SPECIAL_SELECTS && RedisModule_CommandFilterArgGet(call, 1) &&
               RedisModule_StringToLongLong(RedisModule_CommandFilterArgGet(call, 1), &db) ==
                   REDISMODULE_OK) {
        selected_db = (int)db;
    }
}

uint16_t db_selected_by_script(const module_state *module) {
    return runs_script(module) && selected_db >= 0 ? (uint16_t)selected_db : SAMPLER_DB_UNKNOWN;
}

void restore_selected_db(const module_state *module, RedisModuleCtx *event_ctx, const char *event) {
    if (!module->loses_selected_db) return;
    if (!strcmp(event, "move_from")) {
        selected_db = RedisModule_GetSelectedDb(event_ctx);
    } else if ((!strcmp(event, "move_to") || !strcmp(event, "copy_to")) && selected_db >= 0) {
        RedisModule_SelectDb(event_ctx, selected_db);
    }
}
