#include "selected_db.h"

/* By the command, transaction or script that runs; -1: not known. */
static int selected_db = -1;

static int runs_script(const module_state *module) {
    return RedisModule_GetContextFlags(module->ctx) & REDISMODULE_CTX_FLAGS_LUA;
}

/* Whether a transaction has held a SELECT: what is selected when it runs is not known. */
static int transactions_select;

static int selects_later(const command *c, const RedisModuleClientInfoV1 *client) {
    /* What a transaction queues runs later, in the database of its EXEC. */
    int is_queued =
        client->flags & REDISMODULE_CLIENTINFO_FLAG_MULTI && c->special != SPECIAL_EXECUTES;
    if (is_queued && c->special == SPECIAL_SELECTS) transactions_select = 1;
    return is_queued;
}

void remember_selected_db(module_state *module, RedisModuleCommandFilterCtx *call,
                          const command *c) {
    RedisModuleClientInfoV1 client = REDISMODULE_CLIENTINFO_INITIALIZER_V1;
    long long db;

    if (!module->get_client_id) return;
    if (c->special != SPECIAL_COPIES && c->special != SPECIAL_MOVES &&
        c->special != SPECIAL_EXECUTES && c->special != SPECIAL_RUNS_SCRIPT &&
        c->special != SPECIAL_SELECTS) {
        return;
    }
    module->pending.is_open = 1;
    if (RedisModule_GetClientInfoById(&client, module->get_client_id(call)) == REDISMODULE_OK) {
        if (selects_later(c, &client)) return;
        selected_db = c->special == SPECIAL_EXECUTES && transactions_select ? -1 : client.db;
    } else if (!runs_script(module)) {
        selected_db = -1; /* another module's command */
    } else if (c->special == SPECIAL_SELECTS && RedisModule_CommandFilterArgGet(call, 1) &&
               RedisModule_StringToLongLong(RedisModule_CommandFilterArgGet(call, 1), &db) ==
                   REDISMODULE_OK) {
        selected_db = (int)db;
    }
}

void forget_selected_db(const module_state *module) {
    if (selected_db >= 0 && !runs_script(module)) selected_db = -1;
}

uint16_t db_selected_by_script(const module_state *module) {
    return runs_script(module) && selected_db >= 0 ? (uint16_t)selected_db : SAMPLER_DB_UNKNOWN;
}

void restore_selected_db(const module_state *module, RedisModuleCtx *event_ctx) {
    if (module->loses_selected_db && selected_db >= 0) RedisModule_SelectDb(event_ctx, selected_db);
}
