#define _GNU_SOURCE /* memmem */

#include "untouching.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* As many as there are such clients; those that are gone leave when room is needed. */
static unsigned long long *ids;
static size_t count, room;

/* The server did not say, or there is no memory: it may be any client. */
static int any_may_be;

int is_untouching(unsigned long long client_id) {
    for (size_t i = 0; i < count; i++) {
        if (ids[i] == client_id) return 1;
    }
    return any_may_be;
}

static void drop_those_that_are_gone(void) {
    RedisModuleClientInfoV1 client = {.version = 1};
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (RedisModule_GetClientInfoById(&client, ids[i]) == REDISMODULE_OK) ids[kept++] = ids[i];
    }
    count = kept;
}

static void add(unsigned long long client_id) {
    if (is_untouching(client_id)) return;
    if (count == room) drop_those_that_are_gone();
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

void watch_client(RedisModuleCommandFilterCtx *call) {
    RedisModuleString *subcommand = RedisModule_CommandFilterArgGet(call, 1);
    if (subcommand && !strcasecmp(RedisModule_StringPtrLen(subcommand, NULL), "no-touch")) {
        if (get_client_id) add(get_client_id(call));
    }
}

/* One line of CLIENT LIST: "id=3 ... flags=NT ...". */
static void add_if_untouching(const char *line, size_t length) {
    const char *flags = memmem(line, length, " flags=", 7), *end = line + length;
    if (length < 4 || memcmp(line, "id=", 3) || !flags) return;
    for (flags += 7; flags < end && *flags != ' '; flags++) {
        if (*flags == 'T') add(strtoull(line + 3, NULL, 10));
    }
}

void learn_untouching(void) {
    size_t length = 0;
    RedisModuleCallReply *reply = RedisModule_Call(detached, "CLIENT", "c", "LIST");

    forget_untouching();
    if (reply && RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_STRING) {
        const char *line = RedisModule_CallReplyStringPtr(reply, &length), *end = line + length;
        while (line < end) {
            const char *stop = memchr(line, '\n', (size_t)(end - line));
            if (!stop) stop = end;
            add_if_untouching(line, (size_t)(stop - line));
            line = stop + 1;
        }
    } else {
        any_may_be = 1;
    }
    if (reply) RedisModule_FreeCallReply(reply);
}

void forget_untouching(void) {
    free(ids);
    ids = NULL;
    count = room = 0;
    any_may_be = 0;
}
