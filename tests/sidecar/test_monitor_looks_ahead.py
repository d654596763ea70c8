"""What a monitor tells by a memory, and not of the last window."""

from __future__ import annotations

import numpy as np
import pytest

from sidecar.curves.monitor import CYCLE_SECONDS
from sidecar.curves.remembered import MEMORIES, HalfLife
from tests.sidecar.monitored_load import BASELINE, BUDGET, STATS, batches, later, monitor_of, zipf


def test_before_a_step_is_over_the_last_window_is_told_whatever_the_memory() -> None:
    stats = later(STATS, hits=2000, misses=1000)
    told = []
    for memory in (None, MEMORIES[0]):
        monitor = monitor_of(STATS)
        for batch in batches(zipf(3000, 3000)):
            monitor.take(batch)
        told.append(monitor.observe(stats, BUDGET, memory=memory))
    last, remembered = told
    assert last is not None
    assert remembered is not None
    assert remembered.request_rate_per_second == last.request_rate_per_second > 0
    grid = np.linspace(BASELINE, 2 * BASELINE, 20)
    assert np.array_equal(remembered.curve.miss_ratio(grid), last.curve.miss_ratio(grid))


def test_a_memory_tells_its_own_rate_and_a_curve_with_a_margin() -> None:
    monitor = monitor_of(STATS)
    taken = batches(zipf(3000, 30_000))
    for batch in taken:
        monitor.take(batch)
    monitor.step(CYCLE_SECONDS / 12)
    monitor.step(CYCLE_SECONDS / 12)  # of silence
    (short, _), (_, long) = MEMORIES[0], MEMORIES[-1]
    told = monitor.observe(later(STATS), BUDGET, memory=HalfLife(short, long))
    assert told is not None
    # Half of the reads, in one and a half of the time.
    assert told.request_rate_per_second == pytest.approx(30_000 / 2 / (300 * 1.5))
    # Depths are taken for 2 / √3,000 deeper than they are.
    depths = np.linspace(50_000, 500_000, 20)
    margin = 1 + 2 / np.sqrt(told.sampled_objects)
    ahead = told.curve.miss_ratio(BASELINE + depths * margin)
    assert ahead == pytest.approx(told.raw_curve.miss_ratio(BASELINE + depths), abs=1e-3)


def test_keys_that_come_back_after_they_were_dropped_are_no_growth() -> None:
    """With each observation objects are dropped that lie deeper than the budget reaches."""
    budget_bytes = 4_000_000
    monitor = monitor_of(STATS, budget_bytes)
    keys = np.random.default_rng(1).integers(0, 60_000, 400_000)  # they take three budgets
    known_bytes = []
    for number, cycle in enumerate(np.split(keys, 4), start=1):
        for part in np.array_split(cycle, 12):
            for batch in batches(part):
                monitor.take(batch)
            monitor.step(CYCLE_SECONDS / 12)
        known_bytes.append(monitor.shards.stack.total_weight / monitor.shards.rate)
        stats = later(STATS, seconds=number * CYCLE_SECONDS, misses=number * len(cycle))
        told = monitor.observe(stats, budget_bytes, memory=MEMORIES[0])
    assert min(known_bytes) > 1.5 * budget_bytes  # they do come back
    assert monitor.counts.growth_margin.growth_ratio == 0
    assert told is not None
    assert told.curve_error_ratio < 0.1
