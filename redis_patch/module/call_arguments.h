/* The arguments of a command that passes the filter.
 *
 * To ask the server for one of them takes two calls and some forty instructions, more than all else
 * that is done about a key that is not sampled. In Redis 7.0 to 8.2 and Valkey 8 to 9.1 they are read
 * where they lie, if this server is found to keep them so, and asked for if it is not. What is looked
 * at is compared with what the server answers, for texts of all lengths, before the first command is
 * looked at; it is fixed when a server is compiled. */

#ifndef SPREDS_CALL_ARGUMENTS_H
#define SPREDS_CALL_ARGUMENTS_H

#include "redismodule.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A call, and a string, of the servers that are known. */
typedef struct {
    RedisModuleString **argv;
    int argv_len;
    int argc;
} open_call;

typedef struct {
    uint64_t head;
    const unsigned char *text;
} open_string;

/* Whether texts lie as they are known to. */
int strings_are_open(RedisModuleCtx *ctx);

/* Whether the arguments of a call do, if its strings do. */
int call_is_open(RedisModuleCommandFilterCtx *call);

/* Only where they can be read so: how many, and one of them. */
static inline int open_argument_count(RedisModuleCommandFilterCtx *call) {
    return ((const open_call *)call)->argc;
}

static inline RedisModuleString *open_argument(RedisModuleCommandFilterCtx *call, int at) {
    return ((const open_call *)call)->argv[at];
}

/* ------------------------------------------------------------------------------- short texts */

enum { ENCODING_SHIFT = 4, ENCODING_MASK = 15, RAW = 0, EMBEDDED = 8 };
#define SHORT ((uint64_t)EMBEDDED << ENCODING_SHIFT)
#define SHORT_TEXT_MOST 255 /* its length is a byte */

/* A short text lies within its string: nearly all names of commands and most keys. Before it stand its
 * length, its room and its kind, and before these a pointer to it, which Valkey 9 leaves out where
 * that saves memory: a bit in the string's head tells it. */
#define SHORT_TEXT_AT (sizeof(open_string) + 3)
#define SHORT_TEXT_WITHOUT_POINTER_AT (SHORT_TEXT_AT - sizeof(void *))

/* The bits of a head that tell how a text lies, and what they are in a short one that has its pointer;
 * learnt by strings_are_open(). */
typedef struct {
    uint64_t mask;
    uint64_t usual;
} telling_bits;
__attribute__((visibility("hidden"))) extern telling_bits telling;

static inline uint64_t head_of(const RedisModuleString *string) {
    uint64_t head;
    memcpy(&head, string, sizeof head);
    return head;
}

static inline int is_short(const RedisModuleString *string) {
    return (head_of(string) & 0xFF) == SHORT;
}

/* Whether it is a short text with a pointer to it. */
static inline int is_usual(const RedisModuleString *string) {
    return (head_of(string) & telling.mask) == telling.usual;
}

static inline const unsigned char *usual_text(const RedisModuleString *string) {
    return (const unsigned char *)string + SHORT_TEXT_AT;
}

static inline const unsigned char *short_text(const RedisModuleString *string) {
    return is_usual(string) ? usual_text(string)
                            : (const unsigned char *)string + SHORT_TEXT_WITHOUT_POINTER_AT;
}

static inline size_t short_length(const unsigned char *short_text) {
    return short_text[-3];
}

/* The three letters of a text, capitals as small ones. */
static inline uint32_t three_letters(const void *text) {
    uint32_t letters;
    memcpy(&letters, text, sizeof letters); /* with the zero byte behind them */
    return letters & 0x00DFDFDF;
}

/* ----------------------------------------------------------------------------------- any text */

/* The text of a string, or of one that is kept as a number an empty one, of another kind. */
static inline const unsigned char *open_text(const RedisModuleString *string) {
    static const unsigned char NUMBER[2] = {0, 0};
    unsigned int encoding = head_of(string) >> ENCODING_SHIFT & ENCODING_MASK;
    if (encoding == EMBEDDED) return short_text(string);
    return encoding == RAW ? ((const open_string *)string)->text : NUMBER + 1;
}

/* The length of all but very short and very long texts is a byte before them; of which kind one is,
 * is in the byte between. */
static inline int length_is_open(const unsigned char *text) {
    enum { KIND_MASK = 7, LENGTH_IS_A_BYTE = 1 };
    return (text[-1] & KIND_MASK) == LENGTH_IS_A_BYTE;
}

static inline size_t open_length(const unsigned char *text) {
    return text[-3];
}

#endif
