#include "call_arguments.h"

#include <string.h>

telling_bits telling = {.mask = 0xFF, .usual = SHORT};

static int is_known(RedisModuleString *string) {
    size_t asked_length;
    const char *asked = RedisModule_StringPtrLen(string, &asked_length);
    const unsigned char *text = open_text(string);
    /* Nothing is read through a pointer that is another one. */
    if (text != (const unsigned char *)asked) return 0;
    if (is_short(string)) {
        return short_length(text) == asked_length && asked_length <= SHORT_TEXT_MOST;
    }
    return !length_is_open(text) || open_length(text) == asked_length;
}

/* ------------------------------------------------------------------------------------ at load */

/* The heads of short texts that were made: bits that all of them have, and that any has. */
typedef struct {
    uint64_t all;
    uint64_t any;
    int count;
} heads;

static void add_head(heads *heads, uint64_t head) {
    heads->all = heads->count++ ? heads->all & head : head;
    heads->any |= head;
}

typedef int (*take_string)(RedisModuleString *string, heads *usual, heads *others);

static int sort_head(RedisModuleString *string, heads *usual, heads *others) {
    if (!is_short(string)) return 1;
    const char *text = RedisModule_StringPtrLen(string, NULL);
    size_t at = (size_t)(text - (const char *)string);
    if (at == SHORT_TEXT_AT) add_head(usual, head_of(string));
    else if (at == SHORT_TEXT_WITHOUT_POINTER_AT) add_head(others, head_of(string));
    else return 0;
    return 1;
}

static int verify(RedisModuleString *string, heads *usual, heads *others) {
    (void)usual, (void)others;
    return is_known(string);
}

/* Of strings of all lengths that may matter; 0 as soon as one is not taken. */
static int take_strings(RedisModuleCtx *ctx, take_string take, heads *usual, heads *others) {
    enum { EACH_UP_TO = 300, LONGEST = 90000 };
    static char text[LONGEST];
    int is_taken = 1;

    memset(text, 'x', sizeof text);
    for (size_t length = 0; is_taken && length <= LONGEST;
         length += length < EACH_UP_TO ? 1 : length / 2) {
        RedisModuleString *string = RedisModule_CreateString(ctx, text, length);
        is_taken = take(string, usual, others);
        RedisModule_FreeString(ctx, string);
    }
    return is_taken;
}

int strings_are_open(RedisModuleCtx *ctx) {
    heads usual = {0}, others = {0};
    if (!take_strings(ctx, sort_head, &usual, &others) || !usual.count) return 0;
    if (others.count) {
        uint64_t bits = (usual.all & ~others.any) | (others.all & ~usual.any);
        uint64_t bit = bits & -bits; /* one of them will do */
        if (!bit) return 0;
        telling = (telling_bits){0xFF | bit, SHORT | (usual.all & bit)};
    }
    return take_strings(ctx, verify, NULL, NULL);
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
