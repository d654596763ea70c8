"""Lists the policies that can be predicted."""

from __future__ import annotations

from sidecar.servers.connection.server_reading import ServerReading

STACK_POLICIES = ("allkeys-lru", "volatile-lru", "allkeys-random", "volatile-random")
"""Those whose curve is bent from that of exact LRU."""
SIMULATED_POLICIES = ("allkeys-lfu", "volatile-lfu")
VOLATILE_POLICIES = ("volatile-lru", "volatile-lfu", "volatile-random")
"""Of those that can be predicted, the ones that never evict a key without a TTL."""


def eviction_samples(reading: ServerReading) -> int:
    """Return how many keys are looked at for each eviction; 1 stands for a random one."""
    return 1 if reading.maxmemory_policy.endswith("-random") else reading.maxmemory_samples
