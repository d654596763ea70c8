/* The arguments of a command that passes the filter.
 *
 * To ask the server for one of them takes two calls and some forty instructions, more than all else
 * that is done about a key that is not sampled. Redis 7.0 to 8.0 and Valkey 8 keep them in one way:
 * they are read where they lie, if this server is found to keep them so, and asked for if it is not.
 * What is looked at is compared with what the server answers, for texts of each kind, before the
 * first command is looked at; it is fixed when a server is compiled. */

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
    unsigned long long type_and_uses;
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

enum { ENCODING_SHIFT = 4, ENCODING_MASK = 15, RAW = 0, EMBEDDED = 8 };

/* Whether it is a short text (up to 44 bytes), which lies within its string: nearly all names of
 * commands and most keys. */
static inline int is_short(const RedisModuleString *string) {
    return *(const unsigned char *)string == EMBEDDED << ENCODING_SHIFT;
}

#define SHORT_TEXT_MOST 44
#define SHORT_TEXT_AT (sizeof(open_string) + 3) /* behind its length, its room and its kind */

static inline const unsigned char *short_text(const RedisModuleString *string) {
    return (const unsigned char *)string + SHORT_TEXT_AT;
}

static inline size_t short_length(const RedisModuleString *string) {
    return short_text(string)[-3];
}

#define SHORT_WORD_LETTERS 3 /* as GET and SET have */

/* Of a short text its length and first three letters, capitals as small ones, in one word: the byte
 * before its length is loaded as well, and masked, as are its room and its kind. */
static inline uint64_t short_word(const RedisModuleString *string) {
    uint64_t word;
    memcpy(&word, short_text(string) - 4, sizeof word);
    return word & UINT64_C(0x00DFDFDF0000FF00);
}

static inline uint64_t short_word_of(const char *three_letters) {
    uint64_t word = SHORT_WORD_LETTERS << 8;
    for (int i = 0; i < SHORT_WORD_LETTERS; i++) {
        word |= (uint64_t)(three_letters[i] & 0xDF) << (32 + 8 * i);
    }
    return word;
}

/* The text of such a string, or of one that is kept as a number an empty one, of another kind. */
static inline const unsigned char *open_text(const RedisModuleString *string) {
    static const unsigned char NUMBER[2] = {0, 0};
    const open_string *open = (const open_string *)string;
    unsigned int encoding = open->type_and_uses >> ENCODING_SHIFT & ENCODING_MASK;
    return encoding == RAW || encoding == EMBEDDED ? open->text : NUMBER + 1;
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
