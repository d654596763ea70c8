/* Runs the sampler by a script on standard input, one command a line, for its tests: numbers are
 * decimal, keys hexadecimal ("-" is the empty key), and `now` is the clock in microseconds.
 *
 *   init SOURCE INSTANCE [now_ms]                a new sampler
 *   sampling T P SALT now
 *   secret DIGITS
 *   start now | stop now | tick now | flush now
 *   read KEY OPERATION FLAGS DB SIZE TTL now     counts a read, records it if it is sampled
 *   other KEY OPERATION FLAGS DB SIZE TTL now    the same for other accesses
 *   record HASH OPERATION FLAGS DB SIZE TTL now  records it as it is
 *   amend HASH OPERATION FROM NEW                changes the operation of a record in the open batch
 *   reserve RECORDS
 *   takeback FROM
 *   accept 0|1                                   whether batches are taken from now on
 *   hash SALT KEY                                prints: hash HASH
 *   fork                                         prints from a child: child ON
 *
 * Each batch handed over is printed: batch HEX, or refused HEX. */

#include "sampler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int accept_batches = 1;

static int print_batch(void *transport, const void *batch, size_t batch_bytes) {
    const unsigned char *bytes = batch;
    (void)transport;
    printf(accept_batches ? "batch " : "refused ");
    for (size_t i = 0; i < batch_bytes; i++) printf("%02x", bytes[i]);
    printf("\n");
    return accept_batches;
}

/* Returns the key's bytes, in memory of exactly their length: a load past it is found by tools. */
static unsigned char *parse_key(const char *hex, size_t *length) {
    *length = hex[0] == '-' ? 0 : strlen(hex) / 2;
    unsigned char *key = malloc(*length ? *length : 1);
    for (size_t i = 0; i < *length; i++) {
        unsigned byte;
        sscanf(hex + 2 * i, "%2x", &byte);
        key[i] = (unsigned char)byte;
    }
    return key;
}

static void access_key(sampler *s, const char *hex, int is_read, int operation, int flags, int db,
                       uint64_t size, int64_t ttl, uint64_t now) {
    size_t length;
    unsigned char *key = parse_key(hex, &length);
    if (s->on) {
        uint64_t hash = sampler_hash(key, length, s->salt);
        if (is_read) s->seen_reads++;
        else s->seen_others++;
        if (sampler_takes(s, hash)) {
            sampler_record(s, hash, operation, flags, (uint16_t)db, size, ttl, now);
        }
    }
    free(key);
}

int main(void) {
    static sampler s;
    static char line[1 << 16], hex[1 << 16];
    uint64_t a, b, c, now;
    int64_t ttl;
    int operation, flags, db;
    uint8_t secret[SAMPLER_SECRET_BYTES];

    while (fgets(line, sizeof line, stdin)) {
        b = 0;
        if (sscanf(line, "init %d %" SCNu64 " %" SCNu64, &operation, &a, &b) >= 2) {
            sampler_init(&s, operation, a, b, print_batch, NULL);
        } else if (sscanf(line, "sampling %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &a, &b, &c,
                          &now) == 4) {
            if (sampler_sampling_is_valid(a, b)) sampler_set_sampling(&s, a, b, c, now);
            else printf("invalid\n");
        } else if (sscanf(line, "secret %s", hex) == 1) {
            if (sampler_read_secret(hex, secret)) sampler_set_secret(&s, secret);
            else printf("invalid\n");
        } else if (sscanf(line, "start %" SCNu64, &now) == 1) {
            sampler_start(&s, now);
        } else if (sscanf(line, "stop %" SCNu64, &now) == 1) {
            sampler_stop(&s, now);
        } else if (sscanf(line, "tick %" SCNu64, &now) == 1) {
            sampler_tick(&s, now);
        } else if (sscanf(line, "flush %" SCNu64, &now) == 1) {
            sampler_flush(&s, now);
        } else if (sscanf(line, "read %s %d %d %d %" SCNu64 " %" SCNd64 " %" SCNu64, hex,
                          &operation, &flags, &db, &a, &ttl, &now) == 7) {
            access_key(&s, hex, 1, operation, flags, db, a, ttl, now);
        } else if (sscanf(line, "other %s %d %d %d %" SCNu64 " %" SCNd64 " %" SCNu64, hex,
                          &operation, &flags, &db, &a, &ttl, &now) == 7) {
            access_key(&s, hex, 0, operation, flags, db, a, ttl, now);
        } else if (sscanf(line, "record %" SCNu64 " %d %d %d %" SCNu64 " %" SCNd64 " %" SCNu64, &a,
                          &operation, &flags, &db, &b, &ttl, &now) == 7) {
            sampler_record(&s, a, operation, flags, (uint16_t)db, b, ttl, now);
        } else if (sscanf(line, "amend %" SCNu64 " %d %d %d", &a, &operation, &db, &flags) == 4) {
            sampler_record_t *record = sampler_amend(&s, a, operation, (uint32_t)db);
            if (record) record->operation = (uint8_t)flags;
            else printf("none\n");
        } else if (sscanf(line, "reserve %" SCNu64, &a) == 1) {
            sampler_reserve(&s, a);
        } else if (sscanf(line, "takeback %" SCNu64, &a) == 1) {
            sampler_take_back(&s, (uint32_t)a);
        } else if (sscanf(line, "accept %d", &accept_batches) == 1) {
        } else if (sscanf(line, "hash %" SCNu64 " %s", &a, hex) == 2) {
            size_t length;
            unsigned char *key = parse_key(hex, &length);
            printf("hash %" PRIu64 "\n", sampler_hash(key, length, a));
            free(key);
        } else if (!strncmp(line, "fork", 4)) {
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                printf("child %d\n", s.on);
                sampler_flush(&s, 1);
                fflush(stdout);
                _exit(0);
            }
            waitpid(child, NULL, 0);
        } else {
            fprintf(stderr, "not a command: %s", line);
            return 1;
        }
    }
    return 0;
}
