/* Many clients of one Redis server, in one thread: each sends its next requests as soon as the
 * replies to the last ones are complete. redis-benchmark does the same, but tells latencies in
 * steps of 8 microseconds, some per cent of what is measured here.
 *
 *   closed_loop_load SOCKET get|set CLIENTS PIPELINE KEYS VALUE_BYTES SECONDS SEED SKEW
 *
 * Keys are "key:" and 12 digits, of 0 to KEYS - 1, where key k is drawn with a probability in
 * proportion to 1 / (k + 1)^SKEW; all must exist, with values of VALUE_BYTES. On standard output, as binary: elapsed nanoseconds (u64), then for each PIPELINE
 * requests the nanoseconds from the first one's sending to the last one's reply (u32). */

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define KEY_BYTES 16

typedef struct {
    int socket;
    uint64_t sent_ns; /* when its requests went out */
    size_t received;  /* bytes of their replies so far */
} client;

static int pipeline, set;
static size_t value_bytes, request_bytes, reply_bytes;
static char *requests;   /* PIPELINE of them, one after the other */
static size_t key_place; /* of the key's digits within a request */
static char reply_start[32];
static uint64_t random_state, keys;
static double *cumulative; /* of the keys' probabilities, not yet divided by their sum */

static void give_up(const char *what) {
    fprintf(stderr, "closed_loop_load: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A xorshift generator (Marsaglia, 2003). */
static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void prepare_keys(double skew) {
    double sum = 0;
    cumulative = malloc(keys * sizeof *cumulative);
    if (!cumulative) give_up("memory");
    for (uint64_t key = 0; key < keys; key++) cumulative[key] = sum += pow((double)key + 1, -skew);
}

static uint64_t draw_key(void) {
    double at = (double)(draw() >> 11) * 0x1p-53 * cumulative[keys - 1];
    uint64_t low = 0, high = keys - 1;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (cumulative[middle] > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Makes PIPELINE requests; only the digits of their keys will change. */
static void prepare(void) {
    char head[64], tail[32] = "\r\n";
    int head_bytes = snprintf(head, sizeof head, "*%d\r\n$3\r\n%s\r\n$%d\r\nkey:", set ? 3 : 2,
                              set ? "SET" : "GET", KEY_BYTES);
    int tail_bytes = 2, value_place;

    if (set) tail_bytes = snprintf(tail, sizeof tail, "\r\n$%zu\r\n", value_bytes);
    key_place = (size_t)head_bytes;
    value_place = head_bytes + KEY_BYTES - 4 + tail_bytes;
    request_bytes = (size_t)value_place + (set ? value_bytes + 2 : 0);
    requests = malloc(request_bytes * (size_t)pipeline);
    if (!requests) give_up("memory");
    for (int i = 0; i < pipeline; i++) {
        char *request = requests + request_bytes * (size_t)i;
        memset(request, 'x', request_bytes);
        memcpy(request, head, (size_t)head_bytes);
        memcpy(request + key_place + KEY_BYTES - 4, tail, (size_t)tail_bytes);
        if (set) memcpy(request + request_bytes - 2, "\r\n", 2);
    }
    if (set) {
        strcpy(reply_start, "+OK\r\n");
    } else {
        snprintf(reply_start, sizeof reply_start, "$%zu\r\n", value_bytes);
    }
    reply_bytes = strlen(reply_start) + (set ? 0 : value_bytes + 2);
}

static void send_requests(client *c) {
    for (int i = 0; i < pipeline; i++) {
        char *digits = requests + request_bytes * (size_t)i + key_place;
        uint64_t key = draw_key();
        for (int place = KEY_BYTES - 5; place >= 0; place--, key /= 10) {
            digits[place] = (char)('0' + key % 10);
        }
    }
    c->received = 0;
    c->sent_ns = now_ns();
    ssize_t written = write(c->socket, requests, request_bytes * (size_t)pipeline);
    if (written != (ssize_t)(request_bytes * (size_t)pipeline)) give_up("write");
}

/* Returns: 1 when the last reply is complete. */
static int receive(client *c) {
    static char buffer[1 << 16];
    ssize_t count = read(c->socket, buffer, sizeof buffer);

    if (count <= 0) give_up("read");
    if (c->received == 0 && memcmp(buffer, reply_start, strlen(reply_start))) {
        errno = 0;
        give_up("reply");
    }
    c->received += (size_t)count;
    return c->received >= reply_bytes * (size_t)pipeline;
}

#include "closed_loop.h"

int main(int argc, char **argv) {
    if (argc != 10) {
        fprintf(stderr, "closed_loop_load: 9 arguments are needed, see its source\n");
        return 2;
    }
    set = !strcmp(argv[2], "set");
    pipeline = atoi(argv[4]);
    keys = strtoull(argv[5], NULL, 10);
    value_bytes = strtoul(argv[6], NULL, 10);
    random_state = strtoull(argv[8], NULL, 10) * 2 + 1;
    prepare_keys(atof(argv[9]));
    prepare();
    play(argv[1], atoi(argv[3]), atof(argv[7]));
    return 0;
}
