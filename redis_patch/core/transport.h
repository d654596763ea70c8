/* Hands batches to the sidecar over ZeroMQ, or drops them: it never waits.
 *
 * A PUSH socket that connects; the sidecar binds a PULL. While no sidecar is connected, and when its
 * queue is full (TRANSPORT_QUEUE_BATCHES, at most 16 KB each), a batch is refused at once.
 *
 * ZeroMQ starts two threads with the first endpoint: not before the server has become a daemon. They
 * run on the CPUs of the process' thread whose name begins with TRANSPORT_NEIGHBOUR (the background work
 * of Redis and Valkey), not on those that the calling thread may have to itself. */

#ifndef SPREDS_TRANSPORT_H
#define SPREDS_TRANSPORT_H

#include <stddef.h>

/* 512 KB: what a sidecar may lag behind. It bounds the memory that a stalled one costs. */
#define TRANSPORT_QUEUE_BATCHES 32

#define TRANSPORT_NEIGHBOUR "bio_"

typedef struct {
    void *context; /* ZeroMQ's, made with the first endpoint and kept */
    void *socket;  /* NULL while there is no endpoint */
} transport;

/* Whether what is sent to the endpoint stays on this machine: ipc://, or tcp:// to 127.0.0.0/8, [::1]
 * or localhost. */
int transport_is_local(const char *endpoint);

/* Why another one is refused while the server runs: whoever may set it would read along. */
#define TRANSPORT_NOT_LOCAL \
    "while the server runs only ipc:// and tcp:// to a loopback address; another one only from " \
    "its configuration file, or with enable-protected-configs"

/* Leaves the old endpoint, with what is queued for it, and connects to `endpoint`, for example
 * "ipc:///run/spreds/samples"; NULL or "" connects to none. The connection is made behind the scenes,
 * again and again: a sidecar need not be there.
 * Returns NULL, or why the endpoint cannot be used; then the old one stays. */
const char *transport_connect(transport *t, const char *endpoint);

/* Ends ZeroMQ's threads; what is queued is lost. */
void transport_close(transport *t);

/* A sampler_send: returns 1 if ZeroMQ took the batch, 0 if it is dropped. */
int transport_send(void *t, const void *batch, size_t batch_bytes);

#endif
