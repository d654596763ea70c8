#include "refusals.h"

#include "asked_sizes.h"
#include "keys_after_command.h"

#include <stdlib.h>
#include <string.h>

/* Redis 7.0 counts as many kinds of errors as its clients think of, and telling of 100,000 takes it
 * tens of milliseconds. The 128 kinds that later servers count at most take some 50 us. */
#define MOST_US 200
#define SLOW_ANSWERS 3 /* in succession: one may have found the processor's caches empty */

/* How long each sampled command is still to be confirmed, in ticks. */
static int confirming_ticks;

/* As they were when last looked at. */
static unsigned long long known_reads, known_errors, known_refusals;
static unsigned long long errors_before_batch;

/* ------------------------------------------------------------------------- what the server counts */

/* Takes the server's numbers of reads and of errors that it has answered with. */
static void read_server_stats(module_state *module) {
    RedisModuleServerInfoData *info = RedisModule_GetServerInfo(NULL, "stats");
    unsigned long long reads =
        RedisModule_ServerInfoGetFieldUnsigned(info, "keyspace_hits", NULL) +
        RedisModule_ServerInfoGetFieldUnsigned(info, "keyspace_misses", NULL);
    unsigned long long errors =
        RedisModule_ServerInfoGetFieldUnsigned(info, "total_error_replies", NULL);
    RedisModule_FreeServerInfo(NULL, info);
    module->sampler.seen_reads += reads < known_reads ? reads : reads - known_reads;
    /* CONFIG RESETSTAT; it forgets the kinds of errors as well. */
    if (errors < known_errors) errors_before_batch = module->errors_are_refusals = 0;
    known_reads = reads;
    known_errors = errors;
}

static unsigned long long errors_of_kind(RedisModuleServerInfoData *info, const char *field) {
    const char *text = RedisModule_ServerInfoGetFieldC(info, field); /* "count=3" */
    const char *number = text ? strchr(text, '=') : NULL;
    return number ? strtoull(number + 1, NULL, 10) : 0;
}

static unsigned long long count_refusals(module_state *module) {
    static int slow_answers;
    uint64_t begun_us = processor_us();
    RedisModuleServerInfoData *info = RedisModule_GetServerInfo(NULL, "errorstats");
    unsigned long long refusals = errors_of_kind(info, "errorstat_NOAUTH");
    refusals += errors_of_kind(info, "errorstat_NOPERM");
    RedisModule_FreeServerInfo(NULL, info);
    slow_answers = processor_us() - begun_us > MOST_US ? slow_answers + 1 : 0;
    if (slow_answers == SLOW_ANSWERS) {
        slow_answers = 0;
        module->errors_are_refusals = 1;
        RedisModule_Log(module->ctx, "warning",
                        "spreds: clients have made so many kinds of errors that INFO errorstats "
                        "takes long: until CONFIG RESETSTAT, each command that is answered with an "
                        "error counts as refused");
    }
    return refusals;
}

/* Whether a command was refused since the last call. */
static int was_refused(module_state *module) {
    static unsigned long long errors;
    read_server_stats(module);
    if (known_errors == errors) return 0;
    errors = known_errors;
    if (module->errors_are_refusals) return 1;
    unsigned long long before = known_refusals;
    known_refusals = count_refusals(module);
    /* Fewer than before: the counts have begun anew. */
    return known_refusals < before ? known_refusals > 0 : known_refusals > before;
}

uint64_t looks_among_reads(const module_state *module) {
    uint64_t errors = known_errors - errors_before_batch, looks = 0;
    uint64_t reads = module->sampler.seen_reads;
    for (int i = LOOK_SIZES - 1; i >= 0; i--) {
        const looks_of_size *size = &module->looks[i];
        uint64_t refused = errors < size->commands ? errors : size->commands;
        uint64_t most = refused * ((UINT64_C(2) << i) - 1);
        if (size->looks > most) looks += size->looks - most;
        errors -= refused;
    }
    return looks < reads ? looks : reads;
}

void count_reads(module_state *module) {
    read_server_stats(module);
}

/* ------------------------------------------------------------------------------------ confirmation */

void refusals_begin(module_state *module) {
    uint64_t seen_reads = module->sampler.seen_reads;
    was_refused(module);
    module->sampler.seen_reads = seen_reads;
    errors_before_batch = known_errors;
    confirming_ticks = module->pending.unconfirmed = 0;
}

void await_confirmation(module_state *module) {
    if (!confirming_ticks || module->pending.unconfirmed) return;
    if (was_refused(module))
        confirming_ticks = REFUSALS_TICKS; /* another one, that is not sampled */
    module->pending.is_open = module->pending.unconfirmed = 1;
}

void confirm_pending(module_state *module) {
    module->pending.unconfirmed = 0;
    if (!was_refused(module)) return;
    sampler_take_back(&module->sampler, module->pending.first_record);
    forget_refused_keys();
    confirming_ticks = REFUSALS_TICKS;
}

void refusals_tick(module_state *module) {
    if (module->pending.unconfirmed) confirm_pending(module);
    if (confirming_ticks) confirming_ticks--;
}

int send_unless_refused(void *module, const void *batch, size_t batch_bytes) {
    module_state *m = module;
    int is_doubtful = was_refused(m);
    sampler_header *header = &m->sampler.batch.header;

    forget_wanted_sizes(m);
    m->sampler.seen_reads -= looks_among_reads(m);
    memset(m->looks, 0, sizeof m->looks);
    errors_before_batch = known_errors;
    header->seen_reads = m->sampler.seen_reads;
    header->seen = m->sampler.seen_reads + m->sampler.seen_others;
    if (is_doubtful) {
        int was_confirming = confirming_ticks > 0;
        confirming_ticks = REFUSALS_TICKS;
        if (!was_confirming && header->record_count) return 0;
    }
    return transport_send(&m->transport, batch, batch_bytes);
}
