/* The sampler: decides which keys are followed, and packs what happens to them into batches.
 *
 * It knows nothing of Redis and nothing of ZeroMQ: the glue (spreds.c in a patched server, module.c
 * in the module) tells it what was accessed and what time it is, and gives it a function that takes
 * a finished batch. The format of a batch is in WIRE_FORMAT.md.
 *
 * Guarantees:
 *   - it never blocks, never allocates after sampler_init(), and makes no system call of its own;
 *   - an access to a key that is not sampled costs one hash, one comparison and one count;
 *   - all records of one batch were sampled under the T, P and salt of its header;
 *   - in a forked child it is off.
 *
 * Use:
 *
 *   static sampler s;
 *   sampler_init(&s, SAMPLER_SOURCE_PATCH, instance, now_ms, send, transport);
 *   sampler_set_sampling(&s, 167772, 16777216, salt, now_us);
 *   sampler_start(&s, now_us);
 *   ...
 *   if (s.on) {                                    // on every access
 *       uint64_t hash = sampler_hash(key, length, s.salt);
 *       s.seen_reads++;
 *       if (sampler_takes(&s, hash)) sampler_record(&s, hash, SAMPLER_READ_HIT, ...);
 *   }
 *   ...
 *   sampler_tick(&s, now_us);                      // some twenty times a second, or more often
 *
 * One thread at a time may use a sampler. */

#ifndef SPREDS_SAMPLER_H
#define SPREDS_SAMPLER_H

#include "key_hash.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the sampler writes its batches as they lie in memory: it needs a little-endian machine"
#endif

/* ------------------------------------------------------------------ wire format, WIRE_FORMAT.md */

#define SAMPLER_VERSION 3
#define SAMPLER_BATCH_BYTES 16384
#define SAMPLER_SECRET_BYTES 16

enum { SAMPLER_SOURCE_PATCH = 1, SAMPLER_SOURCE_MODULE = 2 };

enum {
    SAMPLER_READ_HIT = 1,
    SAMPLER_READ_MISS,
    SAMPLER_WRITE,
    SAMPLER_DELETE,
    SAMPLER_EXPIRY,
    SAMPLER_EVICTION,
    SAMPLER_FLUSH,
    SAMPLER_SWAP
};

enum {
    SAMPLER_HAS_TTL = 1,
    SAMPLER_SIZE_KNOWN = 2,
    SAMPLER_TTL_KNOWN = 4,
    SAMPLER_SIZE_ALLOCATED = 8
};

#define SAMPLER_DB_UNKNOWN UINT16_MAX

/* A sampler's first batch has the time of its making in ms, times this, as its sequence. */
#define SAMPLER_SEQUENCES (UINT64_C(1) << 22)

typedef struct {
    char magic[4];
    uint16_t version;
    uint16_t header_bytes;
    uint16_t record_bytes;
    uint16_t source;
    uint32_t record_count;
    uint64_t instance;
    uint64_t sequence;
    uint64_t first_time_us;
    uint64_t last_time_us;
    uint64_t threshold;
    uint64_t modulus;
    uint64_t salt_id;
    uint64_t seen;
    uint64_t seen_reads;
    uint64_t sampled;
    uint64_t dropped;
    uint8_t secret[SAMPLER_SECRET_BYTES];
} sampler_header;

typedef struct {
    uint64_t hash;
    uint32_t size_bytes;
    uint16_t db;
    uint8_t operation;
    uint8_t flags;
    uint32_t ttl_ms;
    uint32_t time_us;
} sampler_record_t;

#define SAMPLER_BATCH_RECORDS \
    ((SAMPLER_BATCH_BYTES - sizeof(sampler_header)) / sizeof(sampler_record_t))

typedef struct {
    sampler_header header;
    sampler_record_t records[SAMPLER_BATCH_RECORDS];
} sampler_batch;

_Static_assert(sizeof(sampler_header) == 120, "the header is 120 bytes on the wire");
_Static_assert(sizeof(sampler_record_t) == 24, "a record is 24 bytes on the wire");

/* ----------------------------------------------------------------------------------- the sampler */

#define SAMPLER_DEFAULT_THRESHOLD 167772 /* with the modulus below: one key in a hundred */
#define SAMPLER_DEFAULT_MODULUS 16777216
#define SAMPLER_MAX_MODULUS (UINT64_C(1) << 32)

#define SAMPLER_FLUSH_US 50000       /* a record waits no longer than this */
#define SAMPLER_HEARTBEAT_US 1000000 /* counters travel at least this often while it is on */

/* Takes a finished batch. Returns 1 if it will be sent, 0 if it could not be taken: it must not
 * wait, and the batch is gone when it returns. */
typedef int (*sampler_send)(void *transport, const void *batch, size_t batch_bytes);

#define SAMPLER_SEEDS 256 /* keys below this length have seeds at hand */

typedef struct {
    /* What every access reads. */
    int on;             /* accesses are looked at; 0 in a forked child */
    uint64_t salt;      /* seeds the hash */
    uint64_t mask;      /* P - 1 */
    uint64_t threshold; /* T: a key is sampled if (hash & mask) < threshold */
    uint64_t seen_reads;
    uint64_t seen_others;          /* writes, deletes, expiries, evictions */
    uint64_t seeds[SAMPLER_SEEDS]; /* sampler_seed() of each short length, under the salt */

    /* What only a sampled access, or the clock, touches. */
    uint64_t sampled;         /* records made */
    uint64_t dropped;         /* of them, records in batches that were not taken */
    uint64_t batches_dropped; /* those batches */
    /* sampler_tick() has something to do when wait_us have passed since since_us; also when the
     * clock has stepped back behind it. */
    uint64_t since_us;
    uint64_t wait_us;
    uint64_t first_sequence;
    uint32_t count; /* records in the open batch */
    sampler_send send;
    void *transport;
    sampler_batch batch; /* the open batch; its sequence is the next to be used */
} sampler;

/* Sets up a sampler that is off. `instance` identifies the server in each batch's header; a sampler
 * that is made at a later `now_ms` for the same one has higher sequences. */
void sampler_init(sampler *s, int source, uint64_t instance, uint64_t now_ms, sampler_send send,
                  void *transport);

/* Changes T, P (a power of two up to SAMPLER_MAX_MODULUS; T at most P) and the salt, at once. */
void sampler_set_sampling(sampler *s, uint64_t threshold, uint64_t modulus, uint64_t salt,
                          uint64_t now_us);

/* Lets each batch from now on carry a secret, by which the reader knows that it is this sampler's; NULL
 * takes it away again. */
void sampler_set_secret(sampler *s, const uint8_t secret[SAMPLER_SECRET_BYTES]);

/* Reads a secret from its 32 hexadecimal digits. Returns 0 if `text` is something else. */
int sampler_read_secret(const char *text, uint8_t secret[SAMPLER_SECRET_BYTES]);

/* Begins and ends to look at accesses. */
void sampler_start(sampler *s, uint64_t now_us);
void sampler_stop(sampler *s, uint64_t now_us);

/* What sampler_record() and sampler_set_ttl() are told where there is no TTL, or none is known. */
#define SAMPLER_NO_TTL (-1)

/* Adds a record about a key that sampler_takes() took, or about a flush or a swap, and returns it:
 * it may be changed until the next call. `flags` need not tell of a TTL that is known. A full batch
 * stays open until the next record, so that sampler_amend() still finds its last one. */
sampler_record_t *sampler_record(sampler *s, uint64_t hash, int operation, int flags, uint16_t db,
                                 uint64_t size_bytes, int64_t ttl_ms, uint64_t now_us);

/* Makes room for `records` more in the open batch (or a whole batch, if that is less): those that
 * follow stay within reach of sampler_amend() until they are all there. */
void sampler_reserve(sampler *s, uint64_t records);

/* The newest record of the open batch with this hash and operation, or NULL: for what is learnt
 * about an access only after it. Records before `from` are left alone; a `from` of a batch that has
 * been sent since, which is more than the open one holds, counts as 0. */
sampler_record_t *sampler_amend(sampler *s, uint64_t hash, int operation, uint32_t from);

/* Lets the records of the open batch from `from` on, as for sampler_amend(), that tell of this key and
 * not its size, tell that it takes so many bytes, with what the allocator adds. */
void sampler_set_size(sampler *s, uint64_t hash, uint16_t db, uint32_t from, uint64_t size_bytes);

/* Lets a record tell that its key has `ttl_ms` left to live; SAMPLER_NO_TTL changes nothing. */
static inline void sampler_set_ttl(sampler_record_t *record, int64_t ttl_ms) {
    if (ttl_ms < 0) return;
    record->flags |= SAMPLER_HAS_TTL | SAMPLER_TTL_KNOWN;
    record->ttl_ms = ttl_ms < UINT32_MAX ? (uint32_t)ttl_ms : UINT32_MAX;
}

/* Takes back the reads and writes of the open batch from `from` on, as for sampler_amend(): the
 * command was refused. */
void sampler_take_back(sampler *s, uint32_t from);

/* Sends what is open: part of a batch, or none of it, only a header. */
void sampler_flush(sampler *s, uint64_t now_us);

/* Returns 1 for the values that sampler_set_sampling() accepts. */
static inline int sampler_sampling_is_valid(uint64_t threshold, uint64_t modulus) {
    return modulus > 0 && modulus <= SAMPLER_MAX_MODULUS && (modulus & (modulus - 1)) == 0 &&
           threshold <= modulus;
}

/* ---------------------------------------------------------------------------------- the hot path */

/* The same under the sampler's salt, a few instructions sooner; `length` is below SAMPLER_SEEDS. */
static inline uint64_t sampler_hash_short(const sampler *s, const void *key, size_t length) {
    return sampler_hash_from(s->seeds[length], key, length);
}

/* Returns 1 if the key with this hash is sampled. */
static inline int sampler_takes(const sampler *s, uint64_t hash) {
    return (hash & s->mask) < s->threshold;
}

/* To be called regularly: sends what has waited long enough. */
static inline void sampler_tick(sampler *s, uint64_t now_us) {
    if (s->on && now_us - s->since_us >= s->wait_us) sampler_flush(s, now_us);
}

/* Batches made so far. */
static inline uint64_t sampler_batches(const sampler *s) {
    return s->batch.header.sequence - s->first_sequence;
}

#endif
