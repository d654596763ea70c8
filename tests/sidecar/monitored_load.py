"""Loads of a look-aside cache as a monitor sees them: samples, and what the server says."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from sidecar.curves.calibration import FIRST_FIXED_BYTES
from sidecar.curves.estimate import Estimate
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.references import Accesses
from sidecar.samples.batch import Batch, decode_batch
from sidecar.samples.wire_format import MAX_BATCH_RECORDS
from sidecar.servers.connection.server_reading import ServerReading
from workloads.load import zipf_keys
from workloads.sample_batches import SampledServer, number_hashes

READ_MISS, WRITE = 2, 3
BASELINE = 1_000_000  # with what the calibration assumes
OVERHEAD = 40
SIZE = 160  # a class of the allocator
BUDGET = 50_000_000

STATS = ServerReading(
    run_id="1" * 40,
    instance=1,
    role="master",
    maxmemory_bytes=2_000_000,
    maxmemory_policy="allkeys-lru",
    maxmemory_samples=100,  # as good as exact LRU
    lfu_log_factor=10,
    lfu_decay_time_minutes=1,
    counted_bytes=2_000_000,
    baseline_bytes=BASELINE - FIRST_FIXED_BYTES,
    unevictable_bytes=BASELINE - FIRST_FIXED_BYTES,
    rss_bytes=3_000_000,
    keyspace_hits=0,
    keyspace_misses=0,
    keys=5000,
    keys_with_ttl=0,
    average_ttl_seconds=0.0,
    at_seconds=0.0,
)


def monitor_of(
    stats: ServerReading, budget_bytes: int = BUDGET, live_objects: int | None = 8192
) -> ServerMonitor:
    """A monitor that has read ``stats`` once, and knows the overhead of a key."""
    monitor = ServerMonitor("one", live_objects=live_objects)
    monitor.calibration.overhead_bytes = OVERHEAD
    assert monitor.observe(stats, budget_bytes) is None
    return monitor


def take(monitor: ServerMonitor, taken: Iterable[Batch | bytes]) -> None:
    """Batches, or messages that are some."""
    for one in taken:
        monitor.take(decode_batch(one) if isinstance(one, bytes) else one)


def observed(
    monitor: ServerMonitor, stats: ServerReading, budget_bytes: int = BUDGET, **how: Any
) -> Estimate:
    """Return what it tells of its window, of which there is something to tell."""
    told = monitor.observe(stats, budget_bytes, **how)
    assert told is not None
    return told


def zipf(keys: int, count: int, seed: int = 1, exponent: float = 0.99) -> np.ndarray:
    return zipf_keys(keys, exponent, count, np.random.default_rng(seed)).astype(np.int64)


def lru_miss_ratio(keys: np.ndarray, capacity: int) -> float:
    """Simulate a cache of ``capacity`` equal objects that evicts the least recently used one."""
    cache: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for key in keys.tolist():
        if key in cache:
            cache.move_to_end(key)
        else:
            misses += 1
            cache[key] = None
            if len(cache) > capacity:
                cache.popitem(last=False)
    return misses / len(keys)


def batches(
    keys: np.ndarray, server: SampledServer | None = None, batch_records: int = MAX_BATCH_RECORDS
) -> list[Batch]:
    """Look-aside reads of a server that holds nothing: each read misses and is filled."""
    server = server or SampledServer()
    hashes = np.repeat(number_hashes(keys, server.salt), 2)
    operations = np.tile([READ_MISS, WRITE], len(keys))
    sizes = np.tile([0, SIZE], len(keys))
    return [
        decode_batch(m)
        for m in server.batches(hashes, operations, sizes, batch_records=batch_records)
    ]


def later(
    stats: ServerReading, hits: int = 0, misses: int = 0, seconds: float = 10
) -> ServerReading:
    return replace(
        stats,
        keyspace_hits=stats.keyspace_hits + hits,
        keyspace_misses=stats.keyspace_misses + misses,
        at_seconds=stats.at_seconds + seconds,
    )


def accesses(keys: Iterable[int], operations: Iterable[int], weights: np.ndarray | int) -> Accesses:
    """Make accesses of objects without a TTL."""
    numbers = np.fromiter(keys, np.uint64)
    return Accesses(
        numbers,
        np.fromiter(operations, np.uint8),
        np.broadcast_to(np.asarray(weights, dtype=np.int64), len(numbers)),
        np.zeros(len(numbers), np.uint8),
        np.ones(len(numbers), dtype=bool),
    )
