/* Commands that the server refuses, because their client has not authenticated itself or may not run
 * them. The filter sees commands before the server decides so, and nothing tells it afterwards; but
 * the server counts its refusals.
 *
 * Looking at that count for each sampled command would cost too much. It is looked at once for each
 * batch; a batch in whose time a command was refused is dropped, and for a minute from then on
 * (REFUSALS_TICKS after the last refusal) each sampled command is confirmed by itself. */

#ifndef SPREDS_REFUSALS_H
#define SPREDS_REFUSALS_H

#include "module.h"

#pragma GCC visibility push(hidden)
/* The newest command has records of which it is not known yet whether it was refused. */
extern int unconfirmed;
#pragma GCC visibility pop

#define REFUSALS_TICKS 1200

/* From now on: what was counted before is another time's. */
void refusals_begin(void);

/* Before the first record of a command. */
void await_confirmation(void);

/* When that command has run: takes its records back if it was refused. */
void confirm(void);

/* Twenty times a second. */
void refusals_tick(void);

/* Takes the number of reads from the server, whose own count has no refused ones. */
void count_reads(void);

/* A sampler_send: transport_send(), unless a command was refused that may have records in the batch. */
int send_unless_refused(void *transport, const void *batch, size_t batch_bytes);

#endif
