"""The monitor of servers that evict otherwise than allkeys-lru, or change their sampling rate."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest

from sidecar.curves.calibration import FIRST_FIXED_BYTES
from sidecar.curves.decaying_counts import CYCLE
from sidecar.curves.miniature_caches import EvictionSettings
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.shards import Shards
from sidecar.samples.batch import decode_batch
from sidecar.samples.wire_format import DEFAULT_MODULUS as MODULUS
from sidecar.samples.wire_format import SOURCE_MODULE
from sidecar.servers.connection.server_reading import ServerReading
from tests.oracles.miniature_caches import MiniatureCache
from tests.sidecar.monitored_load import (
    BASELINE,
    BUDGET,
    OVERHEAD,
    SIZE,
    STATS,
    batches,
    later,
    lru_miss_ratio,
    monitor_of,
    observed,
    take,
    zipf,
)
from workloads.sample_batches import SampledServer, number_hashes

READ_HIT, READ_MISS, WRITE = 1, 2, 3
LFU = replace(STATS, maxmemory_policy="allkeys-lfu")


def pinning_miss_ratio(keys: np.ndarray, pinned: np.ndarray | int, capacity: int) -> float:
    """Simulate a cache that never evicts keys below ``pinned``, all of which it holds (at each
    read, if it is an array)."""
    cache: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for key, below in np.broadcast(keys, pinned):
        if key < below:
            continue
        misses += key not in cache
        cache[key] = None
        cache.move_to_end(key)
        while len(cache) > capacity - below:
            cache.popitem(last=False)
    return misses / len(keys)


@pytest.mark.parametrize("share", [1, 4])
def test_keys_without_a_ttl_take_memory_at_every_size_under_volatile_lru(share: int) -> None:
    keys, pinned = zipf(4000, 40_000, seed=3) * 2654435761 % 4001, 1000
    stats = replace(
        STATS, maxmemory_policy="volatile-lru", keys=4000, keys_with_ttl=4000 - pinned,
        counted_bytes=BASELINE + 4000 * (SIZE + OVERHEAD),
    )  # fmt: skip
    monitor = monitor_of(stats)
    server = SampledServer(threshold=MODULUS // share)
    hashes = number_hashes(np.concatenate((np.arange(pinned), np.repeat(keys, 2))), 0)
    reads = np.tile([READ_MISS, WRITE], (len(keys), 1))
    reads[keys < pinned] = READ_HIT  # the second of the two stands for nothing new
    operations = np.concatenate((np.full(pinned, WRITE), reads.ravel()))
    has_ttl = np.concatenate((np.zeros(pinned, bool), np.repeat(keys >= pinned, 2)))
    wanted = np.ones(len(hashes), bool)
    wanted[pinned + 1 :: 2] = keys >= pinned
    take(monitor, server.batches(hashes[wanted], operations[wanted], SIZE, ttl=has_ttl[wanted]))
    told = observed(monitor, later(stats))
    for capacity in (1300, 2000, 3000, 4000):
        exact = pinning_miss_ratio(keys, pinned, capacity)
        predicted = float(told.curve.miss_ratio(BASELINE + capacity * (SIZE + OVERHEAD)))
        assert predicted == pytest.approx(exact, abs=0.005 if share == 1 else 0.04)
    # What is pinned is counted by the server, so no sample is needed to know where hits begin.
    hits_begin = told.curve.sizes_bytes[np.flatnonzero(told.curve.miss_ratios == 1)[-1]]
    assert hits_begin == pytest.approx(BASELINE + pinned * (SIZE + OVERHEAD), rel=0.012)


@pytest.mark.parametrize("share", [1, 4])
def test_memory_that_was_pinned_only_later_does_not_count_for_earlier_reads(share: int) -> None:
    cached = zipf(4000, 40_000, seed=3) * 2654435761 % 4001 + 10_000
    # Every tenth read, one more key without a TTL is written, and never read.
    added = len(cached) // 10
    stats = replace(
        STATS, maxmemory_policy="volatile-lru", maxmemory_bytes=0, keys=0, keys_with_ttl=0,
        counted_bytes=BASELINE,
    )  # fmt: skip
    monitor = monitor_of(stats)
    keys = np.repeat(cached, 2)
    operations = np.tile([READ_MISS, WRITE], len(cached))
    ttl = np.ones(len(keys), bool)
    places = np.arange(added) * 20
    keys = np.insert(keys, places, np.arange(added))
    operations, ttl = np.insert(operations, places, WRITE), np.insert(ttl, places, False)
    server = SampledServer(threshold=MODULUS // share)
    take(monitor, server.batches(number_hashes(keys, 0), operations, SIZE, ttl=ttl))
    full = replace(
        later(stats), keys=added + 4000, keys_with_ttl=4000,
        counted_bytes=BASELINE + (added + 4000) * (SIZE + OVERHEAD),
    )  # fmt: skip
    told = observed(monitor, full)
    pinned_then = np.repeat(np.arange(1, added + 1), 10)
    for capacity in (4500, 5500, 6500):
        exact = pinning_miss_ratio(cached, pinned_then, capacity)
        predicted = float(told.curve.miss_ratio(BASELINE + capacity * (SIZE + OVERHEAD)))
        assert predicted == pytest.approx(exact, abs=0.005 if share == 1 else 0.04)


def test_a_key_at_which_the_module_could_not_look_is_not_taken_for_one_without_a_ttl() -> None:
    """On Redis 7.0, and in scripts, a read by the module tells neither size nor TTL."""
    keys = zipf(3000, 30_000)
    stats = replace(
        STATS, maxmemory_policy="volatile-lru", keys=3000, keys_with_ttl=2999,
        counted_bytes=BASELINE + 3000 * (SIZE + OVERHEAD),
    )  # fmt: skip
    monitor = monitor_of(stats)
    cached = set[int]()
    operations, sizes, asked = [], [], []
    for key in keys.tolist():
        hit = key in cached
        cached.add(key)
        asked += [key] if hit else [key, key]
        operations += [READ_HIT] if hit else [READ_MISS, WRITE]
        sizes += [0] if hit else [0, SIZE]
    wrote = np.array(operations) == WRITE
    hashes = number_hashes(np.array(asked), 0)
    for message in SampledServer().batches(hashes, operations, sizes, ttl=wrote):
        monitor.take(replace(decode_batch(message), source=SOURCE_MODULE))
    told = observed(monitor, later(stats))
    for objects in (300, 1000, 2000):
        size = BASELINE + objects * (SIZE + OVERHEAD)
        exact = lru_miss_ratio(keys, objects)
        assert float(told.curve.miss_ratio(size)) == pytest.approx(exact, abs=0.01)


def test_keys_that_another_policy_evicts_are_pinned_no_longer() -> None:
    stats = replace(STATS, maxmemory_policy="volatile-lru", keys=5000, keys_with_ttl=0)
    monitor = monitor_of(stats)
    take(monitor, SampledServer().batches(number_hashes(np.arange(5000), 0), WRITE, SIZE))
    told = observed(monitor, stats := later(stats))
    assert told.pinned_bytes > 5000 * SIZE
    told = observed(monitor, later(replace(stats, maxmemory_policy="allkeys-lru")))
    assert told.pinned_bytes == 0


def test_an_lfu_server_is_simulated_at_all_sizes() -> None:
    keys = zipf(1000, 10_000)
    budget = BASELINE + 1200 * (SIZE + OVERHEAD)
    monitor = monitor_of(LFU, budget)
    take(monitor, batches(keys))
    told = observed(monitor, later(LFU), budget)
    assert told.keep_reason is None
    for capacity in (100, 300, 600):
        cache = MiniatureCache(capacity, EvictionSettings())
        misses = 0
        for key in keys.tolist():
            if not cache.touch(key, 0):
                misses += 1
                cache.put(key, 1, 0)
        predicted = float(told.curve.miss_ratio(BASELINE + capacity * (SIZE + OVERHEAD)))
        assert predicted == pytest.approx(misses / len(keys), abs=0.015)
        assert predicted < lru_miss_ratio(keys, capacity) + 0.005


def test_an_lfu_server_is_anchored_by_its_simulation() -> None:
    monitor = monitor_of(LFU)
    take(monitor, batches(zipf(5000, 5000)))
    told = observed(monitor, later(LFU, hits=700, misses=300))
    raw = float(told.raw_curve.miss_ratio(LFU.maxmemory_bytes))
    assert told.drift_ratio == pytest.approx(raw - 0.3, abs=0.02)
    assert told.curve.miss_ratio(LFU.maxmemory_bytes) == pytest.approx(0.3, abs=0.02)


def test_simulated_caches_keep_all_that_fits_until_the_server_tells_what_a_key_weighs() -> None:
    keys, object_bytes = np.arange(4000), SIZE + 20
    just_full = BASELINE + len(keys) * object_bytes
    stats = replace(LFU, keys=0, counted_bytes=LFU.baseline_bytes + FIRST_FIXED_BYTES)
    monitor = ServerMonitor("one")
    monitor.observe(stats, just_full)
    take(monitor, batches(keys))
    filled = replace(later(stats, misses=len(keys)), keys=len(keys), counted_bytes=just_full)
    monitor.observe(filled, just_full)
    monitor.forget()
    take(monitor, batches(keys))
    told = observed(monitor, later(filled, hits=len(keys)), just_full)
    assert told.raw_curve.miss_ratio(just_full) == 0


def test_what_was_counted_under_another_policy_is_forgotten() -> None:
    monitor = monitor_of(STATS)
    take(monitor, batches(zipf(1000, 5000)))
    stats = later(LFU, hits=1000)
    told = observed(monitor, stats)
    assert (told.keep_reason or "").startswith("few_samples:")
    assert monitor.counts.histogram.reads.by(CYCLE) == 0
    simulation = monitor.shards.simulation
    assert simulation is not None
    monitor.observe(later(stats), BUDGET)
    assert monitor.shards.simulation is simulation
    monitor.observe(replace(later(stats), maxmemory_samples=10), BUDGET)
    assert monitor.shards.simulation is not simulation
    monitor.observe(later(STATS, seconds=40), BUDGET)
    assert monitor.shards.simulation is None


def test_simulated_caches_begin_with_what_is_known() -> None:
    monitor = monitor_of(STATS)
    take(monitor, batches(np.arange(1000)))
    stats = later(LFU, hits=1000)
    monitor.observe(stats, BUDGET)
    take(monitor, batches(zipf(1000, 5000)))
    told = observed(monitor, later(stats, hits=5000))
    # All are in the largest cache, where none was read before the policy changed.
    assert told.raw_curve.miss_ratio(BUDGET) == 0


@pytest.mark.parametrize("stats", [STATS, LFU])
def test_a_rate_that_was_raised_is_taken_over_when_as_much_has_been_seen(
    stats: ServerReading,
) -> None:
    monitor = monitor_of(stats)
    server = SampledServer(threshold=MODULUS // 64)
    take(monitor, batches(zipf(3000, 30_000, seed=1), server))
    stats = later(stats)
    assert monitor.observe(stats, BUDGET) is not None
    assert monitor.shards.rate == 1 / 64
    before, server.threshold = monitor.shards, MODULUS // 4
    rates = []
    for seed in range(2, 5):
        take(monitor, batches(zipf(3000, 30_000, seed=seed), server))
        stats = later(stats)
        told = monitor.observe(stats, BUDGET)
        rates.append(monitor.shards.rate)
    # As soon as as much has been seen, and not with the next observation.
    assert rates == [1 / 4, 1 / 4, 1 / 4]
    assert monitor.shards is not before
    assert monitor.shards.simulation is before.simulation
    assert told is not None
    assert told.sampled_objects == pytest.approx(3000 / 4, rel=0.15)


def test_a_full_stack_needs_no_higher_rate() -> None:
    monitor = monitor_of(STATS)
    monitor.shards = Shards(live_objects=64)
    server = SampledServer(threshold=MODULUS // 64)
    for threshold in (MODULUS // 64, MODULUS):
        server.threshold = threshold
        for seed in range(2):
            take(monitor, batches(zipf(3000, 10_000, seed), server))
            monitor.observe(STATS, BUDGET)
    assert monitor.shards.rate <= 1 / 64
