#include "refusals.h"

#include "command_filter.h"
#include "transport.h"

#include <stdlib.h>

int unconfirmed;

/* How long each sampled command is still to be confirmed, in ticks. */
static int wary_ticks;

/* As they were when last looked at. */
static unsigned long long known_reads, known_errors, known_refusals;

/* ------------------------------------------------------------------------- what the server counts */

static unsigned long long errors_of_kind(RedisModuleServerInfoData *info, const char *field) {
    const char *text = RedisModule_ServerInfoGetFieldC(info, field); /* "count=3" */
    const char *number = text ? strchr(text, '=') : NULL;
    return number ? strtoull(number + 1, NULL, 10) : 0;
}

/* Whether a command was refused since the last call. */
static int was_refused(void) {
    RedisModuleServerInfoData *info = RedisModule_GetServerInfo(NULL, "errorstats");
    unsigned long long before = known_refusals;
    known_refusals = errors_of_kind(info, "errorstat_NOAUTH");
    known_refusals += errors_of_kind(info, "errorstat_NOPERM");
    RedisModule_FreeServerInfo(NULL, info);
    /* Fewer than before: the counts have begun anew. */
    return known_refusals < before ? known_refusals > 0 : known_refusals > before;
}

/* Takes the server's number of reads; returns whether it has answered anything with an error since
 * the last call. */
static int look_at_server(void) {
    RedisModuleServerInfoData *info = RedisModule_GetServerInfo(NULL, "stats");
    unsigned long long reads =
        RedisModule_ServerInfoGetFieldUnsigned(info, "keyspace_hits", NULL) +
        RedisModule_ServerInfoGetFieldUnsigned(info, "keyspace_misses", NULL);
    unsigned long long errors =
        RedisModule_ServerInfoGetFieldUnsigned(info, "total_error_replies", NULL);
    int had_errors = errors != known_errors;
    RedisModule_FreeServerInfo(NULL, info);
    spreds.seen_reads += reads < known_reads ? reads : reads - known_reads;
    known_reads = reads;
    known_errors = errors;
    return had_errors;
}

void count_reads(void) {
    /* Errors are left for the batch that is open. */
    unsigned long long errors = known_errors;
    look_at_server();
    known_errors = errors;
}

/* ------------------------------------------------------------------------------------ confirmation */

void refusals_begin(void) {
    uint64_t seen_reads = spreds.seen_reads;
    look_at_server();
    was_refused();
    spreds.seen_reads = seen_reads;
    wary_ticks = unconfirmed = 0;
}

void await_confirmation(void) {
    if (!wary_ticks || unconfirmed) return;
    if (was_refused()) wary_ticks = REFUSALS_TICKS; /* another one, that is not sampled */
    unconfirmed = 1;
}

void confirm(void) {
    unconfirmed = 0;
    if (!was_refused()) return;
    sampler_take_back(&spreds, command_start);
    wary_ticks = REFUSALS_TICKS;
}

void refusals_tick(void) {
    if (unconfirmed) confirm();
    if (wary_ticks) wary_ticks--;
}

int send_unless_refused(void *transport, const void *batch, size_t batch_bytes) {
    int is_doubtful = look_at_server() && was_refused();
    sampler_header *header = &spreds.batch.header;

    header->seen_reads = spreds.seen_reads;
    header->seen = spreds.seen_reads + spreds.seen_others;
    if (is_doubtful) {
        int was_wary = wary_ticks > 0;
        wary_ticks = REFUSALS_TICKS;
        if (!was_wary && header->record_count) return 0;
    }
    return transport_send(transport, batch, batch_bytes);
}
