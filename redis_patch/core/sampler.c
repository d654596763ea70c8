/* The sampler's cold half. The hot one, with the condition by which a key is sampled, is inline in
 * sampler.h. */

#include "sampler.h"

#include <pthread.h>

/* ------------------------------------------------------------------------------------------ fork */

/* A server has one sampler. Its forked children (BGSAVE, AOF rewrite, a module's own) share the
 * transport's file descriptors but not its threads: a child that sent would corrupt the stream. */
static sampler *sampler_in_use;

static void off_in_child(void) {
    if (sampler_in_use) sampler_in_use->on = 0;
}

/* --------------------------------------------------------------------------------- batch and time */

static uint64_t rotate(uint64_t word, int bits) {
    return word << bits | word >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], int rounds) {
    while (rounds--) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

/* SipHash-2-4 of "spreds" under the key (salt, 0): Aumasson and Bernstein, INDOCRYPT 2012. The keys'
 * own hash would not do: it can be inverted. */
static uint64_t salt_id(uint64_t salt) {
    const uint64_t message = UINT64_C(6) << 56 | UINT64_C(0x736465727073); /* length, and text */
    uint64_t v[4] = {salt ^ UINT64_C(0x736f6d6570736575), UINT64_C(0x646f72616e646f6d),
                     salt ^ UINT64_C(0x6c7967656e657261), UINT64_C(0x7465646279746573)};

    v[3] ^= message;
    sip_rounds(v, 2);
    v[0] ^= message;
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void flush_after(sampler *s, uint64_t us, uint64_t now_us) {
    s->since_us = now_us;
    s->wait_us = us;
}

/* Closes the open batch, full or empty, and hands it over. The sequence counts it either way. */
void sampler_flush(sampler *s, uint64_t now_us) {
    sampler_header *header = &s->batch.header;

    if (!s->on) return;
    if (s->count == 0) header->first_time_us = header->last_time_us = now_us;
    header->record_count = s->count;
    header->seen = s->seen_reads + s->seen_others;
    header->seen_reads = s->seen_reads;
    header->sampled = s->sampled;
    header->dropped = s->dropped;
    if (!s->send(s->transport, &s->batch, sizeof *header + s->count * sizeof *s->batch.records)) {
        s->dropped += s->count;
        s->batches_dropped++;
    }
    header->sequence++;
    s->count = 0;
    flush_after(s, SAMPLER_HEARTBEAT_US, now_us);
}

static uint32_t wire_size(uint64_t size_bytes) {
    return size_bytes < UINT32_MAX ? (uint32_t)size_bytes : UINT32_MAX;
}

sampler_record_t *sampler_record(sampler *s, uint64_t hash, int operation, int flags, uint16_t db,
                                 uint64_t size_bytes, int64_t ttl_ms, uint64_t now_us) {
    if (s->count == SAMPLER_BATCH_RECORDS) sampler_flush(s, now_us);
    sampler_header *header = &s->batch.header;
    if (s->count == 0) {
        uint64_t waited_us = now_us - s->since_us;
        header->first_time_us = header->last_time_us = now_us;
        if (waited_us < s->wait_us && s->wait_us - waited_us > SAMPLER_FLUSH_US) {
            flush_after(s, SAMPLER_FLUSH_US, now_us);
        }
    }
    if (header->last_time_us < now_us) header->last_time_us = now_us; /* a clock may step back */
    uint64_t time_us = header->last_time_us - header->first_time_us;
    sampler_record_t *record = &s->batch.records[s->count++];
    *record = (sampler_record_t){
        .hash = hash,
        .size_bytes = wire_size(size_bytes),
        .db = db,
        .operation = (uint8_t)operation,
        .flags = (uint8_t)flags,
        .time_us = time_us < UINT32_MAX ? (uint32_t)time_us : UINT32_MAX,
    };
    sampler_set_ttl(record, ttl_ms);
    s->sampled++;
    return record;
}

void sampler_reserve(sampler *s, uint64_t records) {
    if (s->count && s->count + records > SAMPLER_BATCH_RECORDS) {
        sampler_flush(s, s->batch.header.last_time_us);
    }
}

sampler_record_t *sampler_amend(sampler *s, uint64_t hash, int operation, uint32_t from) {
    if (from > s->count) from = 0;
    for (uint32_t i = s->count; i-- > from;) {
        sampler_record_t *record = &s->batch.records[i];
        if (record->hash == hash && record->operation == operation) return record;
    }
    return NULL;
}

void sampler_set_size(sampler *s, uint64_t hash, uint16_t db, uint32_t from, uint64_t size_bytes) {
    if (from > s->count) from = 0;
    for (uint32_t i = from; i < s->count; i++) {
        sampler_record_t *record = &s->batch.records[i];
        if (record->hash != hash || record->db != db || record->flags & SAMPLER_SIZE_KNOWN)
            continue;
        if (record->operation != SAMPLER_READ_HIT && record->operation != SAMPLER_WRITE) continue;
        record->size_bytes = wire_size(size_bytes);
        record->flags |= SAMPLER_SIZE_KNOWN | SAMPLER_SIZE_ALLOCATED;
    }
}

void sampler_take_back(sampler *s, uint32_t from) {
    sampler_record_t *records = s->batch.records;
    if (from > s->count) from = 0;
    uint32_t kept = from;
    for (uint32_t i = from; i < s->count; i++) {
        int is_taken_back = records[i].operation <= SAMPLER_WRITE;
        if (!is_taken_back) records[kept++] = records[i];
    }
    s->sampled -= s->count - kept;
    s->count = kept;
}

/* ---------------------------------------------------------------------------------------- control */

void sampler_init(sampler *s, int source, uint64_t instance, uint64_t now_ms, sampler_send send,
                  void *transport) {
    memset(s, 0, sizeof *s);
    s->first_sequence = now_ms * SAMPLER_SEQUENCES;
    s->send = send;
    s->transport = transport;
    s->batch.header = (sampler_header){
        .magic = {'S', 'P', 'R', 'D'},
        .version = SAMPLER_VERSION,
        .header_bytes = sizeof(sampler_header),
        .record_bytes = sizeof(sampler_record_t),
        .source = (uint16_t)source,
        .instance = instance,
        .sequence = s->first_sequence,
    };
    sampler_set_sampling(s, SAMPLER_DEFAULT_THRESHOLD, SAMPLER_DEFAULT_MODULUS, 0, 0);
    if (!sampler_in_use) pthread_atfork(NULL, NULL, off_in_child);
    sampler_in_use = s;
}

void sampler_set_sampling(sampler *s, uint64_t threshold, uint64_t modulus, uint64_t salt,
                          uint64_t now_us) {
    if (s->count) sampler_flush(s, now_us);
    s->threshold = threshold;
    s->mask = modulus - 1;
    s->salt = salt;
    for (size_t length = 0; length < SAMPLER_SEEDS; length++) {
        s->seeds[length] = sampler_seed(length, salt);
    }
    s->batch.header.threshold = threshold;
    s->batch.header.modulus = modulus;
    s->batch.header.salt_id = salt_id(salt);
    flush_after(s, 0, now_us); /* the reader learns it from the next tick's header */
}

void sampler_set_secret(sampler *s, const uint8_t secret[SAMPLER_SECRET_BYTES]) {
    static const uint8_t none[SAMPLER_SECRET_BYTES];
    memcpy(s->batch.header.secret, secret ? secret : none, SAMPLER_SECRET_BYTES);
}

int sampler_read_secret(const char *text, uint8_t secret[SAMPLER_SECRET_BYTES]) {
    static const char digits[] = "0123456789abcdef";

    if (strlen(text) != 2 * SAMPLER_SECRET_BYTES) return 0;
    for (size_t i = 0; i < SAMPLER_SECRET_BYTES; i++) {
        const char *high = strchr(digits, text[2 * i]), *low = strchr(digits, text[2 * i + 1]);
        if (!high || !low) return 0;
        secret[i] = (uint8_t)((high - digits) << 4 | (low - digits));
    }
    return 1;
}

void sampler_start(sampler *s, uint64_t now_us) {
    s->on = 1;
    flush_after(s, 0, now_us);
}

void sampler_stop(sampler *s, uint64_t now_us) {
    if (s->count) sampler_flush(s, now_us);
    s->on = 0;
}
