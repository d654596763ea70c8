"""TTLs: what expires when, and misses against caches of several sizes simulated in full."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.curves.calibration import FIRST_FIXED_BYTES
from sidecar.curves.lifetimes import LifetimeDistribution, Lifetimes, TimedAccesses
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.served_reads import MOST_INSERTED, ServedReads, served_between
from sidecar.samples.batch import decode_batch
from sidecar.servers.connection.server_reading import ServerReading
from tests.oracles import lifetimes as in_python
from workloads.sample_batches import SampledServer, number_hashes

HIT, MISS, WRITE, DELETE, EXPIRY, EVICTION = range(1, 7)


class TtlCache:
    """An LRU cache of ``capacity`` equal objects that expire some time after their fill; it tells
    what happens as the sampler would: object, operation, and how long the object has to live."""

    def __init__(self, capacity: int, ttl: float, longer: float = 0.0) -> None:
        self.capacity = capacity
        self.ttl = ttl
        self.longer = longer
        self.expires: OrderedDict[int, float] = OrderedDict()
        self.due: list[tuple[float, int]] = []
        self.reads = self.misses = 0

    def read(self, key: int, now: float) -> list[tuple[int, int, float]]:
        told = []
        while self.due and self.due[0][0] <= now:
            at, old = heappop(self.due)
            if self.expires.get(old) == at:
                del self.expires[old]
                told.append((old, EXPIRY, math.inf))
        self.reads += 1
        if key in self.expires:
            self.expires.move_to_end(key)
            return [*told, (key, HIT, self.expires[key] - now)]
        self.misses += 1
        ttl = self.ttl + self.longer * (key % 10)
        self.expires[key] = now + ttl
        heappush(self.due, (now + ttl, key))
        told += [(key, MISS, math.inf), (key, WRITE, ttl)]
        if len(self.expires) > self.capacity:
            evicted, _ = self.expires.popitem(last=False)
            told.append((evicted, EVICTION, math.inf))
        return told


def stats_of(cache: TtlCache, size: int, now: float) -> ServerReading:
    used = FIRST_FIXED_BYTES + len(cache.expires) * size
    return ServerReading(
        run_id="1" * 40, instance=1, role="master",
        maxmemory_bytes=FIRST_FIXED_BYTES + cache.capacity * size, maxmemory_policy="allkeys-lru",
        maxmemory_samples=100, lfu_log_factor=10, lfu_decay_time_minutes=1,
        counted_bytes=used, baseline_bytes=0, unevictable_bytes=0, rss_bytes=used,
        keyspace_hits=cache.reads - cache.misses, keyspace_misses=cache.misses,
        keys=len(cache.expires), keys_with_ttl=len(cache.expires),
        average_ttl_seconds=float(np.mean([at - now for at in cache.expires.values()]))
        if cache.expires else 0.0,
        at_seconds=now,
    )  # fmt: skip


def predicted_and_measured(
    capacity: int, ttl: float, longer: float, is_told: bool
) -> tuple[list[float], list[float]]:
    """Miss ratios of caches of several sizes, as the monitor of one of them sees them, and as they
    were; ``is_told`` says whether samples tell TTLs."""
    keys, count, rate = 4000, 30_000, 200.0
    share = 1 / np.arange(1, keys + 1) ** 0.8
    drawn = np.random.default_rng(1).choice(keys, count, p=share / share.sum())
    size = 1000
    capacities = (400, 1000, 2000, 4000)
    caches = {c: TtlCache(c, ttl, longer) for c in capacities}
    monitor = ServerMonitor("one", cycle_seconds=1e9)
    monitor.calibration.overhead_bytes = 0
    budget = FIRST_FIXED_BYTES + 5000 * size
    monitor.observe(stats_of(caches[capacity], size, 0), budget)
    server = SampledServer()
    events: list[tuple[int, int, float, int]] = []
    warm: dict[int, tuple[int, int]] = {}

    def flush() -> None:
        ids, operations, left, times = (np.array(column) for column in zip(*events, strict=True))
        left_ms = np.where(np.isfinite(left) & is_told, 1000 * left, -1)
        for message in server.batches(
            number_hashes(ids, 0),
            operations,
            size,
            ttl=np.isfinite(left),
            ttls_ms=left_ms,
            times_us=times,
        ):
            monitor.take(decode_batch(message))
        events.clear()

    for place, key in enumerate(drawn.tolist()):
        now = 1000 + place / rate
        for c, cache in caches.items():
            told = cache.read(key, now)
            if c == capacity:
                events += [(*one, int(now * 1e6)) for one in told]
        if place % 50 == 49:
            flush()
        if place % 1500 == 1499:
            monitor.observe(stats_of(caches[capacity], size, now), budget)
        if place == count // 3:
            warm = {c: (cache.reads, cache.misses) for c, cache in caches.items()}
            monitor.forget()
    told = monitor.observe(stats_of(caches[capacity], size, now + 1), budget)
    assert told is not None
    measured = [
        (cache.misses - warm[c][1]) / (cache.reads - warm[c][0]) for c, cache in caches.items()
    ]
    sizes = [FIRST_FIXED_BYTES + c * size for c in capacities]
    return told.raw_curve.miss_ratio(sizes).tolist(), measured


@pytest.mark.parametrize("capacity", [400, 1000, 4000])
@pytest.mark.parametrize(
    ("ttl", "longer", "is_told"),
    [(0.4, 0.0, True), (60.0, 0.0, True), (10.0, 20.0, True), (60.0, 0.0, False)],
    ids=["short", "one", "many", "not told"],
)
def test_a_server_of_one_size_predicts_the_others_less_well_where_ttls_are_not_told(
    capacity: int, ttl: float, longer: float, is_told: bool
) -> None:
    predicted, measured = predicted_and_measured(capacity, ttl, longer, is_told=is_told)
    assert predicted == pytest.approx(measured, abs=0.012 if is_told else 0.03)


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


NOT_TOLD = math.nan


def accesses(rows: list[tuple[int, int, float, float]], distances: list[float]) -> TimedAccesses:
    """Rows are key, operation, what is left to live, and when."""
    keys, operations, left, times = zip(*rows, strict=True) if rows else ([],) * 4
    return TimedAccesses(
        np.array(keys, np.uint64),
        np.array(operations, np.uint8),
        np.array(left, np.float64),
        np.array(distances, np.float64),
        np.array(times, np.float64),
    )


class Moved(NamedTuple):
    """Reads, each by its size and key."""

    added: list[tuple[float, int]]
    removed: list[tuple[float, int]]


def take(
    lifetimes: Lifetimes,
    key: int,
    operation: int,
    at: float,
    distance: float | None = None,
    left: float = NOT_TOLD,
) -> Moved:
    distances = [] if distance is None else [distance]
    if operation in (HIT, MISS) and math.isnan(left):
        left = math.inf
    moves = lifetimes.take(accesses([(key, operation, left, at)], distances), 100.0).moves()
    return Moved(*(list(zip(sizes.tolist(), ids.tolist(), strict=True)) for sizes, ids in moves))


def with_lifetime(seconds: float) -> Lifetimes:
    lifetimes = Lifetimes()
    for _ in range(50):
        lifetimes.distribution.add(seconds, expired=True)
    lifetimes.refresh(0)
    return lifetimes


# It is known, or it is guessed.
LIFETIMES = pytest.mark.parametrize(
    ("lifetimes", "left"),
    [(Lifetimes(), 10.0), (with_lifetime(99), 10.0), (with_lifetime(10), NOT_TOLD)],
    ids=["told", "told otherwise than seen", "guessed"],
)


@LIFETIMES
def test_an_evicted_object_expires_when_its_lifetime_is_over(
    lifetimes: Lifetimes, left: float
) -> None:
    take(lifetimes, 1, WRITE, 100, left=left)
    take(lifetimes, 1, EVICTION, 104)
    assert lifetimes.due(109.9) == []
    assert lifetimes.due(110) == [1]
    assert len(lifetimes) == 0


@LIFETIMES
def test_the_copy_of_a_larger_cache_is_older_and_expires_first(
    lifetimes: Lifetimes, left: float
) -> None:
    take(lifetimes, 1, WRITE, 100, left=left)
    # Evicted from this server of 100 bytes, missed at distance 500: larger ones still have it.
    take(lifetimes, 1, EVICTION, 101)
    first = take(lifetimes, 1, MISS, 106, 500.0)
    assert (first.added, first.removed) == ([], [])
    take(lifetimes, 1, WRITE, 106, left=left)
    # At 112 the copies of 106 live, those of 100 in caches from 500 bytes up do not.
    second = take(lifetimes, 1, HIT, 112, 60.0)
    assert second.removed == [(60.0, 1), (500.0, 1)]
    assert second.added == [(60.0, 1), (math.inf, 1)]
    # Those have been filled again by that miss.
    third = take(lifetimes, 1, HIT, 115, 60.0)
    assert (third.added, third.removed) == ([], [])


# Each access: its operation, when, and what is left to live.
@pytest.mark.parametrize(
    ("accesses_seen", "lives_until"),
    [
        ([(WRITE, 100, 10), (WRITE, 105, 100), (EVICTION, 106, NOT_TOLD)], 205),
        ([(HIT, 100, 10), (EVICTION, 101, NOT_TOLD)], 110),
    ],
    ids=[
        "a TTL that is changed holds for every size",
        "what is read tells of one nobody saw begin",
    ],
)
def test_what_is_evicted_lives_on_as_long_as_was_told_last(
    accesses_seen: list[tuple[int, float, float]], lives_until: float
) -> None:
    lifetimes = Lifetimes()
    for operation, at, left in accesses_seen:
        take(lifetimes, 1, operation, at, 60.0 if operation == HIT else None, left)
    assert lifetimes.due(lives_until - 1) == []
    assert lifetimes.due(lives_until) == [1]


def test_copies_keep_the_ttl_that_each_was_given() -> None:
    lifetimes = Lifetimes()
    take(lifetimes, 1, WRITE, 100, left=10)
    take(lifetimes, 1, EVICTION, 101)
    take(lifetimes, 1, MISS, 102, 500.0)
    take(lifetimes, 1, WRITE, 102, left=3)
    # The larger caches have the copy that lives until 110.
    assert lifetimes.due(109) == []
    take(lifetimes, 1, EVICTION, 109)
    assert lifetimes.due(110.1) == [1]


def test_an_object_lives_to_the_end_of_the_last_millisecond() -> None:
    lifetimes = Lifetimes()
    take(lifetimes, 1, WRITE, 1.7e9, left=0.5)
    last = take(lifetimes, 1, HIT, 1.7e9 + 0.5, 60.0, left=0.0)
    assert (last.added, last.removed) == ([], [])


def test_what_other_sizes_would_have_leaves_as_late_as_the_server_finds_it() -> None:
    lifetimes = Lifetimes()
    for key in range(1000):
        take(lifetimes, key, WRITE, 100, left=10)
        take(lifetimes, key, EXPIRY, 112)
    take(lifetimes, 1, WRITE, 200, left=10)
    take(lifetimes, 1, EVICTION, 201)
    assert lifetimes.due(211.9) == []
    assert lifetimes.due(212) == [1]


def test_a_write_without_ttl_ends_it() -> None:
    lifetimes = Lifetimes()
    take(lifetimes, 1, WRITE, 100, left=10)
    take(lifetimes, 1, WRITE, 101, left=math.inf)
    assert len(lifetimes) == 0


def test_the_shortest_lifetime_is_forgotten_when_it_is_no_more_seen() -> None:
    lifetimes = Lifetimes()
    take(lifetimes, 1, WRITE, 100, left=0.5)
    take(lifetimes, 1, WRITE, 101, left=10)
    assert lifetimes.shortest_seconds == 0.5
    lifetimes.refresh(0)
    assert lifetimes.shortest_seconds == 0.5
    lifetimes.refresh(0)
    assert lifetimes.shortest_seconds == math.inf


def test_only_wanted_objects_are_kept() -> None:
    lifetimes = Lifetimes()
    for key in range(10):
        take(lifetimes, key, WRITE, 100, left=10)
    lifetimes.keep_only({3, 4})
    assert len(lifetimes) == 2


@pytest.mark.parametrize("told", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("resident", [300.0, math.inf])
def test_the_compiled_lifetimes_are_the_same(told: float, resident: float) -> None:
    """All that is asked of both, with lifetimes that are told, guessed, and changed."""
    random = np.random.default_rng(round(10 * told))
    compiled, twin = Lifetimes(), in_python.Lifetimes()
    now, moved, gone = 1000.0, 0, 0
    for batch in range(200):
        rows, distances = [], []
        for _ in range(int(random.integers(0, 60))):
            key = int(random.integers(0, 40)) << 30
            operation = int(random.choice([HIT, MISS, WRITE, DELETE, EXPIRY, EVICTION], p=SHARES))
            now += float(random.exponential(0.05))
            left = float(random.choice([1.0, 5.0, 20.0])) + float(random.integers(0, 3)) / 1000
            if operation in (WRITE, HIT):
                left = left if random.random() < told else math.nan
                left = math.inf if random.random() < 0.2 else left
            rows.append((key, operation, left if operation in (WRITE, HIT) else math.inf, now))
            if operation in (HIT, MISS):
                distances.append(float(random.choice([50, 100, 200, 400, 800, math.inf])))
        taken = accesses(rows, distances)
        for ours, theirs in zip(
            compiled.take(taken, resident).moves(), twin.take(taken, resident).moves(), strict=True
        ):
            moved += len(ours[0])
            assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]
        expired = twin.due(now - 1)
        gone += len(expired)
        assert compiled.due(now - 1) == expired
        assert len(compiled) == len(twin)
        assert compiled.waiting == twin.waiting
        assert compiled.shortest_seconds == twin.shortest_seconds
        if batch % 7 == 6:
            kept = [key << 30 for key in range(40) if random.random() < 0.9]
            compiled.keep_only(kept)
            twin.keep_only(kept)
            average = float(random.choice([0, 3]))
            compiled.refresh(average)
            twin.refresh(average)
    assert moved > 100
    assert gone > 2


MADE = [Lifetimes, in_python.Lifetimes]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("ttls", [[86400.0], [86400.0, 100.0], [math.nan]])
def test_what_waits_is_bounded_by_the_objects(
    made: Callable[[], Lifetimes | in_python.Lifetimes], ttls: list[float]
) -> None:
    """Filled and evicted again and again, with TTLs that are told, that end at one of two times, or
    that are guessed; and what waits is still all that expires."""
    lifetimes = made()
    for _ in range(50):
        lifetimes.distribution.add(86400, expired=True)
    lifetimes.refresh(0)
    for turn in range(100):
        now = 1000.0 + turn
        rows = []
        for key in range(100):
            ends = ttls[turn % len(ttls)] - (turn if len(ttls) == 2 else 0)
            rows += [(key, WRITE, ends, now), (key, EVICTION, math.inf, now)]
        lifetimes.take(accesses(rows, []), 300.0)
        assert lifetimes.waiting <= 2 * 100 + 256
    lifetimes.keep_only(range(100))
    assert lifetimes.waiting == 100
    assert sorted(lifetimes.due(1e9)) == list(range(100))
    assert lifetimes.waiting == 0


@pytest.mark.parametrize("made", MADE)
def test_of_very_many_copies_those_of_large_caches_are_kept(
    made: Callable[[], Lifetimes | in_python.Lifetimes],
) -> None:
    lifetimes = made()
    rows = [(1 << 30, WRITE, 10.0, 100.0)]
    # Each read leaves the larger caches with older copies. The last two before the pause find one
    # each expired, the one after it seven; that of 300 to 500 bytes has been given up.
    rows += [(1 << 30, MISS, math.inf, 100.0 + at) for at in [*range(1, 13), 18.5]]
    distances = [float(1200 - 100 * at) for at in range(1, 12)]
    moves = lifetimes.take(accesses(rows, [*distances, 50.0, 50.0]), 0.0).moves()
    added, removed = (sizes.tolist() for sizes, _ in moves)
    assert added == [100.0, math.inf, 50.0, 1100.0, 50.0, 1000.0]
    assert removed == [100.0, 1100.0, 50.0, 1000.0, 50.0, 500.0]


SHARES = [0.4, 0.15, 0.25, 0.03, 0.05, 0.12]


# --- What a server served in a window, also where its counters began anew in it.


READING = stats_of(TtlCache(100, 60.0), 100, 0.0)
COUNTS = st.integers(0, 10**9)


def counted(hits: int, misses: int, at_seconds: float = 0.0) -> ServerReading:
    return replace(READING, keyspace_hits=hits, keyspace_misses=misses, at_seconds=at_seconds)


def test_a_load_that_ends_does_not_look_like_a_reset() -> None:
    """The last samples of the busy window come in the quiet one."""
    served = served_between(counted(60_000, 20_000), counted(60_039, 20_000, 1.0), 539.0)
    assert served == ServedReads(39, 0)


@pytest.mark.parametrize(
    ("hits", "misses", "sampled"), [(3_000, 1_000, 10_000.0), (70_000, 10_000, 200_000.0)]
)
def test_counters_that_began_anew_are_scaled_to_what_was_sampled(
    hits: int, misses: int, sampled: float
) -> None:
    """Also where they have come further since than they were before."""
    served = served_between(counted(60_000, 5_000), counted(hits, misses, 3600.0), sampled)
    assert served.reads == pytest.approx(sampled)
    assert served.misses / served.reads == pytest.approx(misses / (hits + misses), abs=1e-4)


def test_little_since_a_reset_tells_nothing_of_all_that_was_sampled() -> None:
    assert served_between(counted(60_000, 5_000), counted(0, 3, 3600.0), 40_000.0).reads == 0
    assert served_between(counted(60_000, 5_000), counted(0, 0, 3600.0), 40_000.0).reads == 0


@pytest.mark.parametrize(
    ("evicted", "keys", "inserted", "per_read"),
    [(400, 100, 500, 0.5), (400, -350, 50, 0.05), (0, -70, 0, 0.0), (-4_000, 10, 0, 0.0)],
)
def test_what_came_in_is_what_was_evicted_and_what_there_is_more(
    evicted: int, keys: int, inserted: int, per_read: float
) -> None:
    """Less than nothing came in where keys were deleted, or the counters began anew."""
    previous = replace(counted(0, 0), keys=10_000, evicted_keys=5_000)
    reading = replace(counted(700, 300, 60.0), keys=10_000 + keys, evicted_keys=5_000 + evicted)
    served = served_between(previous, reading, 1000.0)
    assert served == ServedReads(700, 300, inserted)
    assert served.inserted_per_read == per_read
    assert served_between(previous, previous, 0.0).inserted_per_read is None


def test_more_than_any_server_brings_in_is_not_believed() -> None:
    """A planner elsewhere refused the observation of all servers for what one said."""
    previous, reading = counted(0, 0), replace(counted(1, 1, 60.0), keys=2**62)
    assert served_between(previous, reading, 2.0).inserted_per_read == MOST_INSERTED


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.floats(0, 2))
def test_without_a_reset_it_is_what_was_counted(
    hits: int, misses: int, more_hits: int, more_misses: int, ratio: float
) -> None:
    """However much was sampled, while it is less than what was counted before."""
    previous = counted(hits, misses)
    reading = counted(hits + more_hits, misses + more_misses, 60.0)
    sampled = min(ratio * (more_hits + more_misses), 0.89 * (hits + misses))
    assert served_between(previous, reading, sampled) == ServedReads(more_hits, more_misses)
