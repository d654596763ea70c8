"""Lists the policies that can be predicted."""

from __future__ import annotations

from sidecar.servers.connection.server_reading import ServerReading

# Those whose curve is bent from that of exact LRU.
STACK_POLICIES = ("allkeys-lru", "volatile-lru", "allkeys-random", "volatile-random")
SIMULATED_POLICIES = ("allkeys-lfu", "volatile-lfu")
# Of those that can be predicted, the ones that never evict a key without a TTL.
VOLATILE_POLICIES = ("volatile-lru", "volatile-lfu", "volatile-random")


def eviction_samples(reading: ServerReading) -> int:
    """Return how many keys are looked at for each eviction; 1 stands for a random one."""
    return 1 if reading.maxmemory_policy.endswith("-random") else reading.maxmemory_samples
