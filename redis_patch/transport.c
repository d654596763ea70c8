/* See transport.h. */

#include "transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <zmq.h>

int transport_is_local(const char *endpoint) {
    char host[16] = {0}; /* "255.255.255.255", and the end */
    struct in_addr address;

    if (!strncmp(endpoint, "ipc://", 6)) return 1;
    if (strncmp(endpoint, "tcp://", 6) || strchr(endpoint, ';')) return 0; /* ; names two addresses */
    const char *port = strrchr(endpoint += 6, ':');
    if (!port || (size_t)(port - endpoint) >= sizeof host) return 0;
    memcpy(host, endpoint, (size_t)(port - endpoint));
    return !strcmp(host, "localhost") || !strcmp(host, "[::1]") ||
           (inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

static void set_option(void *socket, int option, int value) {
    zmq_setsockopt(socket, option, &value, sizeof value);
}

const char *transport_connect(transport *t, const char *endpoint) {
    void *socket = NULL;

    if (endpoint && *endpoint) {
        if (!t->context) t->context = zmq_ctx_new();
        if (!t->context) return zmq_strerror(errno);
        socket = zmq_socket(t->context, ZMQ_PUSH);
        if (!socket) return zmq_strerror(errno);
        set_option(socket, ZMQ_LINGER, 0);    /* closing does not wait */
        set_option(socket, ZMQ_IMMEDIATE, 1); /* nothing queues for a sidecar that is not there */
        set_option(socket, ZMQ_SNDHWM, TRANSPORT_QUEUE_BATCHES);
        set_option(socket, ZMQ_RECONNECT_IVL, 100);
        set_option(socket, ZMQ_RECONNECT_IVL_MAX, 2000);
        if (zmq_connect(socket, endpoint) != 0) {
            const char *why = zmq_strerror(errno);
            zmq_close(socket);
            return why;
        }
    }
    if (t->socket) zmq_close(t->socket);
    t->socket = socket;
    return NULL;
}

void transport_close(transport *t) {
    transport_connect(t, NULL);
    if (t->context) zmq_ctx_term(t->context);
    t->context = NULL;
}

int transport_send(void *t, const void *batch, size_t batch_bytes) {
    void *socket = ((transport *)t)->socket;
    return socket && zmq_send(socket, batch, batch_bytes, ZMQ_DONTWAIT) == (int)batch_bytes;
}
