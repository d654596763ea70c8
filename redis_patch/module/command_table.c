/* See command_table.h. */

#include "command_table.h"

#include <strings.h>

/* ------------------------------------------------------- exceptions from what the server says */

/* Their keys are accessed by the commands inside, which pass the filter themselves. */
static const char *const SCRIPTS[] = {"eval",  "evalsha",  "eval_ro", "evalsha_ro",
                                      "fcall", "fcall_ro", NULL};

/* The server says they read a key, but they look none up, or not as a reference: their own look-up
 * leaves the key's clock alone. */
static const char *const NOT_READING[] = {"watch", "object", "memory", NULL};
static const char *const LOOKING[] = {"exists",     "type",        "ttl", "pttl",
                                      "expiretime", "pexpiretime", NULL};

/* They never make the key, though their specification has "insert" or "update". */
static const char *const CHANGING[] = {"lpushx", "rpushx", "xsetid", NULL};

/* Neither do these; and who asks for them knows that it is there. */
static const char *const CHANGING_WHAT_IS_THERE[] = {"lset",   "linsert",    "xack",
                                                     "xclaim", "xautoclaim", NULL};

/* They only make the key. */
static const char *const MAKING[] = {"setnx", "msetnx", "renamenx", NULL};

static const char *const EXPIRING[] = {"expire",    "pexpire", "expireat",
                                       "pexpireat", "persist", NULL};

/* They look the key up as a read as well, and then change it. */
static const char *const READING_TOO[] = {"getset", "getdel", "getex", "pfmerge", NULL};

/* Where the value is an argument, and what else is special. */
static const struct {
    const char *name;
    int value_offset;
    command_special special;
} SPECIALS[] = {
    {"set", 1, SPECIAL_SET},
    {"setnx", 1, SPECIAL_NONE},
    {"getset", 1, SPECIAL_NONE},
    {"mset", 1, SPECIAL_NONE},
    {"msetnx", 1, SPECIAL_NONE},
    {"setex", 2, SPECIAL_EXPIRES},
    {"psetex", 2, SPECIAL_EXPIRES},
    {"bitfield", 0, SPECIAL_BITFIELD},
    {"sort", 0, SPECIAL_SORTS},
    {"flushall", 0, SPECIAL_FLUSHES_OR_SWAPS},
    {"flushdb", 0, SPECIAL_FLUSHES_OR_SWAPS},
    {"swapdb", 0, SPECIAL_FLUSHES_OR_SWAPS},
    {"copy", 0, SPECIAL_COPIES},
    {"move", 0, SPECIAL_MOVES},
    {"blmove", 0, SPECIAL_BLOCKS},
    {"brpoplpush", 0, SPECIAL_BLOCKS},
    {"exec", 0, SPECIAL_EXECUTES},
    {"discard", 0, SPECIAL_DISCARDS},
    {"client", 0, SPECIAL_CLIENT},
    {"select", 0, SPECIAL_SELECTS},
};

static int is_among(const char *name, const char *const *names) {
    for (; *names; names++) {
        if (!strcmp(name, *names)) return 1;
    }
    return 0;
}

/* ------------------------------------------------------------------------------ reading the reply */

/* The text of a reply, in lower case, cut to `size`; "" if it is not text. */
static const char *text_of(RedisModuleCallReply *reply, char *text, size_t size) {
    size_t length = 0;
    const char *from = NULL;

    if (reply && RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_STRING) {
        from = RedisModule_CallReplyStringPtr(reply, &length);
    }
    if (length >= size) length = size - 1;
    for (size_t i = 0; i < length; i++) {
        text[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] + 32) : from[i];
    }
    text[length] = 0;
    return text;
}

static size_t length_of(RedisModuleCallReply *reply) {
    int is_array = reply && RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_ARRAY;
    return is_array ? RedisModule_CallReplyLength(reply) : 0;
}

/* Whether a set of flags has this one. */
static int has_flag(RedisModuleCallReply *flags, const char *flag) {
    char text[32];
    for (size_t i = 0; i < length_of(flags); i++) {
        RedisModuleCallReply *element = RedisModule_CallReplyArrayElement(flags, i);
        if (!strcmp(text_of(element, text, sizeof text), flag)) return 1;
    }
    return 0;
}

/* The value of a key in a map that came as a flat array, or NULL. */
static RedisModuleCallReply *value_of(RedisModuleCallReply *map, const char *key) {
    char text[32];
    for (size_t i = 0; i + 1 < length_of(map); i += 2) {
        RedisModuleCallReply *element = RedisModule_CallReplyArrayElement(map, i);
        if (!strcmp(text_of(element, text, sizeof text), key)) {
            return RedisModule_CallReplyArrayElement(map, i + 1);
        }
    }
    return NULL;
}

static int number_of(RedisModuleCallReply *map, const char *key) {
    RedisModuleCallReply *value = value_of(map, key);
    int is_integer = value && RedisModule_CallReplyType(value) == REDISMODULE_REPLY_INTEGER;
    return is_integer ? (int)RedisModule_CallReplyInteger(value) : 0;
}

/* ------------------------------------------------------------------------------ one command's keys */

/* What a command that changes keys does to those of one specification. */
static key_use change_of(const char *name, RedisModuleCallReply *categories,
                         RedisModuleCallReply *flags) {
    int takes_out =
        has_flag(flags, "delete") && !has_flag(flags, "insert") && !has_flag(flags, "update");
    if (is_among(name, EXPIRING)) return KEYS_EXPIRED;
    if (is_among(name, CHANGING)) return KEYS_CHANGED;
    if (is_among(name, CHANGING_WHAT_IS_THERE)) return KEYS_WRITTEN;
    if (is_among(name, MAKING) && !takes_out) return KEYS_MADE;
    if (takes_out && (has_flag(categories, "@keyspace") || !strcmp(name, "getdel"))) {
        return KEYS_REMOVED;
    }
    if (!strcmp(name, "getex")) return KEYS_EXPIRED;
    return takes_out ? KEYS_CHANGED : KEYS_WRITTEN;
}

/* What the command does to the keys of one specification; 0: nothing that the filter records. */
static key_use use_of(const char *name, RedisModuleCallReply *command_flags,
                      RedisModuleCallReply *categories, RedisModuleCallReply *flags,
                      int keys_can_be_seen) {
    if (has_flag(flags, "not_key") || is_among(name, SCRIPTS) || is_among(name, NOT_READING)) {
        return 0;
    }
    if (is_among(name, LOOKING) || has_flag(command_flags, "readonly") || has_flag(flags, "ro")) {
        return KEYS_READ;
    }
    key_use change = change_of(name, categories, flags);
    key_use read = is_among(name, READING_TOO) ? KEYS_READ : 0;
    if (keys_can_be_seen) return read | change;
    /* Events of the generic class tell what these changed. */
    if (has_flag(categories, "@keyspace")) return 0;
    return read | (change & (KEYS_EXPIRED | KEYS_REMOVED) ? 0 : change);
}

/* Reads where a specification finds its keys. Returns 0 if the server itself does not know. */
static int parse_range(command_table *table, RedisModuleCallReply *spec, key_range *range) {
    char text[32];
    RedisModuleCallReply *begin = value_of(spec, "begin_search");
    RedisModuleCallReply *begin_spec = value_of(begin, "spec");
    RedisModuleCallReply *find = value_of(spec, "find_keys");
    RedisModuleCallReply *find_spec = value_of(find, "spec");

    text_of(value_of(begin, "type"), text, sizeof text);
    if (!strcmp(text, "index")) {
        range->start = number_of(begin_spec, "index");
    } else if (!strcmp(text, "keyword") && table->keyword_count < COMMAND_KEYWORDS) {
        char *keyword = table->keywords[table->keyword_count++];
        range->keyword = text_of(value_of(begin_spec, "keyword"), keyword, COMMAND_KEYWORD_BYTES);
        range->start = number_of(begin_spec, "startfrom");
    } else {
        return 0;
    }
    text_of(value_of(find, "type"), text, sizeof text);
    if (!strcmp(text, "range")) {
        range->last = number_of(find_spec, "lastkey");
        range->step = number_of(find_spec, "keystep");
        range->limit = number_of(find_spec, "limit");
    } else if (!strcmp(text, "keynum")) {
        range->count_at = number_of(find_spec, "keynumidx");
        range->first = number_of(find_spec, "firstkey");
        range->step = number_of(find_spec, "keystep");
        if (range->first <= range->count_at) return 0;
    } else {
        return 0;
    }
    return range->step > 0;
}

/* A special of these has nothing done for it before the command has run. */
static int is_plain(command_special special) {
    return special == SPECIAL_NONE || special == SPECIAL_SET || special == SPECIAL_EXPIRES ||
           special == SPECIAL_BITFIELD;
}

static void insert(command_table *table, const char *name, const command *c) {
    const key_range *r = &c->range[0];
    int is_one = c->ranges == 1 && r->start == 1 && !r->keyword && !r->first && r->last == 0 &&
                 is_plain(c->special);
    command_slot filled = {.index = table->command_count, .layout = LAYOUT_RANGES};

    if (!*name) return;
    if (is_one) {
        filled.layout = LAYOUT_ONE_KEY;
        filled.writes = r->use != KEYS_READ;
    }
    filled.word = command_word(name, strlen(name), &filled.tail);
    table->commands[table->command_count++] = *c;
    const command_slot *slot = command_first_slot(table, filled.word, filled.tail);
    while (slot->word) slot = command_next_slot(table, slot);
    table->slots[slot - table->slots] = filled;
}

/* Where COMMAND's answer has what of a command. */
enum {
    REPLY_NAME = 0,
    REPLY_FLAGS = 2,
    REPLY_CATEGORIES = 6,
    REPLY_KEY_SPECS = 8,
    REPLY_SUBCOMMANDS = 9
};

/* The entry that says where the keys are: of XINFO and XGROUP it is a subcommand's, and all of them
 * have theirs in the same place. */
static RedisModuleCallReply *entry_with_keys(RedisModuleCallReply *entry) {
    RedisModuleCallReply *subcommands = RedisModule_CallReplyArrayElement(entry, REPLY_SUBCOMMANDS);
    for (size_t i = 0; i < length_of(subcommands); i++) {
        RedisModuleCallReply *subcommand = RedisModule_CallReplyArrayElement(subcommands, i);
        if (length_of(RedisModule_CallReplyArrayElement(subcommand, REPLY_KEY_SPECS))) {
            return subcommand;
        }
    }
    return entry;
}

static void load_special(command *c, const char *name) {
    if (is_among(name, LOOKING)) c->special = SPECIAL_LOOKS;
    if (is_among(name, SCRIPTS)) c->special = SPECIAL_RUNS_SCRIPT;
    for (size_t i = 0; i < sizeof SPECIALS / sizeof *SPECIALS; i++) {
        if (!strcmp(name, SPECIALS[i].name)) {
            c->value_offset = SPECIALS[i].value_offset;
            c->special = SPECIALS[i].special;
        }
    }
}

static int is_for_elements(RedisModuleCallReply *categories) {
    static const char *const TYPES[] = {"@list", "@set", "@hash", "@sortedset", "@geo"};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (has_flag(categories, TYPES[i])) return 1;
    }
    return 0;
}

/* Puts one command of the reply into the table. Returns 1 if it touches keys. */
static int load_command(command_table *table, RedisModuleCallReply *reply, int keys_can_be_seen) {
    char name[64];
    command c = {0};
    RedisModuleCallReply *entry = entry_with_keys(reply);
    RedisModuleCallReply *flags = RedisModule_CallReplyArrayElement(entry, REPLY_FLAGS);
    RedisModuleCallReply *categories = RedisModule_CallReplyArrayElement(entry, REPLY_CATEGORIES);
    RedisModuleCallReply *specs = RedisModule_CallReplyArrayElement(entry, REPLY_KEY_SPECS);

    text_of(RedisModule_CallReplyArrayElement(reply, REPLY_NAME), name, sizeof name);
    for (size_t i = 0; i < length_of(specs) && c.ranges < COMMAND_MAX_RANGES; i++) {
        RedisModuleCallReply *spec = RedisModule_CallReplyArrayElement(specs, i);
        key_range range = {
            .use = use_of(name, flags, categories, value_of(spec, "flags"), keys_can_be_seen)};
        if (range.use && parse_range(table, spec, &range)) c.range[c.ranges++] = range;
    }
    c.has_elements = is_for_elements(categories);
    load_special(&c, name);
    if (c.special == SPECIAL_MOVES && c.ranges == 1) {
        c.range[1] = c.range[0];
        c.range[1].use = KEYS_MADE;
        c.ranges = 2;
    }
    if (c.ranges == 0 && c.special == SPECIAL_NONE) return 0;
    insert(table, name, &c);
    return 1;
}

int command_table_load(command_table *table, RedisModuleCtx *ctx, int keys_can_be_seen) {
    int loaded = 0;
    RedisModuleCallReply *reply = RedisModule_Call(ctx, "COMMAND", "");
    size_t length = length_of(reply);
    int understood = length <= COMMAND_SLOTS * 3 / 4; /* of more, searches would become long */

    for (size_t i = 0; understood && i < length; i++) {
        RedisModuleCallReply *entry = RedisModule_CallReplyArrayElement(reply, i);
        understood = length_of(entry) > REPLY_KEY_SPECS;
        if (understood) loaded += load_command(table, entry, keys_can_be_seen);
    }
    if (reply) RedisModule_FreeCallReply(reply);
    return understood && loaded ? loaded : -1;
}
