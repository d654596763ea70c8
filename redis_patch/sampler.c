/* The sampler's cold half: see sampler.h. */

#include "sampler.h"

#include <pthread.h>

/* ------------------------------------------------------------------------------------------ fork */

/* A server has one sampler. Its forked children (BGSAVE, AOF rewrite, a module's own) share the
 * transport's file descriptors but not its threads: a child that sent would corrupt the stream. */
static sampler *forking;

static void off_in_child(void) {
    if (forking) forking->on = 0;
}

/* --------------------------------------------------------------------------------- batch and time */

static uint64_t salt_id(uint64_t salt) {
    return sampler_hash("spreds", 6, salt);
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
    s->due_us = now_us + SAMPLER_HEARTBEAT_US;
}

void sampler_record(sampler *s, uint64_t hash, int operation, int flags, uint16_t db,
                    uint64_t size_bytes, uint64_t now_us) {
    if (s->count == SAMPLER_BATCH_RECORDS) sampler_flush(s, now_us);
    if (s->count == 0) {
        s->batch.header.first_time_us = now_us;
        if (s->due_us > now_us + SAMPLER_FLUSH_US) s->due_us = now_us + SAMPLER_FLUSH_US;
    }
    s->batch.header.last_time_us = now_us;
    s->batch.records[s->count++] = (sampler_record_t){
        .hash = hash,
        .size_bytes = size_bytes < UINT32_MAX ? (uint32_t)size_bytes : UINT32_MAX,
        .db = db,
        .operation = (uint8_t)operation,
        .flags = (uint8_t)flags,
    };
    s->sampled++;
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

/* ---------------------------------------------------------------------------------------- control */

void sampler_init(sampler *s, int source, uint64_t instance, sampler_send send, void *transport) {
    memset(s, 0, sizeof *s);
    s->send = send;
    s->transport = transport;
    s->batch.header = (sampler_header){
        .magic = {'S', 'P', 'R', 'D'},
        .version = SAMPLER_VERSION,
        .header_bytes = sizeof(sampler_header),
        .record_bytes = sizeof(sampler_record_t),
        .source = (uint16_t)source,
        .instance = instance,
    };
    sampler_set_sampling(s, SAMPLER_DEFAULT_THRESHOLD, SAMPLER_DEFAULT_MODULUS, 0, 0);
    if (!forking) pthread_atfork(NULL, NULL, off_in_child);
    forking = s;
}

void sampler_set_sampling(sampler *s, uint64_t threshold, uint64_t modulus, uint64_t salt,
                          uint64_t now_us) {
    if (s->count) sampler_flush(s, now_us);
    s->threshold = threshold;
    s->mask = modulus - 1;
    s->salt = salt;
    s->batch.header.threshold = threshold;
    s->batch.header.modulus = modulus;
    s->batch.header.salt_id = salt_id(salt);
    s->due_us = now_us; /* the reader learns it from the next tick's header */
}

void sampler_start(sampler *s, uint64_t now_us) {
    s->on = 1;
    s->due_us = now_us;
}

void sampler_stop(sampler *s, uint64_t now_us) {
    if (s->count) sampler_flush(s, now_us);
    s->on = 0;
}
