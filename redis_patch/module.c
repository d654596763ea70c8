/* SPREDS as a module, for servers that are not patched: Redis 7.0 and later, Valkey 8 and later.
 *
 * This is the glue between the server's module interface and the sampler (sampler.h): settings,
 * timer, INFO. Commands pass a filter before they run (command_filter.h), and events tell what a
 * command's arguments cannot (keyspace_events.h). Events for each write would be exact, but cost
 * some 490 instructions a SET (measured with callgrind on Redis 7.0.15).
 *
 * What this way of looking misses is written down in MODULE.md, and each line of that is tested. */

#include "module.h"

#include "client_home.h"
#include "command_filter.h"
#include "command_table.h"
#include "keyspace_events.h"
#include "transport.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

sampler spreds;
static transport spreds_transport;

RedisModuleCtx *detached;
unsigned long long (*get_client_id)(RedisModuleCommandFilterCtx *call);

/* ------------------------------------------------------------------------------------------ timer */

static RedisModuleTimerID timer;
static int timer_runs;

static void on_timer(RedisModuleCtx *ctx, void *data);

static void run_timer(int64_t milliseconds) {
    if (timer_runs) return;
    timer = RedisModule_CreateTimer(detached, milliseconds, on_timer, NULL);
    timer_runs = 1;
}

static void stop_timer(void) {
    if (timer_runs) RedisModule_StopTimer(detached, timer, NULL);
    timer_runs = 0;
}

/* ---------------------------------------------------------------------------------- configuration */

/* Looks at commands and events, or at commands no longer. */
static void look(int on) {
    static int looking;

    if (on == looking) return;
    looking = on;
    filter_commands(on);
    subscribe_to_keyspace();
}

static struct {
    RedisModuleString *endpoint;
    long long threshold, modulus, salt; /* salt 0 is replaced by a random one */
} settings;

static char *endpoint_in_force; /* NULL: none */

/* The first timer runs when the server has loaded its data: what happens while it replays a log of
 * commands are no accesses. */
static int is_loaded;

static void start(void) {
    if (!is_loaded) return;
    look(endpoint_in_force != NULL);
    if (!endpoint_in_force) {
        stop_timer(); /* the server unloads no module that has one */
        return;
    }
    sampler_start(&spreds, now_us());
    run_timer(SAMPLER_FLUSH_US / 1000);
}

static void on_timer(RedisModuleCtx *ctx, void *data) {
    uint64_t now = now_us();
    (void)ctx, (void)data;
    timer_runs = 0;
    if (!is_loaded) {
        is_loaded = 1;
        start();
    }
    if (!spreds.on) return;
    sampler_tick(&spreds, now);
    rest_from_databases(now);
    run_timer(SAMPLER_FLUSH_US / 1000);
}

static long long get_number(const char *name, void *number) {
    (void)name;
    return *(long long *)number;
}

static int set_number(const char *name, long long value, void *number, RedisModuleString **err) {
    (void)name, (void)err;
    *(long long *)number = value;
    return REDISMODULE_OK;
}

static RedisModuleString *get_endpoint(const char *name, void *data) {
    (void)name, (void)data;
    return settings.endpoint;
}

static int set_endpoint(const char *name, RedisModuleString *value, void *data,
                        RedisModuleString **err) {
    (void)name, (void)data, (void)err;
    if (settings.endpoint) RedisModule_FreeString(NULL, settings.endpoint);
    RedisModule_RetainString(NULL, value);
    settings.endpoint = value;
    return REDISMODULE_OK;
}

static int refuse(RedisModuleString **err, const char *why) {
    if (err) *err = RedisModule_CreateString(NULL, why, strlen(why));
    return REDISMODULE_ERR;
}

/* Connects to the endpoint that is set, unless it is the one in force; starts or stops sampling. */
static const char *apply_endpoint(void) {
    const char *wanted = RedisModule_StringPtrLen(settings.endpoint, NULL);

    if (!strcmp(wanted, endpoint_in_force ? endpoint_in_force : "")) return NULL;
    sampler_stop(&spreds, now_us()); /* what was sampled for the old one goes there */
    const char *why = transport_connect(&spreds_transport, wanted);
    if (!why) {
        free(endpoint_in_force);
        endpoint_in_force = *wanted ? strdup(wanted) : NULL;
    }
    start();
    return why;
}

/* Puts the settings into effect, once after all that one CONFIG SET has changed. */
static int apply(RedisModuleCtx *ctx, void *data, RedisModuleString **err) {
    (void)ctx, (void)data;
    if (!sampler_sampling_is_valid((uint64_t)settings.threshold, (uint64_t)settings.modulus)) {
        return refuse(err, "spreds.modulus must be a power of two up to 4294967296, "
                           "and spreds.threshold at most spreds.modulus");
    }
    while (settings.salt == 0) {
        RedisModule_GetRandomBytes((unsigned char *)&settings.salt, sizeof settings.salt);
        settings.salt &= INT64_MAX;
    }
    const char *why = apply_endpoint();
    if (why) return refuse(err, why);
    sampler_set_sampling(&spreds, (uint64_t)settings.threshold, (uint64_t)settings.modulus,
                         (uint64_t)settings.salt, now_us());
    return REDISMODULE_OK;
}

static void info(RedisModuleInfoCtx *ctx, int for_crash_report) {
    (void)for_crash_report;
    char salt_id[17];
    snprintf(salt_id, sizeof salt_id, "%016" PRIx64, spreds.batch.header.salt_id);
    RedisModule_InfoAddSection(ctx, "");
    RedisModule_InfoAddFieldLongLong(ctx, "on", spreds.on);
    RedisModule_InfoAddFieldULongLong(ctx, "threshold", spreds.threshold);
    RedisModule_InfoAddFieldULongLong(ctx, "modulus", spreds.mask + 1);
    RedisModule_InfoAddFieldCString(ctx, "salt_id", salt_id);
    RedisModule_InfoAddFieldULongLong(ctx, "seen", spreds.seen_reads + spreds.seen_others);
    RedisModule_InfoAddFieldULongLong(ctx, "seen_reads", spreds.seen_reads);
    RedisModule_InfoAddFieldULongLong(ctx, "sampled", spreds.sampled);
    RedisModule_InfoAddFieldULongLong(ctx, "dropped", spreds.dropped);
    RedisModule_InfoAddFieldULongLong(ctx, "batches", spreds.batch.header.sequence);
    RedisModule_InfoAddFieldULongLong(ctx, "batches_dropped", spreds.batches_dropped);
    RedisModule_InfoAddFieldULongLong(ctx, "late_misses", late_misses);
}

/* -------------------------------------------------------------------------------- load and unload */

/* The first 16 hexadecimal digits of the run id; notices on the way which server this is. */
static uint64_t instance_of_server(RedisModuleCtx *ctx) {
    char digits[17] = {0};
    RedisModuleServerInfoData *data = RedisModule_GetServerInfo(ctx, "server");
    leaves_clients_away =
        get_client_id && RedisModule_ServerInfoGetFieldC(data, "valkey_version") != NULL;
    const char *run_id = RedisModule_ServerInfoGetFieldC(data, "run_id");
    if (run_id) strncpy(digits, run_id, 16);
    RedisModule_FreeServerInfo(ctx, data);
    return strtoull(digits, NULL, 16);
}

__attribute__((visibility("default"))) int RedisModule_OnLoad(RedisModuleCtx *ctx,
                                                              RedisModuleString **argv, int argc) {
    (void)argv, (void)argc;
    if (RedisModule_Init(ctx, "spreds", 1, REDISMODULE_APIVER_1) != REDISMODULE_OK ||
        !RedisModule_RegisterNumericConfig) {
        return REDISMODULE_ERR;
    }
    RedisModule_GetApi("RedisModule_CommandFilterGetClientId", (void **)&get_client_id);
    if (command_table_load(ctx) < 0) {
        RedisModule_Log(ctx, "warning", "spreds does not understand this server's COMMAND");
        return REDISMODULE_ERR;
    }
    detached = RedisModule_GetDetachedThreadSafeContext(ctx);
    sampler_init(&spreds, SAMPLER_SOURCE_MODULE, instance_of_server(ctx), transport_send,
                 &spreds_transport);
    if (RedisModule_RegisterStringConfig(ctx, "endpoint", "", REDISMODULE_CONFIG_DEFAULT,
                                         get_endpoint, set_endpoint, apply, NULL) ||
        RedisModule_RegisterNumericConfig(ctx, "threshold", SAMPLER_DEFAULT_THRESHOLD,
                                          REDISMODULE_CONFIG_DEFAULT, 0, SAMPLER_MAX_MODULUS,
                                          get_number, set_number, apply, &settings.threshold) ||
        RedisModule_RegisterNumericConfig(ctx, "modulus", SAMPLER_DEFAULT_MODULUS,
                                          REDISMODULE_CONFIG_DEFAULT, 1, SAMPLER_MAX_MODULUS,
                                          get_number, set_number, apply, &settings.modulus) ||
        RedisModule_RegisterNumericConfig(ctx, "salt", 0, REDISMODULE_CONFIG_DEFAULT, 0, INT64_MAX,
                                          get_number, set_number, apply, &settings.salt) ||
        RedisModule_LoadConfigs(ctx) ||
        RedisModule_RegisterInfoFunc(ctx, info)) {
        return REDISMODULE_ERR;
    }
    if (apply(ctx, NULL, NULL) != REDISMODULE_OK) {
        RedisModule_Log(ctx, "warning", "spreds cannot use its configuration: spreds.modulus must "
                                        "be a power of two, spreds.threshold at most that, "
                                        "spreds.endpoint an address that ZeroMQ understands");
        return REDISMODULE_ERR;
    }
    run_timer(0);
    return REDISMODULE_OK;
}

__attribute__((visibility("default"))) int RedisModule_OnUnload(RedisModuleCtx *ctx) {
    (void)ctx;
    transport_close(&spreds_transport);
    if (settings.endpoint) RedisModule_FreeString(NULL, settings.endpoint);
    free(endpoint_in_force);
    RedisModule_FreeThreadSafeContext(detached);
    return REDISMODULE_OK;
}
