/* The recency stack of a server's monitor: weighted objects, and holes where one was deleted. */

#ifndef SPREDS_SERVER_STACK_H
#define SPREDS_SERVER_STACK_H

#include "stack_slots.h"

#define COLD (-1)
#define UNSEEN_HIT (-2)

/* Takes accesses in order; for each read, what lies above the object (or COLD, UNSEEN_HIT) and its own
 * weight. Weights are 0 where unknown. Returns the number of reads, or -1 without memory. */
int64_t spreds_stack_access(struct stack_slots *s, const uint64_t *keys, const uint8_t *operations,
                            const int64_t *weights, uint64_t count, int64_t default_weight,
                            int64_t *above, int64_t *own);

/* Of objects, and of holes above any of them. */
int64_t spreds_stack_total_weight(struct stack_slots *s);

/* Takes objects that are there out; they leave holes, or, if forgotten, nothing. Returns 0, or -1
 * without memory. */
int spreds_stack_remove(struct stack_slots *s, const uint64_t *keys, uint64_t count, int forgotten);

#endif
