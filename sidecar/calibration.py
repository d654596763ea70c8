"""From key and value bytes to ``maxmemory``: what a server adds to each key, and to all of them."""

from __future__ import annotations

from sidecar.server_stats import ServerStats
from sidecar.shards import Shards

# For the first window: measured on Redis 7.0, 68 to 166 bytes by size of key and value.
FIRST_OVERHEAD_BYTES = 96
# Below it, per-key figures are ruled by the size of the empty server.
_FEWEST_KEYS = 256


def memory_per_key_bytes(stats: ServerStats) -> float | None:
    """Mean memory that a key takes in ``maxmemory``, overheads included; ``None`` with too few
    keys to tell."""
    if stats.keys < _FEWEST_KEYS:
        return None
    return max(1.0, (stats.used_memory_bytes - stats.baseline_bytes) / stats.keys)


def key_overhead_bytes(stats: ServerStats, shards: Shards, overhead_bytes: int) -> int | None:
    """Bytes to add to each key's own, so that the stack weighs what the server's memory says.

    The server holds about the most recent ``keys`` objects; their mean weight in the stack, made
    with ``overhead_bytes``, is compared with the memory that they take. ``None`` if one of the two
    is not known well enough. Negative overheads are possible: a server may compress.
    """
    per_key = memory_per_key_bytes(stats)
    weighed = shards.mean_weight_of_top(stats.keys)
    if per_key is None or weighed is None:
        return None
    return overhead_bytes + round(per_key - weighed)
