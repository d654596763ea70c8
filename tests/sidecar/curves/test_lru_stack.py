"""The stack against caches of every size, simulated one by one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.curves.curve_error import growth_error
from sidecar.curves.lru_stack import COLD, LruStack
from tests.oracles import lru_stack as in_python
from tests.sidecar.monitored_load import (
    BASELINE,
    OVERHEAD,
    STATS,
    later,
    monitor_of,
    observed,
    take,
    zipf,
)
from tests.sidecar.naive_shards import NaiveStack, weights_of
from workloads.sample_batches import SampledServer, number_hashes

READ_HIT, READ_MISS, WRITE, DELETE, EXPIRY, EVICTION = range(1, 7)


class NaiveLru:
    """An LRU cache of ``capacity`` equal objects, read look-aside: a missed read that is in some
    larger cache fills it."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.objects: OrderedDict[int, None] = OrderedDict()

    def put(self, key: int) -> None:
        self.objects[key] = None
        self.objects.move_to_end(key)
        if len(self.objects) > self.capacity:
            self.objects.popitem(last=False)


def accesses(most_keys: int = 12) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    return st.lists(
        st.tuples(
            st.integers(0, most_keys),
            st.sampled_from((READ_HIT, READ_MISS, WRITE, DELETE, EXPIRY, EVICTION)),
            st.integers(0, 50),
        ),
        max_size=200,
    )


def apply(
    stack: in_python.LruStack | LruStack, steps: list[tuple[int, int, int]]
) -> list[tuple[int, int]]:
    keys = np.array([key for key, _, _ in steps], np.uint64)
    operations, weights = np.array([step[1:] for step in steps], np.int64).reshape(-1, 2).T
    above, own = stack.access(keys, operations, weights, 9)
    return list(zip(above.tolist(), own.tolist(), strict=True))


def assert_same(stack: in_python.LruStack | LruStack, naive: NaiveStack) -> None:
    assert list(stack)[::-1] == [entry.key for entry in naive.live()]
    assert weights_of(stack)[::-1] == [entry.weight for entry in naive.live()]
    assert stack.total_weight == naive.total_weight()


@pytest.mark.parametrize("compiled", [False, True])
@settings(deadline=None)
@given(steps=accesses(), batch=st.integers(1, 40))
def test_distances_are_those_of_the_naive_stack(
    compiled: bool, steps: list[tuple[int, int, int]], batch: int
) -> None:
    stack, naive = LruStack() if compiled else in_python.LruStack(), NaiveStack()
    told = []
    for start in range(0, len(steps), batch):
        told += apply(stack, steps[start : start + batch])
        if isinstance(stack, in_python.LruStack):
            stack._write_anew()
    expected = [naive.access(*step, 9) for step in steps]
    assert told == [pair for pair in expected if pair is not None]
    assert_same(stack, naive)


@pytest.mark.parametrize("chunk", [1, 50, 300, 1024])
@pytest.mark.parametrize("deletions", [0.0, 0.002, 0.1])
def test_many_accesses_at_once_and_between_rewritings(
    monkeypatch: pytest.MonkeyPatch, chunk: int, deletions: float
) -> None:
    """More than one block of a chunk, with and without holes among them."""
    monkeypatch.setattr(in_python, "_CHUNK", chunk)
    monkeypatch.setattr(in_python, "_SPARE_SLOTS", 1024)
    random = np.random.default_rng(chunk)
    count = 3000
    keys = np.minimum(random.zipf(1.2, count), 150)
    others = (1 - deletions) * np.array([0.6, 0.2, 0.18, 0.02])
    operations = random.choice(
        [READ_HIT, READ_MISS, WRITE, EVICTION, DELETE, EXPIRY],
        count,
        p=[*others, deletions / 2, deletions / 2],
    )
    weights = random.integers(0, 2000, count) * random.integers(0, 2, count)
    steps = list(zip(keys.tolist(), operations.tolist(), weights.tolist(), strict=True))
    stack, naive = in_python.LruStack(), NaiveStack()
    expected = [naive.access(*step, 9) for step in steps]
    assert apply(stack, steps) == [pair for pair in expected if pair is not None]
    assert_same(stack, naive)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from((READ_MISS, WRITE, DELETE)))))
def test_equal_objects_hit_exactly_in_caches_larger_than_their_distance(
    steps: list[tuple[int, int]],
) -> None:
    capacities = range(1, 15)
    caches = [NaiveLru(capacity) for capacity in capacities]
    stack = in_python.LruStack()
    for key, operation in steps:
        told = apply(stack, [(key, operation, 1)])
        hits = [key in cache.objects for cache in caches]
        anywhere = any(hits)
        for cache in caches:
            if operation == DELETE:
                cache.objects.pop(key, None)
            elif operation == WRITE or anywhere:
                cache.put(key)
        if operation == READ_MISS:
            above, own = told[0]
            assert hits == [above != COLD and above + own <= c for c in capacities]


@settings(deadline=None)
@given(accesses())
def test_held_is_what_the_server_did_not_miss_or_evict_last(
    steps: list[tuple[int, int, int]],
) -> None:
    stack, last = in_python.LruStack(), {}
    apply(stack, steps)
    for key, operation, _ in steps:
        last[key] = operation
    held = [key for key in stack if last[key] in (READ_HIT, WRITE)]
    weights = dict(zip(stack, weights_of(stack), strict=True))
    assert stack.held() == (len(held), sum(weights[key] for key in held))


@settings(deadline=None)
@given(accesses(), st.integers(0, 300))
def test_below_is_what_has_more_above_it(steps: list[tuple[int, int, int]], depth: int) -> None:
    stack, naive = in_python.LruStack(), NaiveStack()
    apply(stack, steps)
    for step in steps:
        naive.access(*step, 9)
    deep = [
        entry.key
        for place, entry in enumerate(naive.entries)
        if entry.key is not None and sum(e.weight for e in naive.entries[:place]) > depth
    ]
    assert stack.below(depth) == deep[::-1]
    stack.forget(stack.below(depth))
    assert list(stack) == [entry.key for entry in naive.live()[::-1] if entry.key not in deep]


def test_memory_is_bounded_when_keys_only_come_and_go() -> None:
    stack = in_python.LruStack()
    for start in range(0, 200_000, 1000):
        steps = [(start + i, WRITE, 5) for i in range(1000)]
        steps += [(start + i, DELETE, 0) for i in range(1000)]
        apply(stack, steps)
    assert len(stack) == 0
    assert len(stack._weights) < 40_000
    assert len(stack._holes.slots) == len(stack._holes.left) < 40_000


def same(stack: LruStack, twin: in_python.LruStack) -> bool:
    return (
        len(stack) == len(twin)
        and list(stack) == list(twin)
        and weights_of(stack) == weights_of(twin)
        and stack.total_weight == twin.total_weight
        and stack.held() == twin.held()
        and stack.grown() == twin.grown()
    )


@pytest.mark.parametrize("deletions", [0.0, 0.002, 0.1, 0.45])
@pytest.mark.parametrize("keys", [30, 3000])
def test_the_compiled_stack_is_the_same(deletions: float, keys: int) -> None:
    """For long enough that both write it anew, and with all that is asked of it in between."""
    random = np.random.default_rng(keys)
    stack, twin = LruStack(), in_python.LruStack()
    others = (1 - deletions) * np.array([0.6, 0.2, 0.18, 0.02])
    for batch in range(60):
        count = int(random.integers(0, 2500))
        steps = list(
            zip(
                (np.minimum(random.zipf(1.1, count), keys) << 24).tolist(),
                random.choice(
                    [READ_HIT, READ_MISS, WRITE, EVICTION, DELETE, EXPIRY],
                    count,
                    p=[*others, deletions / 2, deletions / 2],
                ).tolist(),
                (random.integers(0, 2000, count) * random.integers(0, 2, count)).tolist(),
                strict=True,
            )
        )
        assert apply(stack, steps) == apply(twin, steps)
        assert same(stack, twin)
        depth = int(random.integers(0, 1 + 2 * twin.total_weight))
        assert stack.below(depth) == twin.below(depth)
        some = list(twin)[:: int(random.integers(2, 9))]
        assert all(key in stack for key in some)
        assert 7 not in stack
        if batch % 5 == 1:
            stack.delete(some)
            twin.delete(some)
        elif batch % 5 == 2:
            stack.forget(some)
            twin.forget(some)
        elif batch % 5 == 3:
            more = int(random.integers(-100, 100))
            stack.add_weight(more)
            twin.add_weight(more)
        assert same(stack, twin)
    stack.clear()
    twin.clear()
    assert same(stack, twin)
    assert apply(stack, [(5, WRITE, 3), (5, READ_HIT, 0)]) == apply(
        twin, [(5, WRITE, 3), (5, READ_HIT, 0)]
    )


# --- Values that grow while they are cached: no curve tells their sizes in other caches, but each
# says how far off it may be for it.


VALUE = 160  # bytes that a value begins with, and that it grows by, with its overhead
CAPACITY = 250_000
BUDGET = BASELINE + 4 * CAPACITY

Stack = LruStack | in_python.LruStack
STACKS: list[Callable[[], Stack]] = [LruStack, in_python.LruStack]


@pytest.mark.parametrize("new", STACKS)
@settings(deadline=None)
@given(steps=accesses())
def test_grown_is_of_those_whose_weight_is_known_since_they_came(
    new: Callable[[], Stack], steps: list[tuple[int, int, int]]
) -> None:
    """By following each key by itself."""
    stack = new()
    apply(stack, steps)
    first: dict[int, int] = {}
    weights: dict[int, int] = {}
    for key, operation, weight in steps:
        if operation in (DELETE, EXPIRY):
            weights.pop(key, None)
        if operation in (DELETE, EXPIRY, EVICTION, READ_MISS):
            first.pop(key, None)
        elif weight:
            first.setdefault(key, weight)
            weights[key] = weight
    assert stack.grown() == (len(first), sum(first.values()), sum(weights[key] for key in first))


@pytest.mark.parametrize("new", STACKS)
def test_what_is_learnt_of_weights_is_no_growth(
    new: Callable[[], Stack],
) -> None:
    stack = new()
    apply(stack, [(1, WRITE, 100), (2, WRITE, 50), (3, READ_HIT, 0), (2, WRITE, 75)])
    stack.add_weight(10)
    assert stack.grown() == (2, 110 + 60, 110 + 85)
    stack.forget([1])
    assert stack.grown() == (1, 60, 85)


class GrowingCache:
    """Exact LRU by bytes; ``APPEND`` makes what is there ``VALUE`` larger, or begins anew."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.objects: OrderedDict[int, int] = OrderedDict()
        self.held_bytes = 0
        self.records: list[tuple[int, int, int]] = []  # key, operation, bytes without the overhead
        self.misses = self.reads = 0

    def _put(self, key: int, size: int) -> None:
        self.held_bytes += size - self.objects.pop(key, 0)
        self.objects[key] = size
        self.records.append((key, WRITE, size - OVERHEAD))
        while self.held_bytes > self.capacity:
            gone, freed = self.objects.popitem(last=False)
            self.held_bytes -= freed
            self.records.append((gone, EVICTION, 0))

    def play(self, keys: list[int], appends: list[bool]) -> float:
        """The miss ratio of the reads."""
        for key, is_append in zip(keys, appends, strict=True):
            if is_append:
                self._put(key, self.objects.get(key, 0) + VALUE)
                continue
            self.reads += 1
            if key in self.objects:
                self.objects.move_to_end(key)
                self.records.append((key, READ_HIT, self.objects[key] - OVERHEAD))
            else:
                self.misses += 1
                self.records.append((key, READ_MISS, 0))
                self._put(key, VALUE)
        return self.misses / self.reads


@pytest.mark.parametrize("exponent", [0.8, 0.99])
@pytest.mark.parametrize("appended", [0.0, 0.02, 0.1, 0.3])
def test_a_curve_of_values_that_grow_says_how_far_off_it_is(
    appended: float, exponent: float
) -> None:
    keys = zipf(5_000, 60_000, exponent=exponent).tolist()
    appends = (np.random.default_rng(3).random(len(keys)) < appended).tolist()
    server = GrowingCache(CAPACITY)
    ratio = server.play(keys, appends)
    full = replace(
        STATS,
        maxmemory_bytes=BASELINE + server.capacity,
        counted_bytes=BASELINE + server.held_bytes,
        keys=len(server.objects),
    )
    monitor = monitor_of(full, BUDGET)
    names, operations, sizes = map(np.array, zip(*server.records, strict=True))
    take(monitor, SampledServer().batches(number_hashes(names, 0), operations, sizes))
    misses = round(server.reads * ratio)
    estimate = observed(monitor, later(full, server.reads - misses, misses))

    capacities = [server.capacity * part for part in (0.1, 0.25, 0.5, 1, 2, 3)]
    measured = np.array([GrowingCache(int(size)).play(keys, appends) for size in capacities])
    off = np.abs(estimate.curve.miss_ratio(np.array(capacities) + BASELINE) - measured)
    assert off.mean() <= estimate.curve_error_ratio
    assert off.max() <= 2 * estimate.curve_error_ratio
    # What is taken for the error of windows before there is one.
    usual = 0.06
    assert (estimate.curve_error_ratio > usual) == (appended > 0)
    assert appended == 0 or off.max() > usual


def test_sizes_that_vary_by_chance_make_no_error() -> None:
    depths, ratios = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.8, 0.4, 0.2, 0.1])
    assert growth_error(depths, ratios, 0.96, 1, 8) == 0
    assert growth_error(depths, ratios, 1.04, 1, 8) == 0
    assert growth_error(depths, ratios, 0.5, 2, 8) == pytest.approx(0.4)
    assert growth_error(depths, ratios, 2.0, 2, 8) == pytest.approx(0.4)
    assert growth_error(depths, ratios, 0.5, 4, 8) == pytest.approx(0.2)
