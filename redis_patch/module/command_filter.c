#include "command_filter.h"

#include "access_records.h"
#include "call_arguments.h"
#include "keys_after_command.h"
#include "keyspace_events.h"
#include "no_touch_clients.h"
#include "refusals.h"
#include "selected_db.h"

/* Set before the filter is registered; the server hands it no pointer. */
static module_state *module;

/* --------------------------------------------------------------------------------- ranges of keys */

/* The text of argument `at`, and its length; NULL if there are not so many. */
static inline const unsigned char *text_of(RedisModuleCommandFilterCtx *call, int at,
                                           size_t *length) {
    if (module->arguments_are_open == 1) {
        if (at >= open_argument_count(call)) return NULL;
        const unsigned char *text = open_text(open_argument(call, at));
        if (length_is_open(text)) {
            *length = open_length(text);
            return text;
        }
    }
    RedisModuleString *argument = RedisModule_CommandFilterArgGet(call, at);
    return argument ? (const unsigned char *)RedisModule_StringPtrLen(argument, length) : NULL;
}

/* Counts the access to the key in argument `at`, and records it if the key is sampled. */
static void observe_key(RedisModuleCommandFilterCtx *call, const command *c, key_use use, int at) {
    size_t key_bytes;
    sampler *s = &module->sampler;
    const unsigned char *text = text_of(call, at, &key_bytes);
    if (!text) return; /* too few arguments: the server will refuse it */
    uint64_t hash = sampler_hash(text, key_bytes, s->salt);

    s->seen_others += use != KEYS_READ;
    if (sampler_takes(s, hash)) record_access(module, call, c, use, at, hash);
}

/* The first key of a range and the last; 0 if it has none. */
static int first_of_range(RedisModuleCommandFilterCtx *call, const key_range *r, int *last) {
    int count = RedisModule_CommandFilterArgsCount(call);
    int start = r->keyword ? find_keyword(call, r->start, r->keyword) : r->start;
    int first = start;

    if (start == 0) return 0;
    if (r->first) {
        RedisModuleString *number = RedisModule_CommandFilterArgGet(call, start + r->count_at);
        long long keys;
        if (!number || RedisModule_StringToLongLong(number, &keys) != REDISMODULE_OK) return 0;
        if (keys < 1 || keys > count) return 0;
        first = start + r->first;
        *last = first + ((int)keys - 1) * r->step;
    } else if (r->last >= 0) {
        *last = start + r->last;
    } else if (r->limit > 1) {
        *last = start + (count - start) / r->limit - 1;
    } else {
        *last = count + r->last;
    }
    if (*last >= count) *last = count - 1;
    return first;
}

/* All keys of one range. */
static void observe_range(RedisModuleCommandFilterCtx *call, const command *c, const key_range *r) {
    int last, first = first_of_range(call, r, &last);

    if (first == 0) return;
    if (c->special == SPECIAL_LOOKS) {
        if (last >= first) count_looks(module, (uint64_t)((last - first) / r->step + 1));
        return;
    }
    if (last > first && !keys_can_be_seen(module)) { /* events are to find their reads */
        sampler_reserve(&module->sampler, (uint64_t)((last - first) / r->step + 1));
        if (module->pending.first_record > module->sampler.count) module->pending.first_record = 0;
    }
    for (int at = first; at <= last; at += r->step) observe_key(call, c, r->use, at);
}

/* What is to be done for a command beside its keys. */
static void observe_special(RedisModuleCommandFilterCtx *call, const command *c) {
    unsigned long long client_id = module->get_client_id ? module->get_client_id(call) : 0;
    switch (c->special) {
    case SPECIAL_CLIENT:
        watch_client_command(module, call);
        break;
    case SPECIAL_FLUSHES_OR_SWAPS:
        watch_databases();
        break;
    case SPECIAL_EXECUTES:
        transaction_runs(module, client_id);
        break;
    case SPECIAL_DISCARDS:
        transaction_is_discarded(client_id);
        break;
    case SPECIAL_SORTS: {
        int destination = find_keyword(call, 2, "store");
        if (destination) observe_key(call, c, KEYS_WRITTEN, destination);
        break;
    }
    default:
        break;
    }
}

__attribute__((noinline)) static void observe_ranges(RedisModuleCommandFilterCtx *call,
                                                     const command *c) {
    int runs_others = c->special == SPECIAL_EXECUTES || c->special == SPECIAL_RUNS_SCRIPT;
    module->pending.first_record = runs_others ? 0 : module->sampler.count;
    module->pending.is_look = c->special == SPECIAL_LOOKS;
    if (c->special != SPECIAL_NONE) {
        remember_selected_db(module, call, c);
        observe_special(call, c);
    }
    for (int i = 0; i < c->ranges; i++) observe_range(call, c, &c->range[i]);
}

/* -------------------------------------------------------------------------------- GET and SET */

/* Most of what a cache is asked for: their names are found by one comparison. */
#define USUAL_LENGTH 3
#define NO_LETTERS UINT32_MAX /* four, which no three letters are */
_Static_assert(SHORT_TEXT_MOST < SAMPLER_SEEDS, "each short key has a seed at hand");

typedef struct {
    uint32_t letters; /* see three_letters(); NO_LETTERS: there is no such command */
    const command_slot *slot;
} usual;

static usual get, set;

static usual learn_usual(const char *name, int writes) {
    const command_slot *slot = command_find(&module->commands, name, USUAL_LENGTH);
    int is_known = slot && slot->layout == LAYOUT_ONE_KEY && slot->writes == writes;
    return is_known ? (usual){three_letters(name), slot} : (usual){NO_LETTERS, NULL};
}

/* ----------------------------------------------------------------------------------- the filter */

/* Whether only filter_with_care() will do. */
static void set_careful(void) {
    module->pending.is_open = module->arguments_are_open != 1;
}

/* What the command before has left to be done, now that it has run. */
static void settle(RedisModuleCommandFilterCtx *call) {
    if (module->pending.unconfirmed) confirm_pending(module);
    int still_runs = forget_selected_db(module, call);
    /* While a command of such a client passes, no key may be looked at: then the next one does it. */
    if (keys_can_be_seen(module) && may_be_no_touch(module->get_client_id(call))) return;
    record_changed_keys(module);
    if (module->arguments_are_open < 0) module->arguments_are_open = call_is_open(call);
    set_careful();
    if (still_runs) module->pending.is_open = 1; /* it is to be forgotten when it has run */
}

/* Any command, on any server. */
__attribute__((noinline)) static void filter_with_care(RedisModuleCommandFilterCtx *call) {
    size_t length = 0;

    if (module->pending.is_open) settle(call);
    const unsigned char *name = text_of(call, 0, &length);
    const command_slot *slot = command_find(&module->commands, name, length);
    if (!slot) return;
    const command *c = &module->commands.commands[slot->index];
    if (slot->layout == LAYOUT_RANGES) {
        observe_ranges(call, c);
    } else {
        module->pending.first_record = module->sampler.count;
        observe_key(call, c, c->range[0].use, 1);
    }
}

__attribute__((noinline)) static void
record_only_key(RedisModuleCommandFilterCtx *call, const command_slot *const *slot, uint64_t hash) {
    const command *c = &module->commands.commands[(*slot)->index];
    module->pending.first_record = module->sampler.count;
    module->pending.is_look = 0;
    record_access(module, call, c, c->range[0].use, 1, hash);
}

/* Of a command whose only key is not a short text. */
__attribute__((noinline)) static void observe_long_key(RedisModuleCommandFilterCtx *call,
                                                       const command_slot *const *slot) {
    sampler *s = &module->sampler;
    const unsigned char *text = open_text(open_argument(call, 1));
    if (!length_is_open(text)) return filter_with_care(call);
    uint64_t hash = sampler_hash(text, open_length(text), s->salt);
    s->seen_others += (*slot)->writes;
    if (sampler_takes(s, hash)) record_only_key(call, slot, hash);
}

/* For a key that is not sampled each instruction here is a hundredth of what it takes: it must be
 * inlined, and what `slot` points to is for the others to load. */
__attribute__((always_inline)) static inline void
observe_only_key(RedisModuleCommandFilterCtx *call, const command_slot *const *slot,
                 uint64_t writes) {
    sampler *s = &module->sampler;
    if (open_argument_count(call) < 2) return; /* the server will refuse it */
    const RedisModuleString *key = open_argument(call, 1);
    const unsigned char *text = usual_text(key);
    if (!is_usual(key)) {
        if (!is_short(key)) return observe_long_key(call, slot);
        text = short_text(key);
    }
    uint64_t hash = sampler_hash_short(s, text, short_length(text));
    s->seen_others += writes;
    if (sampler_takes(s, hash)) record_only_key(call, slot, hash);
}

__attribute__((noinline)) static void filter_unusual(RedisModuleCommandFilterCtx *call) {
    const RedisModuleString *name = open_argument(call, 0);
    if (!is_short(name)) return filter_with_care(call);
    const unsigned char *text = short_text(name);
    const command_slot *slot = command_find(&module->commands, text, short_length(text));
    if (!slot) return;
    if (slot->layout == LAYOUT_ONE_KEY) return observe_only_key(call, &slot, slot->writes);
    observe_ranges(call, &module->commands.commands[slot->index]);
}

/* Sees every command. Most have one key, and it is not sampled: that path is short, and calls
 * nothing. */
static void filter(RedisModuleCommandFilterCtx *call) {
    if (module->pending.is_open) return filter_with_care(call);
    const RedisModuleString *name = open_argument(call, 0);
    if (is_usual(name) && short_length(usual_text(name)) == USUAL_LENGTH) {
        uint32_t letters = three_letters(usual_text(name));
        if (letters == get.letters) return observe_only_key(call, &get.slot, 0);
        if (letters == set.letters) return observe_only_key(call, &set.slot, 1);
    }
    filter_unusual(call);
}

/* While sampling is off, if events have to be listened to all the same. */
static void filter_for_selected_db(RedisModuleCommandFilterCtx *call) {
    size_t length;
    RedisModuleString *argument = RedisModule_CommandFilterArgGet(call, 0);
    const char *name = RedisModule_StringPtrLen(argument, &length);
    const command_slot *slot = command_find(&module->commands, name, length);

    forget_selected_db(module, call);
    if (slot) remember_selected_db(module, call, &module->commands.commands[slot->index]);
}

void filter_commands(module_state *state, int on) {
    static RedisModuleCommandFilter *registered;

    module = state;
    get = learn_usual("get", 0);
    set = learn_usual("set", 1);
    if (registered) RedisModule_UnregisterCommandFilter(module->ctx, registered);
    registered = NULL;
    if (on) {
        set_careful();
        if (keys_can_be_seen(module)) learn_no_touch_clients(module);
        registered =
            RedisModule_RegisterCommandFilter(module->ctx, filter, REDISMODULE_CMDFILTER_NOSELF);
    } else {
        forget_waiting_keys();
        if (module->loses_selected_db) {
            registered = RedisModule_RegisterCommandFilter(module->ctx, filter_for_selected_db, 0);
        }
    }
}
