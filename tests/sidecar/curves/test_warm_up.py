"""A sampler that is switched on beside a warm server: what it has not seen is not guessed at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.warm_up import BLOCK_READS, MOST_UNSEEN_SHARE, WarmUp
from sidecar.samples.batch import decode_batch
from sidecar.servers.connection.server_reading import ServerReading
from tests.sidecar.monitored_load import (
    BASELINE,
    OVERHEAD,
    SIZE,
    STATS,
    later,
    lru_miss_ratio,
    monitor_of,
    observed,
    take,
    zipf,
)
from workloads.sample_batches import SampledServer, number_hashes

READ_HIT, READ_MISS, WRITE = 1, 2, 3
OBJECT_BYTES = SIZE + OVERHEAD
CAPACITY = (STATS.maxmemory_bytes - BASELINE) // OBJECT_BYTES


class WarmServer:
    """An LRU cache that has been filled before its sampler is there."""

    def __init__(self, keys: np.ndarray) -> None:
        self.sampler = SampledServer()
        self.cached: dict[int, None] = {}
        for key in keys.tolist():
            self._read(key)

    def _read(self, key: int) -> bool:
        hit = key in self.cached
        self.cached.pop(key, None)
        self.cached[key] = None
        if len(self.cached) > CAPACITY:
            del self.cached[next(iter(self.cached))]
        return hit

    def serve(
        self, monitor: ServerMonitor, stats: ServerReading, keys: np.ndarray
    ) -> ServerReading:
        """Read keys, fill what misses, and let the monitor see it; the stats after."""
        accesses: list[tuple[int, int]] = []
        hits = 0
        for key in keys.tolist():
            hit = self._read(key)
            hits += hit
            accesses += [(key, READ_HIT)] if hit else [(key, READ_MISS), (key, WRITE)]
        table = np.array(accesses)
        sizes = np.where(table[:, 1] == READ_MISS, 0, SIZE)
        hashes = number_hashes(table[:, 0], 0)
        take(monitor, map(decode_batch, self.sampler.batches(hashes, table[:, 1], sizes)))
        return later(stats, hits=hits, misses=len(keys) - hits)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu"])
def test_a_curve_is_told_only_when_it_is_known(policy: str) -> None:
    """Each time that the size is free, what the curve says of smaller caches is right."""
    keys = zipf(20_000, 400_000, exponent=0.9)
    server = WarmServer(keys[:100_000])
    stats = replace(STATS, maxmemory_policy=policy)
    monitor = monitor_of(stats)
    smaller = round(0.8 * CAPACITY)
    exact = lru_miss_ratio(keys[100_000:], smaller)
    kept, told = [], []
    for window in np.split(keys[100_000:], 60):
        stats = server.serve(monitor, stats, window)
        estimate = observed(monitor, stats)
        if estimate.keep_reason is not None:
            kept.append(estimate.keep_reason.partition(":")[0])
            # Until then a plan's words on it are those of the server.
            at_present = float(estimate.curve.miss_ratio(stats.maxmemory_bytes))
            assert at_present == pytest.approx(estimate.miss_ratio, abs=0.01)
        else:
            told.append(float(estimate.curve.miss_ratio(BASELINE + smaller * OBJECT_BYTES)))
    assert len(told) > 30  # it ends
    # LFU keeps other keys than the LRU cache that stands for the truth here.
    assert max(abs(ratio - exact) for ratio in told) < (0.02 if policy == "allkeys-lru" else 0.06)
    assert kept[0] == "warming_up"


def test_a_server_that_was_empty_has_no_warm_up() -> None:
    server = WarmServer(np.arange(0))
    monitor = monitor_of(STATS)
    stats = server.serve(monitor, STATS, zipf(3000, BLOCK_READS + 1))
    told = observed(monitor, stats)
    assert told.keep_reason is None


def test_a_warm_up_ends_with_the_half_life_at_the_latest() -> None:
    warm_up = WarmUp(limit_seconds=100)
    for second in range(0, 100, 10):
        warm_up.take(BLOCK_READS, BLOCK_READS // 2, second * 10**6)
        assert warm_up.must_forget()
        assert warm_up.is_on
    warm_up.take(BLOCK_READS, BLOCK_READS // 2, 101 * 10**6)
    assert not warm_up.must_forget()
    assert not warm_up.is_on


def test_a_few_reads_decide_nothing() -> None:
    warm_up = WarmUp(limit_seconds=100)
    warm_up.take(BLOCK_READS - 1, BLOCK_READS - 1, 0)
    assert not warm_up.must_forget()
    warm_up.take(1, 1, 0)
    assert warm_up.must_forget()
    warm_up.take(BLOCK_READS, round(MOST_UNSEEN_SHARE * BLOCK_READS), 0)
    assert not warm_up.must_forget()
    assert not warm_up.is_on
