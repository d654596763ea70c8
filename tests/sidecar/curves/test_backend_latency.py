"""Backend latency: right where it can be, and biased where the docstring says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.curves.backend_latency import LONGEST_SECONDS, BackendLatency, Fills
from sidecar.samples.batch import Batch, decode_batch
from tests.oracles.fills import Fills as PythonFills
from workloads.sample_batches import SampledServer, number_hashes

HIT, MISS, WRITE = 1, 2, 3
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


def written_through(
    seconds: float, fill_ms: float | None, *, share_read: float = 1.0, seed: int = 3
) -> BackendLatency:
    """3,000 keys, each written once in so many seconds on average, whatever is read; a third of the
    reads miss, and are filled after so long, or not at all."""
    random = np.random.default_rng(seed)
    until_us, keys = 180e6, 3000
    events = []
    for key in range(keys):
        for at in np.cumsum(random.exponential(seconds * 1e6, int(400 / seconds) + 5)):
            if at < until_us:
                events.append((int(at), key, WRITE))
    for at in np.sort(random.uniform(0, until_us, 30_000)):
        key, is_miss = int(random.integers(keys)), random.random() < 1 / 3
        events.append((int(at), key, MISS if is_miss else HIT))
        if is_miss and fill_ms is not None and random.random() < share_read:
            events.append((int(at + random.exponential(fill_ms * 1000)), key, WRITE))
    latency = BackendLatency()
    for batch in in_batches(sorted(events)):
        latency.take(batch)
    return latency


@pytest.mark.parametrize("seconds", [1.0, 4.0, 30.0])
def test_keys_that_are_written_through_have_no_measured_backend(seconds: float) -> None:
    """Not filled at all: a missed key is written no sooner than one that was hit."""
    told = written_through(seconds, None)
    assert told.mean_seconds is None
    assert told.chance_ratio > 0.3


@pytest.mark.parametrize("share_filled", [1.0, 0.5])
def test_fills_are_measured_beside_writes_by_chance(share_filled: float) -> None:
    """Half of the misses are filled after 20 ms, the others overwritten after seconds."""
    told = written_through(4.0, 20.0, share_read=share_filled)
    assert told.mean_seconds == pytest.approx(0.02, rel=0.2)
    assert told.fill_ratio == pytest.approx(share_filled, abs=0.05)
    assert told.chance_ratio == pytest.approx(1 - share_filled, abs=0.05)


def read_aside(latency: BackendLatency, from_us: int, *, hits: int, fills: int) -> None:
    """Hits that nobody writes, and misses that are filled after 20 ms; then two minutes pass."""
    events = [(from_us + at * 1000, at, HIT) for at in range(hits)]
    for at in range(hits, hits + fills):
        events += [(from_us + at * 1000, at, MISS), (from_us + at * 1000 + 20_000, at, WRITE)]
    events.append((from_us + 120_000_000, 10**6, HIT))
    for batch in in_batches(sorted(events)):
        latency.take(batch)


def test_what_was_sure_stays_known_where_nothing_can_be_measured() -> None:
    """A client hid the latency of his server by writing keys that hit: it kept all that it had."""
    latency = BackendLatency()
    read_aside(latency, 0, hits=2000, fills=1000)
    assert latency.mean_seconds == pytest.approx(0.02, rel=0.01)
    latency.decay(0.5)
    # Written as late, whether they hit or missed.
    events = []
    for at in range(20_000):
        began = 200_000_000 + at * 1000
        events += [(began, 10_000 + at, HIT), (began + 20_000, 10_000 + at, WRITE)]
        events += [(began, 50_000 + at, MISS), (began + 20_000, 50_000 + at, WRITE)]
    for batch in in_batches(sorted(events)):
        latency.take(batch)
    assert latency.chance_ratio > 0.3
    assert latency.mean_seconds == pytest.approx(0.02, rel=0.01)
    latency.decay(0.0)
    assert latency.mean_seconds is None


def test_who_misses_no_more_has_the_latency_that_it_had() -> None:
    latency = BackendLatency()
    read_aside(latency, 0, hits=2000, fills=1000)
    for _ in range(20):
        latency.decay(0.5)
    assert latency.mean_seconds == pytest.approx(0.02, rel=0.01)


def test_what_is_measured_before_hits_are_decided_is_not_sure() -> None:
    """Of a server that is written through, all that is known at first is what misses say."""
    latency = BackendLatency()
    events = [(at * 1000, at, MISS) for at in range(1000)]
    events += [(8_000_000 + at * 1000, at, WRITE) for at in range(1000)]
    for batch in in_batches(sorted(events)):
        latency.take(batch)
    assert latency.mean_seconds == pytest.approx(8.0, rel=0.01)
    for _ in range(20):
        latency.decay(0.5)
    assert latency.mean_seconds is None


@given(st.lists(st.floats(0, 1e6), min_size=27, max_size=27), st.floats(0.01, 1.0))
def test_no_share_is_above_one_however_counts_have_faded(counts: list[float], fade: float) -> None:
    """An observation with 1.0000000000000002 was refused, and no plan was made."""
    told = BackendLatency()
    told.fills.waits[0, 0] = counts
    told.decay(fade)
    assert told.fill_ratio is None or 0 <= told.fill_ratio <= 1
    assert 0 <= told.chance_ratio <= 1


def test_what_is_written_back_after_each_hit_has_a_backend() -> None:
    """A session that is read and written at once; a miss asks the backend first."""
    random, events = np.random.default_rng(4), []
    for at in np.cumsum(random.exponential(20_000, 20_000)):
        key, is_miss = int(random.integers(2000)), random.random() < 0.2
        later = random.exponential(80_000) if is_miss else 400
        events += [(int(at), key, MISS if is_miss else HIT), (int(at + later), key, WRITE)]
    latency = BackendLatency()
    for batch in in_batches(sorted(events)):
        latency.take(batch)
    assert latency.mean_seconds == pytest.approx(0.08, rel=0.1)


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
        pairs.take(keys, np.full(500, MISS, np.uint8), keys * 100.0, 2e6)
    assert len(pairs) <= 4096


@pytest.mark.parametrize("ahead_us", [0.0, 1e15])
def test_a_miss_of_another_time_does_not_keep_what_comes_after_it(ahead_us: float) -> None:
    """Whoever writes the times of samples had the queue grow by 16 bytes for each later one: one
    miss that nobody fills, in the future or at a time that stands still."""
    pairs = Fills(1e9, 8)
    first = np.array([1], np.uint64)
    pairs.take(first, np.array([MISS], np.uint8), np.array([1e6 + ahead_us]), 1e6 + ahead_us)
    keys = np.arange(2, 1002, dtype=np.uint64).repeat(2)
    operations = np.tile(np.array([MISS, WRITE], np.uint8), 1000)
    pairs.take(keys, operations, np.full(2000, 1e6), 1e6)
    written = pairs.waits[0, 0].sum()
    pairs.take(first, np.array([WRITE], np.uint8), np.array([1e6]), 1e6)
    assert written == pairs.waits[0, 0].sum() == 1000


Waits = list[tuple[float, bool]]


def naive(batches: list[Batch]) -> tuple[Waits, Waits]:
    """Return seconds from each first miss, and from each first hit of one key in eight, until it
    ended, and whether a write ended it; ``inf`` of those that lasted too long."""
    ended: tuple[Waits, Waits] = ([], [])
    waiting: tuple[dict[int, float], dict[int, float]] = ({}, {})
    longest_us = LONGEST_SECONDS * 1e6
    for batch in batches:
        for key, operation, at in zip(batch.ids, batch.operations, batch.times_us, strict=True):
            begins = (operation == MISS, operation == HIT and not int(key) >> 45 & 7)
            ends = (operation == WRITE, operation != HIT)
            for kind in (0, 1):
                if ends[kind] and key in waiting[kind]:
                    waited = at - waiting[kind].pop(key)
                    in_time = waited <= longest_us
                    waited = waited / 1e6 if in_time else np.inf
                    ended[kind].append((waited, bool(operation == WRITE and in_time)))
                if begins[kind]:
                    waiting[kind].setdefault(key, at)
        for kind in (0, 1):
            for key, at in list(waiting[kind].items()):
                if at < batch.last_time_us - longest_us:
                    del waiting[kind][key]
                    ended[kind].append((np.inf, False))
    return ended


def naive_fills(misses: Waits, hits: Waits) -> list[float]:
    """Return seconds of those writes after misses that chance does not explain."""
    fills, is_late = [], False
    for octave in range(27):
        low, high = (2**octave / 1e6 if octave else 0.0, 2 ** (octave + 1) / 1e6)
        written = [waited for waited, is_write in misses if is_write and low <= waited < high]
        risk, hit_risk = (sum(waited >= low for waited, _ in waits) for waits in (misses, hits))
        by_chance = sum(is_write and low <= waited < high for waited, is_write in hits)
        expected = by_chance * risk / max(1, hit_risk)
        if expected > 0.2 * len(written):
            is_late |= by_chance >= 5 and len(written) >= 0.2 * expected
        elif not is_late:
            fills += written
    return [] if sum(fills) > 10 * len(fills) else fills


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
    misses, hits = naive(batches)
    fills, decided = naive_fills(misses, hits), len(misses)
    assert told.fill_ratio == (len(fills) / decided if decided else None)
    if len(fills) >= 30 and len(fills) >= 0.2 * decided:
        assert told.mean_seconds == pytest.approx(sum(fills) / len(fills))
    else:
        assert told.mean_seconds is None


@pytest.mark.parametrize("most", [3, 50, 2000])
def test_the_compiled_pairs_are_the_same(most: int) -> None:
    random = np.random.default_rng(most)
    compiled, twin = Fills(5000.0, most), PythonFills(5000.0, most)
    now = 0.0
    for batch in range(300):
        count = int(random.integers(0, 60))
        keys = random.integers(0, 2000, count).astype(np.uint64) << np.uint64(40)
        operations = random.choice([1, MISS, WRITE, 4], count, p=[0.2, 0.5, 0.2, 0.1])
        times = now + np.cumsum(random.exponential(20.0, count)) - 10
        now = float(times[-1]) if count else now
        if batch % 20 == 19:
            times[count // 2 :] += 1e7  # a clock that was wrong for a moment
        taken = (keys, operations.astype(np.uint8), times, now)
        compiled.take(*taken)
        twin.take(*taken)
        assert compiled.waits == pytest.approx(twin.waits, rel=1e-12)
        if batch % 50 == 49:
            compiled.clear()
            twin.clear()
    assert (twin.waits[0, 2].sum() > 5) == (most > 50)
    assert (twin.waits[1, 0].sum() > 10) == (most > 50)
