"""Values that grow while they are cached: no curve tells their sizes in other caches, but each says
how far off it may be for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from sidecar.curves.curve_error import growth_error
from sidecar.curves.lru_stack import LruStack
from sidecar.samples.batch import decode_batch
from tests.oracles import lru_stack as in_python
from tests.sidecar.monitored_load import BASELINE, OVERHEAD, STATS, later, monitor_of, zipf
from tests.sidecar.test_lru_stack import DELETE, EVICTION, EXPIRY, READ_MISS, accesses, apply
from workloads.sample_batches import SampledServer, number_hashes

READ_HIT, WRITE = 1, 3
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
    for message in SampledServer().batches(number_hashes(names, 0), operations, sizes):
        monitor.take(decode_batch(message))
    misses = round(server.reads * ratio)
    estimate = monitor.observe(later(full, server.reads - misses, misses), BUDGET)
    assert estimate is not None

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
