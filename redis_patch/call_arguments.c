#include "call_arguments.h"

#include <string.h>

static int is_known(RedisModuleString *string) {
    size_t asked_length;
    const char *asked = RedisModule_StringPtrLen(string, &asked_length);
    /* Nothing is read through a pointer that is another one. */
    if (open_text(string) != (const unsigned char *)asked) return 0;
    return !length_is_open(open_text(string)) || open_length(open_text(string)) == asked_length;
}

int strings_are_open(RedisModuleCtx *ctx) {
    static const size_t LENGTHS[] = {1, 3, 16, 31, 32, 44, 45, 64, 200, 255, 256, 5000, 70000};
    static char text[70000];

    memset(text, 'x', sizeof text);
    int are_known = 1;
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        RedisModuleString *string = RedisModule_CreateString(ctx, text, LENGTHS[i]);
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
