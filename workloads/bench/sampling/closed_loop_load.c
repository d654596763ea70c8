/* Many clients of one Redis server, in one thread: each sends its next requests as soon as the
 * replies to the last ones are complete. redis-benchmark does the same, but tells latencies in
 * steps of 8 microseconds, some per cent of what is measured here.
 *
 *   closed_loop_load SOCKET CLIENTS PIPELINE SECONDS get|set KEYS VALUE_BYTES SEED SKEW
 *   closed_loop_load SOCKET CLIENTS PIPELINE SECONDS FILE
 *
 * Keys are "key:" and 12 digits, of 0 to KEYS - 1, where key k is drawn with a probability in
 * proportion to 1 / (k + 1)^SKEW; all must exist, with values of VALUE_BYTES.
 *
 * FILE: the number of requests (u64), the bytes of each (u32), and all requests, one after the other.
 * They are sent in this order, PIPELINE at once, and again from the start. A reply may be a status, a
 * value or nil; an error ends it all.
 *
 * On standard output, as binary: elapsed nanoseconds (u64), then for each PIPELINE requests the
 * nanoseconds from their sending to the last one's reply (u32). */

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

#define KEY_DIGITS 12
#define MAX_LINE 64
#define MAX_EVENTS 64

typedef struct {
    int socket;
    int left;            /* replies that have not come */
    size_t skip;         /* bytes of a value that have not come */
    char line[MAX_LINE]; /* the start of a reply, until its end of line */
    size_t line_bytes;
    uint64_t sent_ns;
} client;

static int pipeline;
static char *requests; /* drawn: PIPELINE of them; prepared: all; one after the other */

/* Of requests that are drawn. */
static size_t request_bytes, key_place; /* the key's digits within a request */
static char expected[MAX_LINE];          /* the line that begins each reply; empty: no error */
static size_t expected_bytes, value_end; /* its bytes, and those that follow it */
static uint64_t random_state, keys;
static double *cumulative; /* of the keys' probabilities, not yet divided by their sum */

/* Of requests that are prepared. */
static uint64_t count, next;
static uint64_t *places; /* of each request, and of the end */

static void give_up(const char *what) {
    fprintf(stderr, "closed_loop_load: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(1);
}

static void *reserve(size_t bytes) {
    void *room = malloc(bytes);
    if (!room) give_up("memory");
    return room;
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
static void draw_requests(int set, size_t value_bytes, double skew) {
    char head[64], tail[32] = "\r\n";
    double sum = 0;
    cumulative = reserve(keys * sizeof *cumulative);
    for (uint64_t key = 0; key < keys; key++) cumulative[key] = sum += pow((double)key + 1, -skew);
    key_place = (size_t)snprintf(head, sizeof head, "*%d\r\n$3\r\n%s\r\n$%d\r\nkey:", set ? 3 : 2,
                                 set ? "SET" : "GET", KEY_DIGITS + 4);
    if (set) snprintf(tail, sizeof tail, "\r\n$%zu\r\n", value_bytes);
    request_bytes = key_place + KEY_DIGITS + strlen(tail) + (set ? value_bytes + 2 : 0);
    requests = reserve(request_bytes * (size_t)pipeline);
    for (int i = 0; i < pipeline; i++) {
        char *request = requests + request_bytes * (size_t)i;
        memset(request, 'x', request_bytes);
        memcpy(request, head, key_place);
        memcpy(request + key_place + KEY_DIGITS, tail, strlen(tail));
        memcpy(request + request_bytes - 2, "\r\n", 2);
    }
    snprintf(expected, sizeof expected, set ? "+OK\r\n" : "$%zu\r\n", value_bytes);
    expected_bytes = strlen(expected);
    value_end = set ? 0 : value_bytes + 2;
}

static void read_requests(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fread(&count, sizeof count, 1, file) != 1) give_up(path);
    uint32_t *sizes = reserve(count * sizeof *sizes);
    places = reserve((count + 1) * sizeof *places);
    if (fread(sizes, sizeof *sizes, count, file) != count) give_up(path);
    places[0] = 0;
    for (uint64_t i = 0; i < count; i++) places[i + 1] = places[i] + sizes[i];
    requests = reserve(places[count]);
    if (fread(requests, 1, places[count], file) != places[count]) give_up(path);
    free(sizes);
    fclose(file);
}

static void send_requests(client *c) {
    const char *start = requests;
    size_t bytes = request_bytes * (size_t)pipeline;
    if (places) {
        if (next + (uint64_t)pipeline > count) next = 0;
        start += places[next];
        bytes = places[next + (uint64_t)pipeline] - places[next];
        next += (uint64_t)pipeline;
    } else {
        for (int i = 0; i < pipeline; i++) {
            char *digits = requests + request_bytes * (size_t)i + key_place;
            uint64_t key = draw_key();
            for (int place = KEY_DIGITS - 1; place >= 0; place--, key /= 10) {
                digits[place] = (char)('0' + key % 10);
            }
        }
    }
    c->left = pipeline;
    c->sent_ns = now_ns();
    if (write(c->socket, start, bytes) != (ssize_t)bytes) give_up("write");
}

/* Returns: 1 when the last reply is complete. */
static int receive(client *c) {
    static char buffer[1 << 16];
    ssize_t received = read(c->socket, buffer, sizeof buffer);
    size_t place = 0, end = (size_t)received;
    if (received <= 0) give_up("read");
    while (place < end) {
        if (c->skip) {
            size_t some = end - place < c->skip ? end - place : c->skip;
            place += some;
            c->skip -= some;
            if (!c->skip) c->left--;
            continue;
        }
        /* The usual case, without a look at each byte. */
        if (expected_bytes && !c->line_bytes && end - place >= expected_bytes &&
            !memcmp(buffer + place, expected, expected_bytes)) {
            place += expected_bytes;
            c->skip = value_end;
            if (!c->skip) c->left--;
            continue;
        }
        char byte = buffer[place++];
        if (c->line_bytes == MAX_LINE - 1) give_up("reply");
        c->line[c->line_bytes++] = byte;
        if (byte != '\n') continue;
        c->line[c->line_bytes] = 0;
        c->line_bytes = 0;
        if (expected_bytes ? strcmp(c->line, expected) : c->line[0] != '$' && c->line[0] != '+') {
            errno = 0;
            give_up(c->line);
        }
        long bytes = c->line[0] == '$' ? atol(c->line + 1) : -1;
        if (bytes >= 0) {
            c->skip = (size_t)bytes + 2;
        } else {
            c->left--;
        }
    }
    return c->left == 0;
}

static void play(const char *path, int client_count, double seconds) {
    int poll = epoll_create1(0), busy = client_count;
    client *clients = calloc((size_t)client_count, sizeof *clients);
    size_t taken = 0, room = 1 << 20;
    uint32_t *latencies_ns = reserve(room * sizeof *latencies_ns);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (!clients) give_up("memory");
    for (int i = 0; i < client_count; i++) {
        client *c = &clients[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        c->socket = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(c->socket, (struct sockaddr *)&address, sizeof address)) give_up(path);
        epoll_ctl(poll, EPOLL_CTL_ADD, c->socket, &event);
    }

    uint64_t began_ns = now_ns(), ended_ns = began_ns;
    uint64_t stop_ns = began_ns + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < client_count; i++) send_requests(&clients[i]);
    while (busy) {
        struct epoll_event events[MAX_EVENTS];
        int ready = epoll_wait(poll, events, MAX_EVENTS, -1);
        for (int i = 0; i < ready; i++) {
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
}

int main(int argc, char **argv) {
    if (argc != 6 && argc != 10) {
        fprintf(stderr, "closed_loop_load: 5 or 9 arguments are needed, see its source\n");
        return 2;
    }
    pipeline = atoi(argv[3]);
    if (argc == 6) {
        read_requests(argv[5]);
    } else {
        keys = strtoull(argv[6], NULL, 10);
        random_state = strtoull(argv[8], NULL, 10) * 2 + 1;
        draw_requests(!strcmp(argv[5], "set"), strtoul(argv[7], NULL, 10), atof(argv[9]));
    }
    play(argv[1], atoi(argv[2]), atof(argv[4]));
    return 0;
}
