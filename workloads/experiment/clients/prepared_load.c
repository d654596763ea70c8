/* Many clients of one Redis server, in one thread, that send requests which somebody else has
 * written: each sends its next ones as soon as the replies to the last ones are complete.
 *
 *   prepared_load SOCKET FILE CLIENTS PIPELINE SECONDS
 *
 * FILE: the number of requests (u64), the bytes of each (u32), and all requests, one after the other.
 * They are sent in this order, PIPELINE at once, and again from the start. A reply may be a status, a
 * value or nil; an error ends it all. On standard output, as binary: elapsed nanoseconds (u64), then
 * for each PIPELINE requests the nanoseconds from their sending to the last one's reply (u32). */

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

#define MAX_LINE 64

typedef struct {
    int socket;
    int left;            /* replies that have not come */
    size_t skip;         /* bytes of a value that have not come */
    char line[MAX_LINE]; /* the start of a reply, until its end of line */
    size_t line_bytes;
    uint64_t sent_ns;
} client;

static int pipeline;
static uint64_t count, next;
static uint64_t *places; /* of each request, and of the end */
static char *requests;

static void give_up(const char *what) {
    fprintf(stderr, "prepared_load: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void read_requests(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fread(&count, sizeof count, 1, file) != 1) give_up(path);
    uint32_t *sizes = malloc(count * sizeof *sizes);
    places = malloc((count + 1) * sizeof *places);
    if (!sizes || !places || fread(sizes, sizeof *sizes, count, file) != count) give_up(path);
    places[0] = 0;
    for (uint64_t i = 0; i < count; i++) places[i + 1] = places[i] + sizes[i];
    requests = malloc(places[count]);
    if (!requests || fread(requests, 1, places[count], file) != places[count]) give_up(path);
    free(sizes);
    fclose(file);
}

static void send_requests(client *c) {
    if (next + (uint64_t)pipeline > count) next = 0;
    size_t bytes = places[next + (uint64_t)pipeline] - places[next];
    c->left = pipeline;
    c->sent_ns = now_ns();
    if (write(c->socket, requests + places[next], bytes) != (ssize_t)bytes) give_up("write");
    next += (uint64_t)pipeline;
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
        char byte = buffer[place++];
        if (c->line_bytes == MAX_LINE - 1) give_up("reply");
        c->line[c->line_bytes++] = byte;
        if (byte != '\n') continue;
        c->line[c->line_bytes] = 0;
        c->line_bytes = 0;
        long bytes = c->line[0] == '$' ? atol(c->line + 1) : -1;
        if (c->line[0] != '$' && c->line[0] != '+') {
            errno = 0;
            give_up(c->line);
        }
        if (bytes >= 0) {
            c->skip = (size_t)bytes + 2;
        } else {
            c->left--;
        }
    }
    return c->left == 0;
}

#include "../../bench/sampling/closed_loop.h"

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "prepared_load: 5 arguments are needed, see its source\n");
        return 2;
    }
    read_requests(argv[2]);
    pipeline = atoi(argv[4]);
    play(argv[1], atoi(argv[3]), atof(argv[5]));
    return 0;
}
