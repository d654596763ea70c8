/* For libFuzzer: the sampler, told what to do by the input, and what it sends. */

#include "sampler.h"
#include "transport.h"

#include <stdlib.h>

#define MUST(condition) \
    do { \
        if (!(condition)) abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    const uint8_t *at, *end;
} input;

static uint64_t take(input *in, size_t bytes) {
    uint64_t word = 0;
    for (size_t i = 0; i < bytes && in->at < in->end; i++) word |= (uint64_t)*in->at++ << (8 * i);
    return word;
}

typedef struct {
    uint64_t next_sequence, sent_records, dropped_records;
    int takes;
} receiver;

/* Looks at all of a batch, as its reader does. */
static int receive(void *transport, const void *batch, size_t batch_bytes) {
    receiver *r = transport;
    sampler_header header;

    MUST(batch_bytes >= sizeof header && batch_bytes <= SAMPLER_BATCH_BYTES);
    memcpy(&header, batch, sizeof header);
    MUST(!memcmp(header.magic, "SPRD", 4) && header.version == SAMPLER_VERSION);
    MUST(batch_bytes == header.header_bytes + (size_t)header.record_count * header.record_bytes);
    MUST(header.sequence == r->next_sequence++);
    MUST(header.first_time_us <= header.last_time_us && header.seen_reads <= header.seen);
    MUST(header.dropped == r->dropped_records && header.dropped <= header.sampled);
    MUST(sampler_sampling_is_valid(header.threshold, header.modulus));
    *(r->takes ? &r->sent_records : &r->dropped_records) += header.record_count;
    return r->takes;
}

/* WIRE_FORMAT.md's words, byte by byte. */
static uint64_t plain_hash(const uint8_t *key, size_t length, uint64_t salt) {
    const uint64_t k0 = UINT64_C(0x9E3779B97F4A7C15), k1 = UINT64_C(0xD1B54A32D192ED03),
                   k2 = UINT64_C(0x8CB92BA72F3D8DD7);
    uint64_t state = salt ^ sampler_fold(length ^ k0, k1);
    for (size_t start = 0; start < length; start += 8) {
        uint64_t word = 0;
        for (size_t i = start; i < length && i < start + 8; i++) {
            word |= (uint64_t)key[i] << (8 * (i - start));
        }
        state = sampler_fold(state ^ word, k1);
    }
    return sampler_fold(state ^ k2, k0);
}

/* The key lies in memory of exactly its length: a load past it is found. */
static void access_key(sampler *s, input *in, uint64_t now_us) {
    size_t length = take(in, 1);
    uint8_t *key = malloc(length + !length);
    for (size_t i = 0; i < length; i++) key[i] = (uint8_t)take(in, 1);
    int operation = 1 + (int)(take(in, 1) % 6);
    uint64_t hash = sampler_hash(key, length, s->salt);
    MUST(hash == plain_hash(key, length, s->salt));
    if (s->on) {
        *(operation <= SAMPLER_READ_MISS ? &s->seen_reads : &s->seen_others) += 1;
        if (sampler_takes(s, hash)) {
            sampler_record(s, hash, operation, (int)take(in, 1), (uint16_t)take(in, 2),
                           take(in, 5), (int64_t)take(in, 8), now_us);
        }
    }
    free(key);
}

/* Many of one key: a batch fills. */
static void record_many(sampler *s, input *in, uint64_t now_us) {
    uint64_t hash = take(in, 1), count = take(in, 2) % 3000;
    for (uint64_t i = 0; s->on && i < count; i++) {
        s->seen_others++;
        sampler_record(s, hash, SAMPLER_WRITE, 0, 0, i, SAMPLER_NO_TTL, now_us);
    }
}

static void try_endpoint(input *in) {
    size_t length = take(in, 1);
    char *endpoint = malloc(length + 1);
    for (size_t i = 0; i < length; i++) endpoint[i] = (char)take(in, 1);
    endpoint[length] = 0;
    int is_local = transport_is_local(endpoint);
    MUST(!is_local || !strncmp(endpoint, "ipc://", 6) || !strncmp(endpoint, "tcp://", 6));
    free(endpoint);
}

static void step(sampler *s, receiver *r, input *in, uint64_t now_us) {
    switch (take(in, 1) % 12) {
    case 0: {
        uint64_t threshold = take(in, 5), modulus = UINT64_C(1) << (take(in, 1) % 40);
        if (sampler_sampling_is_valid(threshold, modulus)) {
            sampler_set_sampling(s, threshold, modulus, take(in, 8), now_us);
        }
        break;
    }
    case 1: sampler_start(s, now_us); break;
    case 2: sampler_stop(s, now_us); break;
    case 3: sampler_flush(s, now_us); break;
    case 4: sampler_reserve(s, take(in, 4)); break;
    case 5: {
        sampler_record_t *record = sampler_amend(s, take(in, 1), SAMPLER_WRITE, (uint32_t)take(in, 3));
        if (record) sampler_set_ttl(record, (int64_t)take(in, 8));
        break;
    }
    case 6: sampler_take_back(s, (uint32_t)take(in, 3)); break;
    case 7: r->takes = !r->takes; break;
    case 8: record_many(s, in, now_us); break;
    case 9: try_endpoint(in); break;
    default: access_key(s, in, now_us);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static sampler s;
    input in = {data, data + size};
    uint64_t now_us = take(&in, 4);
    receiver r = {.takes = 1};

    sampler_init(&s, SAMPLER_SOURCE_PATCH, take(&in, 8), take(&in, 5), receive, &r);
    r.next_sequence = s.first_sequence;
    sampler_set_sampling(&s, SAMPLER_DEFAULT_MODULUS, SAMPLER_DEFAULT_MODULUS, take(&in, 8), now_us);
    sampler_start(&s, now_us);
    while (in.at < in.end) {
        now_us += take(&in, 3) - (UINT64_C(1) << 20); /* clocks step back, too */
        step(&s, &r, &in, now_us);
        sampler_tick(&s, now_us);
        MUST(s.count <= SAMPLER_BATCH_RECORDS);
    }
    sampler_stop(&s, now_us);
    MUST(s.sampled == r.sent_records + r.dropped_records);
    return 0;
}
