#include "selected_db.h"

/* Of whom it is known. */
typedef struct {
    unsigned long long client_id;
    int db; /* -1: not known */
} selection;

static const selection NOBODY = {.client_id = 0, .db = -1};

/* Of the client whose command, transaction or script runs, and of the server's own client that a
 * script's commands are run by. Another client's event may come before the next command passes: one
 * that was blocked, and whose command is taken up again. */
static selection asking = {.db = -1}, script = {.db = -1};
static int in_transaction;

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
    unsigned long long id = module->get_client_id(call);
    if (RedisModule_GetClientInfoById(&client, id) == REDISMODULE_OK) {
        if (selects_later(c, &client)) return;
        in_transaction = c->special == SPECIAL_EXECUTES;
        asking = (selection){id, in_transaction && transactions_select ? -1 : client.db};
        script = (selection){0, asking.db};
    } else if (!runs_script(module)) {
        asking = script = NOBODY; /* another module's command */
    } else if (c->special == SPECIAL_SELECTS && RedisModule_CommandFilterArgGet(call, 1) &&
               RedisModule_StringToLongLong(RedisModule_CommandFilterArgGet(call, 1), &db) ==
                   REDISMODULE_OK) {
        /* The transaction's next script begins in the transaction's database again, unseen. */
        script.db = in_transaction ? -1 : (int)db;
    }
}

int forget_selected_db(const module_state *module, RedisModuleCommandFilterCtx *call) {
    if (asking.db < 0 && script.db < 0) return 0;
    if (runs_script(module)) {
        script.client_id = module->get_client_id(call);
        return 1;
    }
    asking = script = NOBODY;
    return 0;
}

uint16_t db_selected_by_script(const module_state *module) {
    return runs_script(module) && script.db >= 0 ? (uint16_t)script.db : SAMPLER_DB_UNKNOWN;
}

void restore_selected_db(const module_state *module, RedisModuleCtx *event_ctx) {
    if (!module->loses_selected_db || (asking.db < 0 && script.db < 0)) return;
    unsigned long long id = RedisModule_GetClientId(event_ctx);
    const selection *own = id == asking.client_id ? &asking : &script;
    if (id == own->client_id && own->db >= 0) RedisModule_SelectDb(event_ctx, own->db);
}
