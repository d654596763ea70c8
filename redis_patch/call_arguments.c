#include "call_arguments.h"

#include <string.h>

static int is_known(RedisModuleString *string) {
    size_t asked_length;
    const char *asked = RedisModule_StringPtrLen(string, &asked_length);
    /* Nothing is read through a pointer that is another one. */
    if (open_text(string) != (const unsigned char *)asked) return 0;
    if (is_short(string)) {
        return short_text(string) == open_text(string) && short_length(string) == asked_length &&
               asked_length <= SHORT_TEXT_MOST;
    }
    return !length_is_open(open_text(string)) || open_length(open_text(string)) == asked_length;
}

int strings_are_open(RedisModuleCtx *ctx) {
    enum { EACH_UP_TO = 300, LONGEST = 90000 };
    static char text[LONGEST];

    memset(text, 'x', sizeof text);
    int are_known = 1;
    for (size_t length = 0; length <= LONGEST; length += length < EACH_UP_TO ? 1 : length / 2) {
        RedisModuleString *string = RedisModule_CreateString(ctx, text, length);
        are_known &= is_known(string);
        RedisModule_FreeString(ctx, string);
    }
    return are_known;
}

int call_is_open(RedisModuleCommandFilterCtx *call) {
    int count = RedisModule_CommandFilterArgsCount(call);
    if (open_argument_count(call) != count) return 0;
    for (int i = 0; i < count; i++) {
        RedisModuleString *argument = RedisModule_CommandFilterArgGet(call, i);
        if (open_argument(call, i) != argument || !is_known(argument)) return 0;
    }
    return 1;
}
