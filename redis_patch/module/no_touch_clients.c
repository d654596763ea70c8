#define _GNU_SOURCE /* memmem */

#include "no_touch_clients.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* As many as there are such clients; those that are gone leave when room is needed. */
static unsigned long long *ids;
static size_t count, room;

/* The server did not say, or there is no memory: it may be any client. */
static int any_may_be;

int may_be_no_touch(unsigned long long client_id) {
    for (size_t i = 0; i < count; i++) {
        if (ids[i] == client_id) return 1;
    }
    return any_may_be;
}

static void drop_disconnected(void) {
    RedisModuleClientInfoV1 client = REDISMODULE_CLIENTINFO_INITIALIZER_V1;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (RedisModule_GetClientInfoById(&client, ids[i]) == REDISMODULE_OK) ids[kept++] = ids[i];
    }
    count = kept;
}

static void add(unsigned long long client_id) {
    if (may_be_no_touch(client_id)) return;
    if (count == room) drop_disconnected();
    if (count == room) {
        size_t more = room ? 2 * room : 16;
        unsigned long long *grown = realloc(ids, more * sizeof *ids);
        if (!grown) {
            any_may_be = 1;
            return;
        }
        ids = grown;
        room = more;
    }
    ids[count++] = client_id;
}

void watch_client_command(const module_state *module, RedisModuleCommandFilterCtx *call) {
    RedisModuleString *subcommand = RedisModule_CommandFilterArgGet(call, 1);
    if (subcommand && !strcasecmp(RedisModule_StringPtrLen(subcommand, NULL), "no-touch")) {
        if (module->get_client_id) add(module->get_client_id(call));
    }
}

#define NO_TOUCH_FLAG 'T'

/* The client's id if this line of CLIENT LIST, "id=3 ... flags=NT ...", is of one; else 0. */
static unsigned long long no_touch_id(const char *line, size_t length) {
    static const char ID[] = "id=", FLAGS[] = " flags=";
    const size_t id_length = sizeof ID - 1, flags_length = sizeof FLAGS - 1;
    const char *flags = memmem(line, length, FLAGS, flags_length), *end = line + length;
    if (length <= id_length || memcmp(line, ID, id_length) || !flags) return 0;
    for (flags += flags_length; flags < end && *flags != ' '; flags++) {
        if (*flags == NO_TOUCH_FLAG) return strtoull(line + id_length, NULL, 10);
    }
    return 0;
}

int is_no_touch(const module_state *module, unsigned long long client_id) {
    size_t length = 0;
    if (!may_be_no_touch(client_id)) return 0;
    RedisModuleCallReply *reply =
        RedisModule_Call(module->ctx, "CLIENT", "ccl", "LIST", "ID", (long long)client_id);
    int is_one = 1;
    if (reply && RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_STRING) {
        const char *line = RedisModule_CallReplyStringPtr(reply, &length);
        is_one = no_touch_id(line, length) == client_id;
    }
    if (reply) RedisModule_FreeCallReply(reply);
    return is_one;
}

void learn_no_touch_clients(const module_state *module) {
    size_t length = 0;
    RedisModuleCallReply *reply = RedisModule_Call(module->ctx, "CLIENT", "c", "LIST");

    forget_no_touch_clients();
    if (reply && RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_STRING) {
        const char *line = RedisModule_CallReplyStringPtr(reply, &length), *end = line + length;
        while (line < end) {
            const char *stop = memchr(line, '\n', (size_t)(end - line));
            if (!stop) stop = end;
            unsigned long long id = no_touch_id(line, (size_t)(stop - line));
            if (id) add(id);
            line = stop + 1;
        }
    } else {
        any_may_be = 1;
    }
    if (reply) RedisModule_FreeCallReply(reply);
}

void forget_no_touch_clients(void) {
    free(ids);
    ids = NULL;
    count = room = 0;
    any_may_be = 0;
}
