/* Commands that the server refuses, because their client has not authenticated itself or may not run
 * them. The filter sees commands before the server decides so, and nothing tells it afterwards; but
 * the server counts its refusals.
 *
 * Looking at that count for each sampled command would cost too much. It is looked at once for each
 * batch; a batch in whose time a command was refused is dropped, and for a minute from then on
 * (REFUSALS_TICKS after the last refusal) each sampled command is confirmed by itself.
 *
 * A server that has long to tell its refusals from other errors is not asked to: there each command
 * that is answered with an error counts as refused (errors_are_refusals). */

#ifndef SPREDS_REFUSALS_H
#define SPREDS_REFUSALS_H

#include "module_state.h"

#define REFUSALS_TICKS 1200

/* From now on: what was counted before is another time's. */
void refusals_begin(module_state *module);

/* Before the first record of a command, which then is the pending one. */
void await_confirmation(module_state *module);

/* When that command has run: takes its records back if it was refused. */
void confirm_pending(module_state *module);

/* Twenty times a second. */
void refusals_tick(module_state *module);

/* Takes the number of reads from the server, whose own count has no refused ones. */
void count_reads(module_state *module);

/* A command looks so many keys up, one or more, and is no reference to them. */
static inline void count_looks(module_state *module, uint64_t keys) {
    looks_of_size *size = &module->looks[63 - __builtin_clzll(keys)];
    size->commands++;
    size->looks += keys;
}

/* Those of the number of reads that are no references, since the last batch. Each error that the
 * server has answered with since then may have been for the largest of those commands: it is left
 * out, for the server counts no reads of a refused one. */
uint64_t looks_among_reads(const module_state *module);

/* A sampler_send: transport_send(), unless a command was refused that may have records in the batch.
 * `module` is the module_state. */
int send_unless_refused(void *module, const void *batch, size_t batch_bytes);

#endif
