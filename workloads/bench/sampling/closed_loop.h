/* Many clients of one Redis server in one thread, each in a closed loop: it sends its next requests
 * as soon as the replies to the last ones are complete.
 *
 * Whoever includes this has defined before: a type `client` with `int socket` and `uint64_t sent_ns`;
 * `give_up(what)`, which ends the program; `send_requests(client *)`, which sets `sent_ns`; and
 * `receive(client *)`, which returns 1 when the last reply is complete. */

#ifndef SPREDS_CLOSED_LOOP_H
#define SPREDS_CLOSED_LOOP_H

#define MAX_EVENTS 64

/* Plays for so many seconds. On standard output, as binary: elapsed nanoseconds (u64), then for each
 * batch of requests the nanoseconds from sending to the last reply (u32). */
static void play(const char *path, int client_count, double seconds) {
    int poll = epoll_create1(0), busy = client_count;
    client *clients = calloc((size_t)client_count, sizeof *clients);
    size_t taken = 0, room = 1 << 20;
    uint32_t *latencies_ns = malloc(room * sizeof *latencies_ns);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (!clients || !latencies_ns) give_up("memory");
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
}

#endif
