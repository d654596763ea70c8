#include "refusals.h"

#include "after_looks.h"
#include "asked_sizes.h"

#include <stdlib.h>
#include <time.h>

/* How long each sampled command is still to be confirmed, in ticks. */
static int confirming_ticks;

/* As they were when last looked at. */
static unsigned long long known_reads, known_errors, known_refusals;
static unsigned long long refusals_since_batch;

/* A client may make any number of kinds of errors, and the server tells all of them or none. Where
 * that took longer in a row than anything but their number explains, all errors count instead, of
 * which the server has one number. */
#define DEAR_NANOSECONDS 1000000
#define DEAR_TIMES 3
static int dear_times;

/* ------------------------------------------------------------------------- what the server counts */

static unsigned long long errors_of_kind(RedisModuleServerInfoData *info, const char *field) {
    const char *text = RedisModule_ServerInfoGetFieldC(info, field); /* "count=3" */
    const char *number = text ? strchr(text, '=') : NULL;
    return number ? strtoull(number + 1, NULL, 10) : 0;
}

static uint64_t now_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static unsigned long long count_errors(void) {
    RedisModuleServerInfoData *info = RedisModule_GetServerInfo(NULL, "stats");
    unsigned long long errors =
        RedisModule_ServerInfoGetFieldUnsigned(info, "total_error_replies", NULL);
    RedisModule_FreeServerInfo(NULL, info);
    return errors;
}

static unsigned long long count_refusals(void) {
    if (dear_times == DEAR_TIMES) return count_errors();
    uint64_t began = now_nanoseconds();
    RedisModuleServerInfoData *info = RedisModule_GetServerInfo(NULL, "errorstats");
    unsigned long long refusals = errors_of_kind(info, "errorstat_NOAUTH");
    refusals += errors_of_kind(info, "errorstat_NOPERM");
    RedisModule_FreeServerInfo(NULL, info);
    dear_times = now_nanoseconds() - began > DEAR_NANOSECONDS ? dear_times + 1 : 0;
    if (dear_times == DEAR_TIMES)
        RedisModule_Log(NULL, "warning",
                        "SPREDS: to tell refusals among so many kinds of errors takes too long; "
                        "samples of all commands that end in an error are dropped");
    return refusals;
}

/* So many commands were refused between two counts. Fewer than before: they have begun anew. */
static unsigned long long refusals_between(unsigned long long before, unsigned long long after) {
    return after < before ? after : after - before;
}

/* Whether a command was refused since the last call. */
static int was_refused(void) {
    unsigned long long before = known_refusals;
    known_refusals = count_refusals();
    unsigned long long refusals = refusals_between(before, known_refusals);
    refusals_since_batch += refusals;
    return refusals > 0;
}

uint64_t looks_among_reads(const module_state *module) {
    uint64_t reads = module->sampler.seen_reads, refused = refusals_since_batch;
    if (module->looks) refused += refusals_between(known_refusals, count_refusals());
    uint64_t looks = module->looks > refused ? module->looks - refused : 0;
    return looks < reads ? looks : reads;
}

/* Takes the server's number of reads; returns whether it has answered anything with an error since
 * the last call. */
static int read_server_stats(module_state *module) {
    RedisModuleServerInfoData *info = RedisModule_GetServerInfo(NULL, "stats");
    unsigned long long reads =
        RedisModule_ServerInfoGetFieldUnsigned(info, "keyspace_hits", NULL) +
        RedisModule_ServerInfoGetFieldUnsigned(info, "keyspace_misses", NULL);
    unsigned long long errors =
        RedisModule_ServerInfoGetFieldUnsigned(info, "total_error_replies", NULL);
    int had_errors = errors != known_errors;
    RedisModule_FreeServerInfo(NULL, info);
    module->sampler.seen_reads += reads < known_reads ? reads : reads - known_reads;
    known_reads = reads;
    known_errors = errors;
    return had_errors;
}

void count_reads(module_state *module) {
    /* Errors are left for the batch that is open. */
    unsigned long long errors = known_errors;
    read_server_stats(module);
    known_errors = errors;
}

/* ------------------------------------------------------------------------------------ confirmation */

void refusals_begin(module_state *module) {
    uint64_t seen_reads = module->sampler.seen_reads;
    read_server_stats(module);
    dear_times = 0;
    was_refused();
    module->sampler.seen_reads = seen_reads;
    confirming_ticks = module->pending.unconfirmed = 0;
}

void await_confirmation(module_state *module) {
    if (!confirming_ticks || module->pending.unconfirmed) return;
    if (was_refused()) confirming_ticks = REFUSALS_TICKS; /* another one, that is not sampled */
    module->pending.is_open = module->pending.unconfirmed = 1;
}

void confirm_pending(module_state *module) {
    module->pending.unconfirmed = 0;
    if (!was_refused()) return;
    sampler_take_back(&module->sampler, module->pending.first_record);
    forget_refused_looks();
    confirming_ticks = REFUSALS_TICKS;
}

void refusals_tick(module_state *module) {
    if (module->pending.unconfirmed) confirm_pending(module);
    if (confirming_ticks) confirming_ticks--;
}

int send_unless_refused(void *module, const void *batch, size_t batch_bytes) {
    module_state *m = module;
    int is_doubtful = read_server_stats(m) && was_refused();
    sampler_header *header = &m->sampler.batch.header;

    forget_wanted_sizes(m);
    m->sampler.seen_reads -= looks_among_reads(m);
    m->looks = 0;
    refusals_since_batch = 0;
    header->seen_reads = m->sampler.seen_reads;
    header->seen = m->sampler.seen_reads + m->sampler.seen_others;
    if (is_doubtful) {
        int was_confirming = confirming_ticks > 0;
        confirming_ticks = REFUSALS_TICKS;
        if (!was_confirming && header->record_count) return 0;
    }
    return transport_send(&m->transport, batch, batch_bytes);
}
