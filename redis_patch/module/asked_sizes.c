#include "asked_sizes.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MOST_WANTED 256 /* of the commands that arrive together: most answers take 2 us each */
#define SAMPLED_ELEMENTS 8
/* Of a hash of millions whose table is growing, the server looks for the elements through empty
 * buckets, for a millisecond and more. */
#define MOST_US_A_SECOND 10000

/* MEMORY USAGE has an object too, and, but for Valkey 8.1 and later, the key and its entry among the
 * keys. All keys have those, and the sidecar adds what they take, as it learns from the server's
 * memory: a record has key and value. */
#define OBJECT_BYTES 16
#define ENTRY_BYTES 24

typedef struct {
    RedisModuleString *key;
    uint64_t hash;
    uint32_t first_record; /* of the open batch, that may tell of it */
    uint16_t db;
} wanted_size;

static wanted_size wanted[MOST_WANTED];
static size_t count;
static int event_fd = -1; /* readable while sizes are wanted */

/* What asking has taken of the processor; it is forgotten by a hundredth of the time that passes.
 * What others took meanwhile is not counted: one turn of theirs is as long as a second's share. */
static uint64_t spent_us;

/* Whether one more may be asked for in this second. */
static int may_ask(const module_state *module) {
    static uint64_t second;
    static long long asked;
    uint64_t now = now_us() / 1000000;

    if (now != second) {
        uint64_t allowed_us = now > second ? (now - second) * MOST_US_A_SECOND : 0;
        spent_us -= spent_us < allowed_us ? spent_us : allowed_us;
        second = now;
        asked = 0;
    }
    return spent_us < MOST_US_A_SECOND && asked++ < module->size_estimates;
}

static int is_wanted(uint64_t hash, uint16_t db) {
    for (size_t i = 0; i < count; i++) {
        if (wanted[i].hash == hash && wanted[i].db == db) return 1;
    }
    return 0;
}

void want_size(module_state *module, uint64_t hash, uint16_t db, RedisModuleString *key) {
    const uint64_t one = 1;
    size_t length;

    if (is_wanted(hash, db)) return;
    if (count == MOST_WANTED || !may_ask(module) ||
        (count == 0 && write(event_fd, &one, sizeof one) != sizeof one)) {
        module->sizes_not_asked++;
        return;
    }
    const char *text = RedisModule_StringPtrLen(key, &length);
    wanted[count++] = (wanted_size){
        .key = RedisModule_CreateString(NULL, text, length),
        .hash = hash,
        .first_record = module->sampler.count - 1,
        .db = db,
    };
}

/* What the server says; 0 if it has no such key, or not here: its cluster slot may have moved. */
static uint64_t ask_size(const module_state *module, const wanted_size *one) {
    static int is_told;
    long long bytes = 0;

    if (RedisModule_SelectDb(module->ctx, one->db == SAMPLER_DB_UNKNOWN ? 0 : one->db) !=
        REDISMODULE_OK) {
        return 0;
    }
    errno = 0;
    RedisModuleCallReply *reply = RedisModule_Call(module->ctx, "MEMORY", "cscl", "USAGE", one->key,
                                                   "SAMPLES", (long long)SAMPLED_ELEMENTS);
    if (reply && RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_INTEGER) {
        bytes = RedisModule_CallReplyInteger(reply);
    } else if (!reply && errno == ENOENT && !is_told) {
        is_told = 1;
        RedisModule_Log(module->ctx, "warning",
                        "spreds has no sizes of lists, sets, hashes and sorted sets: this server "
                        "has no command MEMORY");
    }
    if (reply) RedisModule_FreeCallReply(reply);
    if (bytes == 0) return 0;
    size_t key_bytes;
    RedisModule_StringPtrLen(one->key, &key_bytes);
    bytes += module->usage_lacks_key ? (long long)key_bytes : -ENTRY_BYTES;
    return bytes > OBJECT_BYTES ? (uint64_t)(bytes - OBJECT_BYTES) : 0;
}

static void release_wanted(void) {
    while (count) RedisModule_FreeString(NULL, wanted[--count].key);
}

void ask_wanted_sizes(module_state *module) {
    sampler *s = &module->sampler;
    size_t asked = 0;

    if (count == 0) return;
    uint64_t begun_us = processor_us();
    for (; asked < count && spent_us < MOST_US_A_SECOND; asked++) {
        const wanted_size *one = &wanted[asked];
        uint64_t bytes = ask_size(module, one), now = processor_us();
        if (bytes) sampler_set_size(s, one->hash, one->db, one->first_record, bytes);
        spent_us += now - begun_us;
        begun_us = now;
    }
    module->sizes_not_asked += count - asked;
    release_wanted();
    /* So that the records of the next commands have room in one batch until they are here. */
    if (s->count > SAMPLER_BATCH_RECORDS / 2) sampler_flush(s, now_us());
}

static void on_wanted(int fd, void *module, int mask) {
    uint64_t times;
    (void)mask;
    if (read(fd, &times, sizeof times) == sizeof times) ask_wanted_sizes(module);
}

int begin_to_ask_sizes(module_state *module) {
    if (event_fd >= 0) return 1;
    event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (event_fd < 0) return 0;
    if (RedisModule_EventLoopAdd(event_fd, REDISMODULE_EVENTLOOP_READABLE, on_wanted, module) ==
        REDISMODULE_OK) {
        return 1;
    }
    close(event_fd);
    event_fd = -1;
    return 0;
}

void forget_wanted_sizes(module_state *module) {
    module->sizes_not_asked += count;
    release_wanted();
}

void end_to_ask_sizes(module_state *module) {
    forget_wanted_sizes(module);
    if (event_fd < 0) return;
    RedisModule_EventLoopDel(event_fd, REDISMODULE_EVENTLOOP_READABLE);
    close(event_fd);
    event_fd = -1;
}
