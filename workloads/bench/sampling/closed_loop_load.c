/* Many clients of one Redis server, in one thread: each sends its next requests as soon as the
 * replies to the last ones are complete. redis-benchmark does the same, but tells latencies in
 * steps of 8 microseconds, some per cent of what is measured here.
 *
 *   closed_loop_load SOCKET get|set CLIENTS PIPELINE KEYS VALUE_BYTES SECONDS SEED
 *
 * Keys are "key:" and 12 digits, drawn uniformly of 0 to KEYS - 1; all must exist, with values of
 * VALUE_BYTES. On standard output, as binary: elapsed nanoseconds (u64), then for each PIPELINE
 * requests the nanoseconds from the first one's sending to the last one's reply (u32). */

#include <errno.h>
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
#define MAX_EVENTS 64

typedef struct {
    int socket;
    uint64_t sent_ns; /* when its requests went out */
    size_t received;  /* bytes of their replies so far */
} client;

static int pipeline, set;
static size_t value_bytes, request_bytes, reply_bytes;
static char *requests;  /* PIPELINE of them, one after the other */
static size_t key_place; /* of the key's digits within a request */
static char reply_start[32];
static uint64_t random_state, keys;

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
        uint64_t key = draw() % keys;
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

int main(int argc, char **argv) {
    if (argc != 9) {
        fprintf(stderr, "closed_loop_load: 8 arguments are needed, see its source\n");
        return 2;
    }
    set = !strcmp(argv[2], "set");
    int client_count = atoi(argv[3]), poll = epoll_create1(0), busy = client_count;
    pipeline = atoi(argv[4]);
    keys = strtoull(argv[5], NULL, 10);
    value_bytes = strtoul(argv[6], NULL, 10);
    random_state = strtoull(argv[8], NULL, 10) * 2 + 1;
    prepare();

    client *clients = calloc((size_t)client_count, sizeof *clients);
    size_t taken = 0, room = 1 << 20;
    uint32_t *latencies_ns = malloc(room * sizeof *latencies_ns);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
    if (!clients || !latencies_ns) give_up("memory");
    for (int i = 0; i < client_count; i++) {
        client *c = &clients[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        c->socket = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(c->socket, (struct sockaddr *)&address, sizeof address)) give_up(argv[1]);
        epoll_ctl(poll, EPOLL_CTL_ADD, c->socket, &event);
    }

    uint64_t began_ns = now_ns(), ended_ns = began_ns;
    uint64_t stop_ns = began_ns + (uint64_t)(atof(argv[7]) * 1e9);
    for (int i = 0; i < client_count; i++) send_requests(&clients[i]);
    while (busy) {
        struct epoll_event events[MAX_EVENTS];
        int count = epoll_wait(poll, events, MAX_EVENTS, -1);
        for (int i = 0; i < count; i++) {
            client *c = events[i].data.ptr;
            if (!receive(c)) continue;
            ended_ns = now_ns();
            if (taken == room) {
                latencies_ns = realloc(latencies_ns, (room *= 2) * sizeof *latencies_ns);
                if (!latencies_ns) give_up("memory");
            }
            latencies_ns[taken++] = (uint32_t)(ended_ns - c->sent_ns);
            if (ended_ns < stop_ns) {
                send_requests(c);
            } else {
                busy--;
            }
        }
    }
    uint64_t elapsed_ns = ended_ns - began_ns;
    fwrite(&elapsed_ns, sizeof elapsed_ns, 1, stdout);
    fwrite(latencies_ns, sizeof *latencies_ns, taken, stdout);
    return 0;
}
