#include "sampling_switch.h"

#include "asked_sizes.h"
#include "command_filter.h"
#include "keys_after_command.h"
#include "keyspace_events.h"
#include "refusals.h"

#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

static char *endpoint; /* in force; NULL: none */

/* ------------------------------------------------------------------------------------------ ticks */

/* Not the server's timers: they stand still when the machine's clock steps back, and a server that
 * gives up loading a module which has one crashes (Redis 8.0, Valkey 8.1). */
static int timer_fd = -1;

static void on_tick(int fd, void *module, int mask);

static int run_timer(module_state *module) {
    struct itimerspec soon_and_often = {
        .it_value = {.tv_nsec = 1},
        .it_interval = {.tv_nsec = SAMPLER_FLUSH_US * 1000},
    };
    if (timer_fd >= 0) return 1;
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timer_fd < 0) return 0;
    timerfd_settime(timer_fd, 0, &soon_and_often, NULL);
    if (RedisModule_EventLoopAdd(timer_fd, REDISMODULE_EVENTLOOP_READABLE, on_tick, module) ==
        REDISMODULE_OK) {
        return 1;
    }
    close(timer_fd);
    timer_fd = -1;
    return 0;
}

static void stop_timer(void) {
    if (timer_fd < 0) return;
    RedisModule_EventLoopDel(timer_fd, REDISMODULE_EVENTLOOP_READABLE);
    close(timer_fd);
    timer_fd = -1;
}

/* ------------------------------------------------------------------------------------- on and off */

/* What happens while the server replays a log of commands are no accesses. While modules load, it
 * may still have its data to load, and does not say so: then the first tick after it starts. */
static int is_starting_up = 1;

static void observe(module_state *module, int on) {
    static int is_observing;

    if (on == is_observing) return;
    is_observing = on;
    filter_commands(module, on);
    subscribe_to_keyspace(module);
}

static int is_loading_data(const module_state *module) {
    return !!(RedisModule_GetContextFlags(module->ctx) & REDISMODULE_CTX_FLAGS_LOADING);
}

/* Starts or stops sampling, as the endpoint in force says, once the server has started up. */
static void follow_endpoint(module_state *module) {
    if (module->is_loaded && !is_loading_data(module)) is_starting_up = 0;
    if (is_starting_up) return;
    observe(module, endpoint != NULL);
    if (endpoint) {
        refusals_begin(module);
        sampler_start(&module->sampler, now_us());
    } else {
        stop_timer();
        end_to_ask_sizes(module);
    }
}

static void on_tick(int fd, void *module, int mask) {
    module_state *m = module;
    uint64_t now = now_us(), expirations;
    (void)mask;
    if (read(fd, &expirations, sizeof expirations) < 0) return;
    if (is_starting_up) follow_endpoint(m);
    if (!m->sampler.on) return;
    refusals_tick(m);
    release_waiting_keys(m);
    record_changed_keys(m);
    ask_wanted_sizes(m); /* before their batch goes */
    sampler_tick(&m->sampler, now);
    unwatch_idle_databases(now);
}

const char *endpoint_in_force(void) {
    return endpoint ? endpoint : "";
}

const char *switch_endpoint(module_state *module, const char *wanted) {
    if (module->sampler.on) count_reads(module);
    sampler_stop(&module->sampler, now_us()); /* what was sampled for the old one goes there */
    int is_ready = !*wanted || (run_timer(module) && begin_to_ask_sizes(module));
    const char *why = is_ready ? transport_connect(&module->transport, wanted)
                               : "the server watches no more file descriptors";
    if (!why) {
        free(endpoint);
        endpoint = *wanted ? strdup(wanted) : NULL;
        sampler_set_secret(&module->sampler, NULL); /* which was for the old one */
    }
    follow_endpoint(module);
    return why;
}

void close_endpoint(module_state *module) {
    stop_timer();
    end_to_ask_sizes(module);
    transport_close(&module->transport);
    free(endpoint);
    endpoint = NULL;
}
