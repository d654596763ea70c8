/* See transport.h. */

#define _GNU_SOURCE /* CPU sets */

#include "transport.h"
#include "kept_scheduling.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define IPC "ipc://"
#define TCP "tcp://"
#define RECONNECT_MS 100
#define RECONNECT_MOST_MS 2000
#define NEIGHBOUR_LOOKS 200

int transport_is_local(const char *endpoint) {
    char host[16] = {0}; /* "255.255.255.255", and the end */
    struct in_addr address;

    if (!strncmp(endpoint, IPC, sizeof IPC - 1)) return 1;
    /* A ";" would name two addresses. */
    if (strncmp(endpoint, TCP, sizeof TCP - 1) || strchr(endpoint, ';')) return 0;
    const char *address_text = endpoint + sizeof TCP - 1;
    const char *port = strrchr(address_text, ':');
    if (!port || (size_t)(port - address_text) >= sizeof host) return 0;
    memcpy(host, address_text, (size_t)(port - address_text));
    return !strcmp(host, "localhost") || !strcmp(host, "[::1]") ||
           (inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

/* Finds the CPUs of the thread that ours shall run beside; 0 if there is none (yet). */
static int find_cpus(cpu_set_t *cpus) {
    DIR *threads = opendir("/proc/self/task");
    struct dirent *thread;
    int found = 0;

    while (threads && !found && (thread = readdir(threads))) {
        char path[sizeof "/proc/self/task//comm" + sizeof thread->d_name], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", thread->d_name);
        FILE *file = fopen(path, "re");
        if (!file) continue;
        if (fgets(name, sizeof name, file) &&
            !strncmp(name, TRANSPORT_NEIGHBOUR, sizeof TRANSPORT_NEIGHBOUR - 1)) {
            found = sched_getaffinity(atoi(thread->d_name), sizeof *cpus, cpus) == 0;
        }
        fclose(file);
    }
    if (threads) closedir(threads);
    return found;
}

/* The same, for a server that has CPUs of its own, until the thread has given itself its name. */
static int wait_for_cpus(cpu_set_t *cpus) {
    const struct timespec pause = {0, 1000000};
    for (int look = 0; look < NEIGHBOUR_LOOKS; look++) {
        nanosleep(&pause, NULL);
        if (find_cpus(cpus)) return 1;
    }
    return 0;
}

/* Whether this process may set CPUs: services of systemd may not (Debian's redis-server is one), and
 * the kernel ends whoever tries. So a child tries, that has nothing of its own to lose. */
static int may_set_cpus(const cpu_set_t *own) {
    int status = 0;
    pid_t child = vfork();

    if (child == 0) _exit(sched_setaffinity(0, sizeof *own, own) != 0);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* The first socket starts ZeroMQ's threads, and they inherit the CPUs of the calling one. */
static void *first_socket(void *context) {
    cpu_set_t own, cpus;
    int is_known = sched_getaffinity(0, sizeof own, &own) == 0;
    int has_own = is_known && CPU_COUNT(&own) < sysconf(_SC_NPROCESSORS_ONLN);
    int moved = is_known && (find_cpus(&cpus) || (has_own && wait_for_cpus(&cpus))) &&
                !CPU_EQUAL(&own, &cpus) && may_set_cpus(&own) &&
                sched_setaffinity(0, sizeof cpus, &cpus) == 0;
    void *socket = zmq_socket(context, ZMQ_PUSH);
    if (moved) sched_setaffinity(0, sizeof own, &own);
    return socket;
}

static void set_option(void *socket, int option, int value) {
    zmq_setsockopt(socket, option, &value, sizeof value);
}

const char *transport_connect(transport *t, const char *endpoint) {
    void *socket = NULL;

    if (endpoint && *endpoint) {
        int is_first = !t->context;
        if (is_first) {
            keep_scheduling("libzmq");
            t->context = zmq_ctx_new();
        }
        if (!t->context) return zmq_strerror(errno);
        socket = is_first ? first_socket(t->context) : zmq_socket(t->context, ZMQ_PUSH);
        if (!socket) return zmq_strerror(errno);
        set_option(socket, ZMQ_LINGER, 0);    /* closing does not wait */
        set_option(socket, ZMQ_IMMEDIATE, 1); /* nothing queues for a sidecar that is not there */
        set_option(socket, ZMQ_SNDHWM, TRANSPORT_QUEUE_BATCHES);
        set_option(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS);
        set_option(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MOST_MS);
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
    restore_scheduling();
}

int transport_send(void *t, const void *batch, size_t batch_bytes) {
    void *socket = ((transport *)t)->socket;
    return socket && zmq_send(socket, batch, batch_bytes, ZMQ_DONTWAIT) == (int)batch_bytes;
}
