/* SPREDS as a module, for servers that are not patched: Redis 7.0 and later, Valkey 8 and later.
 *
 * This is the glue between the server's module interface and the sampler (sampler.h): how the module
 * comes and goes, and INFO. Settings (settings.h) switch sampling on and off (sampling_switch.h).
 * Then commands pass a filter before they run (command_filter.h). What they have done is looked at
 * afterwards (keys_after_command.h); on Redis 7.0, where that cannot be, events tell some of it
 * (keyspace_events.h).
 *
 * What this way of looking misses is written down in MODULE.md, and each line of that is tested. */

#include "call_arguments.h"
#include "keys_after_command.h"
#include "module_state.h"
#include "no_touch_clients.h"
#include "refusals.h"
#include "sampling_switch.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>

static module_state module;

static void info(RedisModuleInfoCtx *ctx, int for_crash_report) {
    const sampler *s = &module.sampler;

    if (s->on && !for_crash_report) count_reads(&module);
    RedisModule_InfoAddSection(ctx, "");
    RedisModule_InfoAddFieldLongLong(ctx, "on", s->on);
    RedisModule_InfoAddFieldULongLong(ctx, "threshold", s->threshold);
    RedisModule_InfoAddFieldULongLong(ctx, "modulus", s->mask + 1);
    uint64_t reads = s->seen_reads - looks_among_reads(&module);
    RedisModule_InfoAddFieldULongLong(ctx, "seen", reads + s->seen_others);
    RedisModule_InfoAddFieldULongLong(ctx, "seen_reads", reads);
    RedisModule_InfoAddFieldULongLong(ctx, "sampled", s->sampled);
    RedisModule_InfoAddFieldULongLong(ctx, "dropped", s->dropped);
    RedisModule_InfoAddFieldULongLong(ctx, "batches", sampler_batches(s));
    RedisModule_InfoAddFieldULongLong(ctx, "batches_dropped", s->batches_dropped);
    RedisModule_InfoAddFieldULongLong(ctx, "late_misses", module.late_misses);
    RedisModule_InfoAddFieldULongLong(ctx, "unseen_changes", module.unseen_changes);
    RedisModule_InfoAddFieldULongLong(ctx, "sizes_not_asked", module.sizes_not_asked);
    RedisModule_InfoAddFieldLongLong(ctx, "errors_are_refusals", module.errors_are_refusals);
}

/* Learns from INFO which server this is. Returns the first 16 hexadecimal digits of its run id. */
static uint64_t learn_server(RedisModuleCtx *ctx) {
    char digits[17] = {0};
    RedisModuleServerInfoData *data = RedisModule_GetServerInfo(ctx, "server");
    const char *run_id = RedisModule_ServerInfoGetFieldC(data, "run_id");
    const char *valkey = RedisModule_ServerInfoGetFieldC(data, "valkey_version"); /* "8.1.1" */
    module.loses_selected_db = valkey && module.get_client_id;
    module.usage_lacks_key = valkey && strncmp(valkey, "8.0.", 4) != 0;
    if (run_id) strncpy(digits, run_id, 16);
    RedisModule_FreeServerInfo(ctx, data);
    return strtoull(digits, NULL, 16);
}

/* Leaves nothing behind: the server takes the code away next, from under any thread of it. */
static void clean_up(void) {
    close_endpoint(&module);
    forget_waiting_keys();
    forget_no_touch_clients();
    free_settings();
    RedisModule_FreeThreadSafeContext(module.ctx);
}

__attribute__((visibility("default"))) int RedisModule_OnLoad(RedisModuleCtx *ctx,
                                                              RedisModuleString **argv, int argc) {
    (void)argv;
    if (RedisModule_Init(ctx, "spreds", 1, REDISMODULE_APIVER_1) != REDISMODULE_OK ||
        !RedisModule_RegisterNumericConfig) {
        return REDISMODULE_ERR;
    }
    if (argc) {
        RedisModule_Log(ctx, "warning",
                        "spreds takes no arguments: its settings are lines of their "
                        "own, such as 'spreds.threshold 167772'");
        return REDISMODULE_ERR;
    }
    RedisModule_GetApi("RedisModule_CommandFilterGetClientId", (void **)&module.get_client_id);
    if (command_table_load(&module.commands, ctx, keys_can_be_seen(&module)) < 0) {
        RedisModule_Log(ctx, "warning", "spreds does not understand this server's COMMAND");
        return REDISMODULE_ERR;
    }
    module.arguments_are_open = strings_are_open(ctx) ? -1 : 0;
    if (!module.arguments_are_open) {
        RedisModule_Log(ctx, "notice",
                        "spreds asks this server for arguments: sampling costs more");
    }
    module.ctx = RedisModule_GetDetachedThreadSafeContext(ctx);
    sampler_init(&module.sampler, SAMPLER_SOURCE_MODULE, learn_server(ctx), now_us() / 1000,
                 send_unless_refused, &module);
    if (RedisModule_RegisterInfoFunc(ctx, info) || !take_settings(&module, ctx)) {
        clean_up();
        return REDISMODULE_ERR;
    }
    module.is_loaded = 1;
    return REDISMODULE_OK;
}

__attribute__((visibility("default"))) int RedisModule_OnUnload(RedisModuleCtx *ctx) {
    (void)ctx;
    clean_up();
    return REDISMODULE_OK;
}
