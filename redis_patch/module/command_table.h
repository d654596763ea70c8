/* Which arguments of a command are keys, and whether it reads or writes them: what a module must
 * know of each command that passes its filter, found in a few instructions.
 *
 * The table is made once from the server's own answer to COMMAND. Asking the server for each call
 * (RedisModule_GetCommandKeys) would cost about a thousand instructions. */

#ifndef SPREDS_COMMAND_TABLE_H
#define SPREDS_COMMAND_TABLE_H

#include "redismodule.h"
#include "sampler.h"

/* What a command does to the keys in one range of its arguments: a read, a change, or both. Of a
 * change there is one kind at most. */
typedef enum {
    KEYS_READ = 1,
    KEYS_WRITTEN = 2,  /* set, made, or changed */
    KEYS_CHANGED = 4,  /* changed if they exist, never made; the last of it may be taken out */
    KEYS_MADE = 8,     /* made if they do not exist, never changed */
    KEYS_EXPIRED = 16, /* their TTL is set or taken away */
    KEYS_REMOVED = 32, /* DEL, or the place that a RENAME leaves */
} key_use;

#define KEYS_ALL_CHANGES (KEYS_WRITTEN | KEYS_CHANGED | KEYS_MADE | KEYS_EXPIRED | KEYS_REMOVED)

/* How a range of keys is found, as the server's key specifications say it. */
typedef struct {
    key_use use;
    int start;           /* index of the first key, or where the search for the keyword starts */
    const char *keyword; /* the first key follows it; NULL: there is none */
    int first;           /* from the start, if an argument counts the keys; 0: none does */
    int count_at;        /* that argument, from the start */
    int last;            /* from the start; negative: from the command's end */
    int step;
    int limit; /* of the rest of the arguments, one in `limit` is a key; 0: all */
} key_range;

/* Commands that the filter treats in a way of their own. */
typedef enum {
    SPECIAL_NONE,
    SPECIAL_SET,              /* its options say what it does, and whether it sets a TTL */
    SPECIAL_BITFIELD,         /* reads, if it only has GET */
    SPECIAL_SORTS,            /* SORT may have a STORE, which the server does not say */
    SPECIAL_LOOKS,            /* its look-ups are no references: EXISTS, TTL, TYPE */
    SPECIAL_EXPIRES,          /* always sets a TTL: SETEX, PSETEX */
    SPECIAL_FLUSHES_OR_SWAPS, /* may flush or swap databases */
    SPECIAL_COPIES,           /* may write into another database: COPY */
    SPECIAL_MOVES,            /* writes into another database: MOVE */
    SPECIAL_BLOCKS,           /* may write later, when its client is served: BLMOVE */
    SPECIAL_EXECUTES,         /* runs commands that have passed the filter before: EXEC */
    SPECIAL_DISCARDS,         /* forgets them: DISCARD */
    SPECIAL_RUNS_SCRIPT,      /* runs commands, which pass the filter */
    SPECIAL_SELECTS,          /* SELECT */
    SPECIAL_CLIENT            /* may be CLIENT NO-TOUCH */
} command_special;

#define COMMAND_MAX_RANGES 3

typedef struct {
    command_special special;
    int value_offset; /* of the value from its key, where it is an argument; else 0 */
    int has_elements; /* it is for lists, sets, hashes or sorted sets */
    int ranges;
    key_range range[COMMAND_MAX_RANGES];
} command;

/* Where the keys of a command are. */
typedef enum {
    LAYOUT_ONE_KEY, /* argument 1 is its only key */
    LAYOUT_RANGES   /* as its key ranges say, or it is special before it has run */
} key_layout;

/* What is to be known first, in little room, so that it stays in the cache. */
typedef struct {
    _Alignas(32) uint64_t word; /* of the name, see command_word(); 0: an empty slot */
    uint64_t tail;
    uint16_t index; /* of the command in `commands` */
    uint8_t layout; /* a key_layout */
    uint8_t writes; /* 1 if its only key may be changed, 0 if it is read; not for LAYOUT_RANGES */
} command_slot;

#define COMMAND_SLOT_BITS 10 /* 1,024 slots: well above the number of commands */
#define COMMAND_SLOTS (1 << COMMAND_SLOT_BITS)
#define COMMAND_KEYWORDS 64
#define COMMAND_KEYWORD_BYTES 16

typedef struct {
    command_slot slots[COMMAND_SLOTS];
    command commands[COMMAND_SLOTS];
    uint16_t command_count;
    uint16_t keyword_count;
    char keywords[COMMAND_KEYWORDS][COMMAND_KEYWORD_BYTES];
} command_table;

/* Fills an empty table; returns the number of commands that touch keys, or -1 if the server's answer
 * is not understood. `keys_can_be_seen`: what a command has done is looked at after it. Where it
 * cannot be, events tell of the commands that the server calls generic, and the table leaves them
 * out. */
int command_table_load(command_table *table, RedisModuleCtx *ctx, int keys_can_be_seen);

/* In ASCII it turns capitals to small letters; what it does to the rest does not matter, as long as
 * it is always done. */
#define COMMAND_LOWER UINT64_C(0x2020202020202020)

/* A name, of at least one byte, as two words in which its length tells. What the server hands out
 * ends with a zero byte, which is why four bytes can be loaded for a name of three: GET, SET, DEL. */
static inline uint64_t command_word(const void *name, size_t length, uint64_t *tail) {
    const unsigned char *p = name;
    uint64_t word;

    if (length >= 8) {
        *tail = (sampler_load64(p + length - 8) | COMMAND_LOWER) + length;
        return sampler_load64(p) | COMMAND_LOWER;
    }
    *tail = 0;
    word = length == 3 ? sampler_load32(p) : sampler_load_short(p, length);
    return (word | COMMAND_LOWER) ^ (uint64_t)length << 56;
}

#define COMMAND_HASH_FACTOR UINT64_C(0x9E3779B97F4A7C15) /* 2^64 over the golden ratio */

static inline const command_slot *command_first_slot(const command_table *table, uint64_t word,
                                                     uint64_t tail) {
    return &table->slots[((word ^ tail) * COMMAND_HASH_FACTOR) >> (64 - COMMAND_SLOT_BITS)];
}

static inline const command_slot *command_next_slot(const command_table *table,
                                                    const command_slot *slot) {
    return &table->slots[(size_t)(slot - table->slots + 1) % COMMAND_SLOTS];
}

/* Returns the command with this name, or NULL if it does not touch keys. */
static inline const command_slot *command_find(const command_table *table, const void *name,
                                               size_t length) {
    uint64_t word, tail;
    const command_slot *slot;

    if (length == 3) { /* GET or SET, most likely, and then it is found at once */
        word = command_word(name, 3, &tail);
        slot = command_first_slot(table, word, 0);
        if (slot->word == word) return slot;
    } else if (length) {
        word = command_word(name, length, &tail);
        slot = command_first_slot(table, word, tail);
    } else {
        return NULL;
    }
    while (slot->word != word || slot->tail != tail) {
        if (slot->word == 0) return NULL;
        slot = command_next_slot(table, slot);
    }
    return slot;
}

#endif
