/* SPREDS as a module, for servers that are not patched: Redis 7.0 and later, Valkey 8 and later.
 *
 * This is the glue between the server's module interface and the sampler (sampler.h): settings,
 * ticks, INFO. Commands pass a filter before they run (command_filter.h), and events tell what a
 * command's arguments cannot (keyspace_events.h). Events for each write would be exact, but cost
 * some 490 instructions a SET (measured with callgrind on Redis 7.0.15).
 *
 * What this way of looking misses is written down in MODULE.md, and each line of that is tested. */

#include "module.h"

#include "client_home.h"
#include "command_filter.h"
#include "command_table.h"
#include "keyspace_events.h"
#include "refusals.h"
#include "transport.h"
#include "untouching.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

sampler spreds;
static transport spreds_transport;

RedisModuleCtx *detached;
unsigned long long (*get_client_id)(RedisModuleCommandFilterCtx *call);

/* ------------------------------------------------------------------------------------------ ticks */

/* Not the server's timers: they stand still when the machine's clock steps back, and a server that
 * gives up loading a module which has one crashes (Redis 8.0, Valkey 8.1). */
static int ticks = -1;

static void on_tick(int fd, void *data, int mask);

static int run_ticks(void) {
    struct itimerspec soon_and_often = {
        .it_value = {.tv_nsec = 1},
        .it_interval = {.tv_nsec = SAMPLER_FLUSH_US * 1000},
    };
    if (ticks >= 0) return 1;
    ticks = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (ticks < 0) return 0;
    timerfd_settime(ticks, 0, &soon_and_often, NULL);
    if (RedisModule_EventLoopAdd(ticks, REDISMODULE_EVENTLOOP_READABLE, on_tick, NULL) ==
        REDISMODULE_OK) {
        return 1;
    }
    close(ticks);
    ticks = -1;
    return 0;
}

static void stop_ticks(void) {
    if (ticks < 0) return;
    RedisModule_EventLoopDel(ticks, REDISMODULE_EVENTLOOP_READABLE);
    close(ticks);
    ticks = -1;
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
    long long threshold, modulus;
    unsigned long long salt;    /* 0 is replaced by a random one */
    RedisModuleString *no_salt; /* what is shown in its place */
} settings;

static char *endpoint_in_force; /* NULL: none */

/* What happens while the server replays a log of commands are no accesses. While modules load, it
 * may still have its data to load, and does not say so: then the first tick after it starts. */
static int is_starting_up = 1;
static int is_set_up;

static int is_loading(void) {
    return !!(RedisModule_GetContextFlags(detached) & REDISMODULE_CTX_FLAGS_LOADING);
}

static void start(void) {
    if (is_set_up && !is_loading()) is_starting_up = 0;
    if (is_starting_up) return;
    look(endpoint_in_force != NULL);
    if (endpoint_in_force) {
        refusals_begin();
        sampler_start(&spreds, now_us());
    } else {
        stop_ticks();
    }
}

static void on_tick(int fd, void *data, int mask) {
    uint64_t now = now_us(), expirations;
    (void)data, (void)mask;
    if (read(fd, &expirations, sizeof expirations) < 0) return;
    if (is_starting_up) start();
    if (!spreds.on) return;
    refusals_tick();
    sampler_tick(&spreds, now);
    rest_from_databases(now);
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

/* Nobody learns it here, and setting what is shown changes nothing. */
static RedisModuleString *get_salt(const char *name, void *data) {
    (void)name, (void)data;
    return settings.no_salt;
}

static int set_salt(const char *name, RedisModuleString *value, void *data,
                    RedisModuleString **err) {
    const char *digits = RedisModule_StringPtrLen(value, NULL);
    char *end;
    (void)name, (void)data;
    errno = 0;
    unsigned long long salt = *digits ? strtoull(digits, &end, 10) : spreds.salt;
    if (*digits && (errno || *end || *digits < '0' || *digits > '9')) {
        return refuse(err, "spreds.salt must be a number below 2^64");
    }
    settings.salt = salt;
    return REDISMODULE_OK;
}

/* Whether this server lets CONFIG SET change what is protected. */
static int allows_everything;

static void learn_what_is_allowed(RedisModuleCtx *ctx) {
    size_t length = 0;
    const char *value = NULL;
    RedisModuleCallReply *reply =
        RedisModule_Call(ctx, "CONFIG", "cc", "GET", "enable-protected-configs");
    if (reply && RedisModule_CallReplyLength(reply) == 2) {
        RedisModuleCallReply *element = RedisModule_CallReplyArrayElement(reply, 1);
        value = RedisModule_CallReplyStringPtr(element, &length);
    }
    allows_everything = value && length == 3 && !memcmp(value, "yes", 3);
    if (reply) RedisModule_FreeCallReply(reply);
}

/* Connects to the endpoint that is set, unless it is the one in force; starts or stops sampling. */
static const char *apply_endpoint(void) {
    const char *wanted = RedisModule_StringPtrLen(settings.endpoint, NULL);

    if (!strcmp(wanted, endpoint_in_force ? endpoint_in_force : "")) return NULL;
    if (is_set_up && *wanted && !transport_is_local(wanted) && !allows_everything) {
        return "spreds.endpoint: " TRANSPORT_NOT_LOCAL;
    }
    if (spreds.on) count_reads();
    sampler_stop(&spreds, now_us()); /* what was sampled for the old one goes there */
    const char *why = !*wanted || run_ticks() ? transport_connect(&spreds_transport, wanted)
                                              : "the server watches no more file descriptors";
    if (!why) {
        free(endpoint_in_force);
        endpoint_in_force = *wanted ? strdup(wanted) : NULL;
    }
    start();
    return why;
}

/* Puts the settings into effect, once after all that one CONFIG SET has changed. */
static int apply(RedisModuleCtx *ctx, void *data, RedisModuleString **err) {
    unsigned long long salt = settings.salt;
    (void)ctx, (void)data;
    settings.salt = spreds.salt; /* if it is refused, the server does not bring this one back */
    if (!sampler_sampling_is_valid((uint64_t)settings.threshold, (uint64_t)settings.modulus)) {
        return refuse(err, "spreds.modulus must be a power of two up to 4294967296, "
                           "and spreds.threshold at most spreds.modulus");
    }
    const char *why = apply_endpoint();
    if (why) return refuse(err, why);
    while (salt == 0) RedisModule_GetRandomBytes((unsigned char *)&salt, sizeof salt);
    settings.salt = salt;
    sampler_set_sampling(&spreds, (uint64_t)settings.threshold, (uint64_t)settings.modulus, salt,
                         now_us());
    return REDISMODULE_OK;
}

static void info(RedisModuleInfoCtx *ctx, int for_crash_report) {
    if (spreds.on && !for_crash_report) count_reads();
    RedisModule_InfoAddSection(ctx, "");
    RedisModule_InfoAddFieldLongLong(ctx, "on", spreds.on);
    RedisModule_InfoAddFieldULongLong(ctx, "threshold", spreds.threshold);
    RedisModule_InfoAddFieldULongLong(ctx, "modulus", spreds.mask + 1);
    RedisModule_InfoAddFieldULongLong(ctx, "seen", spreds.seen_reads + spreds.seen_others);
    RedisModule_InfoAddFieldULongLong(ctx, "seen_reads", spreds.seen_reads);
    RedisModule_InfoAddFieldULongLong(ctx, "sampled", spreds.sampled);
    RedisModule_InfoAddFieldULongLong(ctx, "dropped", spreds.dropped);
    RedisModule_InfoAddFieldULongLong(ctx, "batches", sampler_batches(&spreds));
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

/* Leaves nothing behind: the server takes the code away next, from under any thread of it. */
static void clean_up(void) {
    stop_ticks();
    transport_close(&spreds_transport);
    forget_untouching();
    if (settings.endpoint) RedisModule_FreeString(NULL, settings.endpoint);
    RedisModule_FreeString(NULL, settings.no_salt);
    free(endpoint_in_force);
    RedisModule_FreeThreadSafeContext(detached);
}

/* Registers what the module has and puts its settings into effect. */
static int set_up(RedisModuleCtx *ctx) {
    RedisModuleString *err = NULL;

    settings.no_salt = RedisModule_CreateString(NULL, "", 0);
    learn_what_is_allowed(ctx);
    if (RedisModule_RegisterStringConfig(ctx, "endpoint", "", REDISMODULE_CONFIG_DEFAULT,
                                         get_endpoint, set_endpoint, apply, NULL) ||
        RedisModule_RegisterNumericConfig(ctx, "threshold", SAMPLER_DEFAULT_THRESHOLD,
                                          REDISMODULE_CONFIG_DEFAULT, 0, SAMPLER_MAX_MODULUS,
                                          get_number, set_number, apply, &settings.threshold) ||
        RedisModule_RegisterNumericConfig(ctx, "modulus", SAMPLER_DEFAULT_MODULUS,
                                          REDISMODULE_CONFIG_DEFAULT, 1, SAMPLER_MAX_MODULUS,
                                          get_number, set_number, apply, &settings.modulus) ||
        RedisModule_RegisterStringConfig(ctx, "salt", "", REDISMODULE_CONFIG_SENSITIVE, get_salt,
                                         set_salt, apply, NULL) ||
        RedisModule_LoadConfigs(ctx) || RedisModule_RegisterInfoFunc(ctx, info)) {
        return REDISMODULE_ERR;
    }
    if (apply(ctx, NULL, &err) == REDISMODULE_OK) return REDISMODULE_OK;
    RedisModule_Log(ctx, "warning", "spreds cannot use its configuration: %s",
                    RedisModule_StringPtrLen(err, NULL));
    RedisModule_FreeString(NULL, err);
    return REDISMODULE_ERR;
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
    sampler_init(&spreds, SAMPLER_SOURCE_MODULE, instance_of_server(ctx), now_us() / 1000,
                 send_unless_refused, &spreds_transport);
    if (set_up(ctx) != REDISMODULE_OK) {
        clean_up();
        return REDISMODULE_ERR;
    }
    is_set_up = 1;
    return REDISMODULE_OK;
}

__attribute__((visibility("default"))) int RedisModule_OnUnload(RedisModuleCtx *ctx) {
    (void)ctx;
    clean_up();
    return REDISMODULE_OK;
}
