"""Backend latency: right where it can be, and biased where the docstring says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.curves.backend_latency import LONGEST_SECONDS, BackendLatency
from sidecar.curves.fills import Fills
from sidecar.samples.batch import Batch, decode_batch
from tests.oracles.fills import Fills as PythonFills
from workloads.sample_batches import SampledServer, number_hashes

MISS, WRITE = 2, 3
WINDOW_US = 50_000


def measured(
    miss_times_us: np.ndarray,
    latencies_us: np.ndarray,
    filled: np.ndarray | None = None,
    extra: list[tuple[int, int, int]] | None = None,
) -> BackendLatency:
    """Feed misses of as many keys and their fills, in batches that close as the sampler's do.
    ``extra`` are more accesses: time, key, operation."""
    count = len(miss_times_us)
    filled = np.ones(count, bool) if filled is None else filled
    events = [(int(t), key, MISS) for key, t in enumerate(miss_times_us)]
    events += [
        (int(t + delay), key, WRITE)
        for key, (t, delay, is_filled) in enumerate(
            zip(miss_times_us, latencies_us, filled, strict=True)
        )
        if is_filled
    ]
    events = sorted(events + (extra or []))
    latency = BackendLatency()
    for batch in in_batches(events):
        latency.take(batch)
    return latency


def in_batches(events: list[tuple[int, int, int]]) -> list[Batch]:
    server = SampledServer()
    batches = []
    start = 0
    while start < len(events):
        end = start
        while end < len(events) and events[end][0] < events[start][0] + WINDOW_US:
            end += 1
        part = events[start:end]
        hashes = number_hashes(np.array([key for _, key, _ in part]), 0)
        times = np.array([at for at, _, _ in part])
        operations = [operation for _, _, operation in part]
        batches += map(decode_batch, server.batches(hashes, operations, 9, times_us=times))
        start = end
    return batches


def poisson(rate_per_second: float, count: int, seed: int = 1) -> np.ndarray:
    gaps = np.random.default_rng(seed).exponential(1e6 / rate_per_second, count)
    return np.cumsum(gaps)


def test_writes_that_come_by_chance_are_no_fills() -> None:
    """Written through, and not filled: a key is overwritten within a minute, or later."""
    told = measured(poisson(20.0, 3000), np.random.default_rng(2).uniform(0, 60e6, 3000))
    assert told.mean_seconds is None
    assert told.fill_ratio == 0


# At 30 a second few records are in a batch, and tell short latencies too.
@pytest.mark.parametrize(
    ("rate", "count", "error"), [(1.0, 2000, 0.15), (2000.0, 2000, 0.15), (30.0, 3000, 0.01)]
)
@pytest.mark.parametrize("mean_ms", [5, 200])
def test_sparse_and_dense_traffic_give_the_mean(
    rate: float, count: int, error: float, mean_ms: int
) -> None:
    latencies = np.random.default_rng(2).exponential(mean_ms * 1000, count)
    told = measured(poisson(rate, count), latencies)
    assert told.fill_ratio == 1
    assert told.mean_seconds == pytest.approx(latencies.mean() / 1e6, rel=error)


def test_time_in_a_queue_is_part_of_it() -> None:
    queue_us = 100_000
    told = measured(poisson(2000, 2000), np.full(2000, 20_000 + queue_us))
    assert told.mean_seconds == pytest.approx(0.12, rel=0.05)


def test_misses_that_are_never_filled_are_counted_but_left_out() -> None:
    filled = np.random.default_rng(3).random(4000) < 0.6
    times = poisson(100, 4000)
    later = [(int(times[-1] + 70e6), 10**6, MISS)]
    told = measured(times, np.full(4000, 80_000), filled, later)
    assert told.mean_seconds == pytest.approx(0.08, rel=0.05)
    assert told.fill_ratio == pytest.approx(filled.mean(), abs=0.005)


def test_nothing_is_told_when_hardly_any_miss_is_filled() -> None:
    filled = np.arange(4000) % 10 == 0
    times = poisson(100, 4000)
    told = measured(times, np.full(4000, 80_000), filled, [(int(times[-1] + 70e6), 10**6, MISS)])
    assert told.mean_seconds is None
    assert told.fill_ratio == pytest.approx(0.1, abs=0.01)


def test_a_write_from_elsewhere_makes_it_too_short() -> None:
    """The documented bias: half of the keys are updated 10 ms after their miss."""
    times = poisson(2000, 2000)
    updates = [(int(t + 10_000), key, WRITE) for key, t in enumerate(times) if key % 2]
    told = measured(times, np.full(2000, 100_000), extra=updates)
    assert told.mean_seconds == pytest.approx(0.055, rel=0.1)


def test_later_misses_of_one_key_wait_for_the_same_fill() -> None:
    times = np.arange(100) * 1e6
    again = [(int(t + 30_000), key, MISS) for key, t in enumerate(times)]
    told = measured(times, np.full(100, 90_000), extra=again)
    assert told.mean_seconds == pytest.approx(0.09, rel=0.01)


def test_waiting_misses_are_bounded() -> None:
    pairs = PythonFills(1e9, 4096)
    for start in range(0, 20_000, 500):
        keys = np.arange(start, start + 500, dtype=np.uint64)
        pairs.take(keys, np.full(500, MISS, np.uint8), keys * 100.0, 0.0)
    assert len(pairs._missed_at_us) <= 4096


def naive(batches: list[Batch]) -> tuple[list[float], int]:
    """Seconds from each first miss to the next write of its key, and the misses without one."""
    waiting: list[tuple[tuple[int, int], float]] = []
    fills, unfilled = [], 0
    for batch in batches:
        for record in batch.records:
            key = int(record["hash"]), int(record["db"])
            at = batch.first_time_us + int(record["time_us"])
            since = [t for other, t in waiting if other == key]
            if record["operation"] == MISS and not since:
                waiting.append((key, at))
            elif record["operation"] == WRITE and since:
                waiting.remove((key, since[0]))
                if at - since[0] > LONGEST_SECONDS * 1e6:
                    unfilled += 1
                else:
                    fills.append((at - since[0]) / 1e6)
        gone = [(key, t) for key, t in waiting if t < batch.last_time_us - LONGEST_SECONDS * 1e6]
        unfilled += len(gone)
        waiting = [one for one in waiting if one not in gone]
    return fills, unfilled


# Only hits arrive while the miss grows too old.
@example([(0, MISS, 0), (2, 1, 25_000), (2, 1, 25_000), (2, 1, 25_000)], 1)
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 8), st.sampled_from([1, MISS, MISS, WRITE, 4]), st.integers(0, 25_000)
        ),
        min_size=1,
        max_size=300,
    ),
    st.integers(1, 40),
)
def test_as_the_naive_twin(accesses: list[tuple[int, int, int]], batch_records: int) -> None:
    keys, operations, gaps_ms = np.array(accesses).T
    batches = [
        decode_batch(message)
        for message in SampledServer().batches(
            number_hashes(keys // 2, 0),
            operations,
            dbs=keys % 2,
            times_us=np.cumsum(gaps_ms) * 1000,
            batch_records=batch_records,
        )
        if len(decode_batch(message).records)
    ]
    told = BackendLatency()
    for batch in batches:
        told.take(batch)
    fills, unfilled = naive(batches)
    decided = len(fills) + unfilled
    if sum(fills) > 10 * len(fills):
        fills = []  # they come too late to be fills
    assert told.fill_ratio == (len(fills) / decided if decided else None)
    if len(fills) >= 30 and len(fills) >= 0.2 * decided:
        assert told.mean_seconds == pytest.approx(sum(fills) / len(fills))
    else:
        assert told.mean_seconds is None


@pytest.mark.parametrize("most", [3, 50, 2000])
def test_the_compiled_pairs_are_the_same(most: int) -> None:
    random = np.random.default_rng(most)
    compiled, twin = Fills(5000.0, most), PythonFills(5000.0, most)
    now, unfilled = 0.0, 0.0
    for batch in range(300):
        count = int(random.integers(0, 60))
        keys = random.integers(0, 2000, count).astype(np.uint64) << np.uint64(24)
        operations = random.choice([1, MISS, WRITE, 4], count, p=[0.2, 0.5, 0.2, 0.1])
        times = now + np.cumsum(random.exponential(20.0, count)) - 10
        now = float(times[-1]) if count else now
        taken = (keys, operations.astype(np.uint8), times, now)
        ours, theirs = compiled.take(*taken), twin.take(*taken)
        assert ours == pytest.approx(theirs, rel=1e-12)
        unfilled += ours.unfilled
        if batch % 50 == 49:
            compiled.clear()
            twin.clear()
    assert (unfilled > 0) == (most > 50)
