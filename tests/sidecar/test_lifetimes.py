"""TTLs: the estimated lifetimes, and misses against caches of several sizes simulated in full."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import replace

import numpy as np
import pytest

from sidecar.curves.calibration import FIRST_FIXED_BYTES
from sidecar.curves.lifetimes import Corrections, LifetimeDistribution, Lifetimes, TimedAccesses
from sidecar.curves.monitor import ServerMonitor
from sidecar.samples.batch import decode_batch
from sidecar.servers.server_reading import ServerReading
from workloads.sample_batches import SampledServer, number_hashes

HIT, MISS, WRITE, DELETE, EXPIRY, EVICTION = range(1, 7)


class TtlCache:
    """An LRU cache of ``capacity`` equal objects that expire ``ttl`` after their fill; it tells
    what happens as the sampler would."""

    def __init__(self, capacity: int, ttl: float) -> None:
        self.capacity = capacity
        self.ttl = ttl
        self.filled: OrderedDict[int, float] = OrderedDict()
        self.fills: deque[tuple[float, int]] = deque()
        self.reads = self.misses = 0

    def read(self, key: int, now: float) -> list[tuple[int, int]]:
        told = []
        # All TTLs are equal, so what was filled first expires first.
        while self.fills and self.fills[0][0] + self.ttl <= now:
            at, old = self.fills.popleft()
            if self.filled.get(old) == at:
                del self.filled[old]
                told.append((old, EXPIRY))
        self.reads += 1
        if key in self.filled:
            self.filled.move_to_end(key)
            return [*told, (key, HIT)]
        self.misses += 1
        self.filled[key] = now
        self.fills.append((now, key))
        told += [(key, MISS), (key, WRITE)]
        if len(self.filled) > self.capacity:
            evicted, _ = self.filled.popitem(last=False)
            told.append((evicted, EVICTION))
        return told


def stats_of(cache: TtlCache, size: int, now: float) -> ServerReading:
    used = FIRST_FIXED_BYTES + len(cache.filled) * size
    return ServerReading(
        run_id="1" * 40, instance=1, role="master",
        maxmemory_bytes=FIRST_FIXED_BYTES + cache.capacity * size, maxmemory_policy="allkeys-lru",
        maxmemory_samples=100, lfu_log_factor=10, lfu_decay_time_minutes=1,
        counted_bytes=used, baseline_bytes=0, unevictable_bytes=0, rss_bytes=used,
        keyspace_hits=cache.reads - cache.misses, keyspace_misses=cache.misses,
        keys=len(cache.filled), keys_with_ttl=len(cache.filled),
        average_ttl_seconds=float(np.mean([at + cache.ttl - now for at in cache.filled.values()]))
        if cache.filled else 0.0,
        at_seconds=now,
    )  # fmt: skip


@pytest.mark.parametrize("capacity", [400, 1000, 4000])
def test_a_server_of_one_size_predicts_the_others(capacity: int) -> None:
    keys, count, ttl, rate = 4000, 30_000, 60.0, 200.0
    share = 1 / np.arange(1, keys + 1) ** 0.8
    drawn = np.random.default_rng(1).choice(keys, count, p=share / share.sum())
    size = 1000
    capacities = (400, 1000, 2000, 4000)
    caches = {c: TtlCache(c, ttl) for c in capacities}
    monitor = ServerMonitor("one", cycle_seconds=1e9)
    monitor.calibration.overhead_bytes = 0
    budget = FIRST_FIXED_BYTES + 5000 * size
    monitor.observe(stats_of(caches[capacity], size, 0), budget)
    server = SampledServer()
    events: list[tuple[int, int, int]] = []
    warm: dict[int, tuple[int, int]] = {}

    def flush() -> None:
        ids = number_hashes(np.array([key for key, _, _ in events]), 0)
        operations = np.array([operation for _, operation, _ in events])
        has_ttl = (operations == WRITE) | (operations == HIT)
        times = np.array([at for _, _, at in events])
        for message in server.batches(ids, operations, size, ttl=has_ttl, times_us=times):
            monitor.take(decode_batch(message))
        events.clear()

    for place, key in enumerate(drawn.tolist()):
        now = 1000 + place / rate
        for c, cache in caches.items():
            told = cache.read(key, now)
            if c == capacity:
                events += [(k, operation, int(now * 1e6)) for k, operation in told]
        if place % 50 == 49:
            flush()
        if place % 1500 == 1499:
            monitor.observe(stats_of(caches[capacity], size, now), budget)
        if place == count // 3:
            warm = {c: (cache.reads, cache.misses) for c, cache in caches.items()}
            monitor.forget()
    told = monitor.observe(stats_of(caches[capacity], size, now + 1), budget)
    assert told is not None
    for c, cache in caches.items():
        reads, misses = warm[c]
        measured = (cache.misses - misses) / (cache.reads - reads)
        predicted = float(told.raw_curve.miss_ratio(FIRST_FIXED_BYTES + c * size))
        assert predicted == pytest.approx(measured, abs=0.03), (capacity, c)


def test_lifetimes_cut_short_do_not_make_the_others_look_short() -> None:
    """Half of the objects live 100 s; half of all are evicted at a random age before that."""
    random = np.random.default_rng(3)
    distribution = LifetimeDistribution()
    for _ in range(2000):
        lifetime = random.choice([20.0, 100.0])
        cut = random.uniform(0, 200)
        distribution.add(min(lifetime, cut), lifetime <= cut)
    distribution.refresh(0)
    drawn = [distribution.draw(0) for _ in range(1000)]
    assert np.mean([d == 100 for d in drawn]) == pytest.approx(0.5, abs=0.06)
    assert set(drawn) == {20.0, 100.0}
    assert {distribution.draw(30) for _ in range(50)} == {100.0}


def test_what_is_left_of_ttls_tells_when_nothing_lives_to_its_end() -> None:
    distribution = LifetimeDistribution()
    assert distribution.draw(5) is None
    for _ in range(100):
        distribution.add(40, expired=False)
    distribution.refresh(average_left_seconds=280)
    assert distribution.draw(5) == 300
    distribution.refresh(0)
    assert distribution.draw(5) is None


def take(
    lifetimes: Lifetimes, key: int, operation: int, at: float, distance: float | None = None
) -> Corrections:
    distances = [] if distance is None else [distance]
    return lifetimes.take(TimedAccesses([key], [operation], [True], distances, [at]), 100.0)


def with_lifetime(seconds: float) -> Lifetimes:
    lifetimes = Lifetimes()
    for _ in range(50):
        lifetimes.distribution.add(seconds, expired=True)
    lifetimes.distribution.refresh(0)
    return lifetimes


def test_an_evicted_object_expires_when_its_lifetime_is_over() -> None:
    lifetimes = with_lifetime(10)
    take(lifetimes, 1, WRITE, 100)
    take(lifetimes, 1, EVICTION, 104)
    assert lifetimes.due(109.9) == []
    assert lifetimes.due(110) == [1]
    assert len(lifetimes) == 0


def test_the_copy_of_a_larger_cache_is_older_and_expires_first() -> None:
    lifetimes = with_lifetime(10)
    take(lifetimes, 1, WRITE, 100)
    # Evicted from this server of 100 bytes, missed at distance 500: larger ones still have it.
    take(lifetimes, 1, EVICTION, 101)
    first = take(lifetimes, 1, MISS, 106, 500.0)
    assert (first.added, first.removed) == ([], [])
    take(lifetimes, 1, WRITE, 106)
    # At 112 the copies of 106 live, those of 100 in caches from 500 bytes up do not.
    second = take(lifetimes, 1, HIT, 112, 60.0)
    assert second.removed == [(60.0, 1), (500.0, 1)]
    assert second.added == [(60.0, 1), (math.inf, 1)]
    # Those have been filled again by that miss.
    third = take(lifetimes, 1, HIT, 115, 60.0)
    assert (third.added, third.removed) == ([], [])


def test_a_write_without_ttl_ends_it() -> None:
    lifetimes = with_lifetime(10)
    take(lifetimes, 1, WRITE, 100)
    accesses = TimedAccesses([1], [WRITE], [False], [], [101.0])
    lifetimes.take(replace(accesses), 100.0)
    assert len(lifetimes) == 0


def test_only_wanted_objects_are_kept() -> None:
    lifetimes = with_lifetime(10)
    for key in range(10):
        take(lifetimes, key, WRITE, 100)
    lifetimes.keep_only({3, 4})
    assert len(lifetimes) == 2
