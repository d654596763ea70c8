#include "settings.h"

#include "asked_sizes.h"
#include "sampling_switch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What is wanted: what is in force stands in the sampler and in the transport. It is here, with the
 * module, because a server hands `apply` the pointer of whichever setting has changed. */
static struct {
    module_state *module;
    RedisModuleString *endpoint;
    long long threshold, modulus;
    unsigned long long salt; /* 0 is replaced by a random one */
    uint8_t secret[SAMPLER_SECRET_BYTES];
    int has_secret;           /* one that is still to be put into effect */
    RedisModuleString *shown; /* in place of salt and secret, which nobody learns from here */
    int may_set_protected;    /* this server lets CONFIG SET change what is protected */
} settings;

/* ------------------------------------------------------------------------------------ one setting */

static int refuse(RedisModuleString **err, const char *why) {
    if (err) *err = RedisModule_CreateString(NULL, why, strlen(why));
    return REDISMODULE_ERR;
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

static RedisModuleString *get_hidden(const char *name, void *data) {
    (void)name, (void)data;
    return settings.shown;
}

/* Setting what is shown changes nothing. */
static int set_salt(const char *name, RedisModuleString *value, void *data,
                    RedisModuleString **err) {
    const char *digits = RedisModule_StringPtrLen(value, NULL);
    char *end;
    (void)name, (void)data;
    errno = 0;
    unsigned long long salt = *digits ? strtoull(digits, &end, 10) : settings.module->sampler.salt;
    if (*digits && (errno || *end || *digits < '0' || *digits > '9')) {
        return refuse(err, "spreds.salt must be a number below 2^64");
    }
    settings.salt = salt;
    return REDISMODULE_OK;
}

static int set_secret(const char *name, RedisModuleString *value, void *data,
                      RedisModuleString **err) {
    const char *digits = RedisModule_StringPtrLen(value, NULL);
    (void)name, (void)data;
    if (*digits && !sampler_read_secret(digits, settings.secret)) {
        return refuse(err, "spreds.secret must be 32 hexadecimal digits, in small letters");
    }
    settings.has_secret = *digits != 0;
    return REDISMODULE_OK;
}

/* ----------------------------------------------------------------------------------- all settings */

static int may_set_protected(RedisModuleCtx *ctx) {
    size_t length = 0;
    const char *value = NULL;
    RedisModuleCallReply *reply =
        RedisModule_Call(ctx, "CONFIG", "cc", "GET", "enable-protected-configs");
    if (reply && RedisModule_CallReplyLength(reply) == 2) {
        RedisModuleCallReply *element = RedisModule_CallReplyArrayElement(reply, 1);
        value = RedisModule_CallReplyStringPtr(element, &length);
    }
    int is_yes = value && length == 3 && !memcmp(value, "yes", 3);
    if (reply) RedisModule_FreeCallReply(reply);
    return is_yes;
}

static const char *apply_endpoint(module_state *module) {
    const char *wanted = RedisModule_StringPtrLen(settings.endpoint, NULL);

    if (!strcmp(wanted, endpoint_in_force())) return NULL;
    if (module->is_loaded && *wanted && !transport_is_local(wanted) &&
        !settings.may_set_protected) {
        return "spreds.endpoint: " TRANSPORT_NOT_LOCAL;
    }
    return switch_endpoint(module, wanted);
}

/* Puts the settings into effect, once after all that one CONFIG SET has changed. */
static int apply(RedisModuleCtx *ctx, void *data, RedisModuleString **err) {
    sampler *s = &settings.module->sampler;
    unsigned long long salt = settings.salt;
    (void)ctx, (void)data;
    int has_secret = settings.has_secret;
    settings.salt = s->salt; /* if it is refused, the server does not bring this one back */
    settings.has_secret = 0;
    if (!sampler_sampling_is_valid((uint64_t)settings.threshold, (uint64_t)settings.modulus)) {
        return refuse(err, "spreds.modulus must be a power of two up to 4294967296, "
                           "and spreds.threshold at most spreds.modulus");
    }
    const char *why = apply_endpoint(settings.module);
    if (why) return refuse(err, why);
    if (has_secret) sampler_set_secret(s, settings.secret);
    while (salt == 0) RedisModule_GetRandomBytes((unsigned char *)&salt, sizeof salt);
    settings.salt = salt;
    sampler_set_sampling(s, (uint64_t)settings.threshold, (uint64_t)settings.modulus, salt,
                         now_us());
    return REDISMODULE_OK;
}

static int register_settings(RedisModuleCtx *ctx) {
    return !RedisModule_RegisterStringConfig(ctx, "endpoint", "", REDISMODULE_CONFIG_DEFAULT,
                                             get_endpoint, set_endpoint, apply, NULL) &&
           !RedisModule_RegisterNumericConfig(ctx, "threshold", SAMPLER_DEFAULT_THRESHOLD,
                                              REDISMODULE_CONFIG_DEFAULT, 0, SAMPLER_MAX_MODULUS,
                                              get_number, set_number, apply, &settings.threshold) &&
           !RedisModule_RegisterNumericConfig(ctx, "modulus", SAMPLER_DEFAULT_MODULUS,
                                              REDISMODULE_CONFIG_DEFAULT, 1, SAMPLER_MAX_MODULUS,
                                              get_number, set_number, apply, &settings.modulus) &&
           !RedisModule_RegisterStringConfig(ctx, "salt", "", REDISMODULE_CONFIG_SENSITIVE,
                                             get_hidden, set_salt, apply, NULL) &&
           !RedisModule_RegisterStringConfig(ctx, "secret", "", REDISMODULE_CONFIG_SENSITIVE,
                                             get_hidden, set_secret, apply, NULL) &&
           !RedisModule_RegisterNumericConfig(ctx, "size-estimates", SIZE_ESTIMATES_DEFAULT,
                                              REDISMODULE_CONFIG_DEFAULT, 0, SIZE_ESTIMATES_MOST,
                                              get_number, set_number, NULL,
                                              &settings.module->size_estimates) &&
           !RedisModule_LoadConfigs(ctx);
}

int take_settings(module_state *module, RedisModuleCtx *ctx) {
    RedisModuleString *err = NULL;

    settings.module = module;
    settings.shown = RedisModule_CreateString(NULL, "", 0);
    settings.may_set_protected = may_set_protected(ctx);
    if (!register_settings(ctx)) return 0;
    if (apply(ctx, NULL, &err) == REDISMODULE_OK) return 1;
    RedisModule_Log(ctx, "warning", "spreds cannot use its configuration: %s",
                    RedisModule_StringPtrLen(err, NULL));
    RedisModule_FreeString(NULL, err);
    return 0;
}

void free_settings(void) {
    if (settings.endpoint) RedisModule_FreeString(NULL, settings.endpoint);
    RedisModule_FreeString(NULL, settings.shown);
}
