"""The policies that can be predicted."""

# Modelled as exact LRU, whatever maxmemory-samples is: against the usual 5, 3 raised the miss ratio
# by 0.0040 at most, and 10 lowered it by 0.0022 at most (Redis 7.0.15; Twitter, orm-busy and Zipf
# 0.99; 10 and 40 % of the working set). At the present size the anchor knows of it.
STACK_POLICIES = ("allkeys-lru", "volatile-lru")
SIMULATED_POLICIES = ("allkeys-lfu",)
