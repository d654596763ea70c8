/* The command that passed the filter last, and what is learnt about it only afterwards: by the
 * events that it causes, and by the server's count of refusals. */

#ifndef SPREDS_PENDING_COMMAND_H
#define SPREDS_PENDING_COMMAND_H

#include <stdint.h>

typedef struct {
    /* Something is to be done before the next one, or this server's arguments are not to be read
     * where they lie. */
    int is_open;
    uint32_t first_record; /* where its records begin in the open batch */
    int is_look;           /* it looks keys up, and is no reference to them */
    int unconfirmed;       /* it has records, and may have been refused: see refusals.h */
    int sets_ttl;          /* it is a sampled SET with a TTL, whose "expire" event is to come */
    uint64_t ttl_hash;     /* of the key of that SET */
} pending_command;

/* Whether an "expire" event of this key belongs to the SET before it, whose record says so already;
 * true once for each SET. */
static inline int pending_takes_expire(pending_command *pending, uint64_t hash) {
    if (!pending->sets_ttl || pending->ttl_hash != hash) return 0;
    pending->sets_ttl = 0;
    return 1;
}

#endif
