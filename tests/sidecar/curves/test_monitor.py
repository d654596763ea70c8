"""The monitor against exact LRU caches, and with servers that restart, refuse or lose batches."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.base.metrics import Metrics
from sidecar.curves.decaying_counts import CYCLE, HALF_LIVES, HalfLife
from sidecar.curves.estimate import Estimate
from sidecar.curves.guarded_monitor import MOST_RATE, GuardedMonitor
from sidecar.curves.monitor import CYCLE_SECONDS, ServerMonitor
from sidecar.samples.batch import Batch
from sidecar.samples.wire_format import DEFAULT_MODULUS as MODULUS
from sidecar.servers.connection.reading_window import ReadingWindow
from sidecar.servers.connection.server_reading import ServerReading
from tests.sidecar.fixtures import LoadNode
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


def estimate(
    taken: list[Batch],
    stats: ServerReading = STATS,
    after: ServerReading | None = None,
    live_objects: int | None = 8192,
    window: ReadingWindow | None = None,
) -> Estimate:
    monitor = monitor_of(stats, live_objects=live_objects)
    take(monitor, taken)
    return observed(monitor, after or later(stats), BUDGET, window=window)


def test_exact_when_everything_is_sampled() -> None:
    keys = zipf(3000, 30_000)
    curve = estimate(batches(keys)).curve
    for objects in (10, 100, 1000, 3000):
        size = BASELINE + objects * (SIZE + OVERHEAD)
        exact = lru_miss_ratio(keys, objects)
        # A bucket is 1.1 % wide: between the exact values at its two ends.
        ends = (round(objects * 1.02 + 1), round(objects * 0.98 - 1))
        low, high = (lru_miss_ratio(keys, end) for end in ends)
        assert low - 3e-4 <= float(curve.miss_ratio(size)) <= high + 3e-4, exact


def test_mean_error_of_a_tenth_of_the_objects_is_small_and_is_foretold() -> None:
    keys = zipf(40_000, 300_000)
    # The server holds 5,000 objects: the first size is a tenth of that.
    sizes = np.array([500, *np.linspace(2000, 40_000, 12).astype(int)])
    exact = np.array([lru_miss_ratio(keys, size) for size in sizes])
    at = BASELINE + sizes * (SIZE + OVERHEAD)
    errors, worst, foretold = [], [], []
    for salt in range(3):
        told = estimate(batches(keys, SampledServer(threshold=MODULUS // 8, salt=salt)))
        off = np.abs(told.raw_curve.miss_ratio(at) - exact)
        errors.append(off[1:].mean())
        worst.append(off.max())
        foretold.append(told.curve_error_ratio)
    assert np.median(errors) < 0.008
    # Before any window showed how far off its prediction was, 0.05 is taken for that.
    assert np.median(worst) / 2 < np.median(foretold) < 0.06


def test_curve_reaches_the_budget_and_is_one_at_the_baseline() -> None:
    curve = estimate(batches(zipf(100, 1000))).curve
    assert curve.sizes_bytes[0] == BASELINE
    assert curve.miss_ratio(BASELINE) == 1
    assert curve.sizes_bytes[-1] == BUDGET


def test_lost_batches_do_not_look_like_hits() -> None:
    taken = batches(zipf(3000, 30_000), batch_records=100)
    whole = estimate(taken).raw_curve
    half = estimate([b for b in taken if b.sequence % 4 < 2]).raw_curve
    grid = np.linspace(BASELINE, 2 * BASELINE, 20)
    assert np.mean(np.abs(half.miss_ratio(grid) - whole.miss_ratio(grid))) < 0.05


def test_anchored_at_what_the_server_reports_when_it_is_full() -> None:
    taken = batches(zipf(20_000, 20_000))
    raw = estimate(taken).raw_curve.miss_ratio(STATS.maxmemory_bytes)
    told = estimate(taken, after=later(STATS, hits=500, misses=500))
    assert told.miss_ratio == 0.5
    assert raw != pytest.approx(0.5, abs=0.05)
    assert told.curve.miss_ratio(STATS.maxmemory_bytes) == pytest.approx(0.5, abs=0.01)
    half_empty = replace(later(STATS, hits=500, misses=500), counted_bytes=1_500_000)
    half_empty = replace(half_empty, keys=2500)
    told = estimate(taken, after=half_empty)
    assert told.curve.miss_ratio(STATS.maxmemory_bytes) == pytest.approx(raw, abs=1e-6)


def test_a_server_that_is_not_full_and_does_not_fill_refutes_its_curve_as_well() -> None:
    """Fields that expire take their hashes with them, and no sampler tells: the stack still has
    keys that the server has not, and it misses where its curve says that all would fit."""
    taken = batches(zipf(20_000, 20_000))
    half = replace(STATS, counted_bytes=1_500_000, keys=2500)
    told = estimate(taken, half, later(half, hits=200, misses=800))
    raw = float(told.raw_curve.miss_ratio(STATS.maxmemory_bytes))
    assert told.curve_error_ratio == pytest.approx(0.8 - raw, abs=0.01)
    assert told.curve_error_ratio > 0.3
    assert told.curve.miss_ratio(STATS.maxmemory_bytes) == pytest.approx(0.8, abs=0.01)
    assert told.curve.miss_ratio(BUDGET) > 0.5
    # One that fills misses what it will have soon.
    filling = replace(later(half, hits=200, misses=800), keys=3000, counted_bytes=1_800_000)
    assert estimate(taken, half, filling).curve_error_ratio < 0.2


def test_overhead_of_a_key_is_learned_from_the_server() -> None:
    stats = replace(STATS, keys=2000, counted_bytes=BASELINE + 2000 * (SIZE + 120))
    keys = zipf(2000, 20_000)
    curve = estimate(batches(keys), stats, later(stats)).curve
    size = BASELINE + 1000 * (SIZE + 120)
    assert float(curve.miss_ratio(size)) == pytest.approx(lru_miss_ratio(keys, 1000), abs=0.005)


def test_what_info_accounts_for_twice_is_not_taken_from_the_keys() -> None:
    """A module's commands while it loads are in the server's figure at startup, and their
    histograms in its commands' as well: an empty server counts less than its baseline."""
    empty = replace(STATS, keys=0, counted_bytes=STATS.baseline_bytes - 47_000)
    filled = replace(STATS, keys=500, counted_bytes=empty.counted_bytes + 500 * (SIZE + 120))
    monitor = ServerMonitor("one")
    monitor.observe(empty, BUDGET)
    assert monitor.calibration.empty_bytes(STATS.baseline_bytes) == empty.counted_bytes
    monitor.observe(filled, BUDGET)
    assert monitor.calibration.object_bytes == SIZE + 120


def test_few_small_keys_after_few_large_ones_leave_the_server_a_size_of_its_own() -> None:
    """Three scripts of a MiB look like six keys until INFO accounts for them; taking six such keys
    from an empty server's memory left it less than none, and no curve could be made."""
    monitor = ServerMonitor("one")
    more = 3 << 20
    readings = [
        replace(STATS, keys=6, counted_bytes=STATS.baseline_bytes + more),
        replace(
            STATS,
            keys=50,
            baseline_bytes=STATS.baseline_bytes + more,
            counted_bytes=STATS.baseline_bytes + more + 50 * 2_200,
            at_seconds=STATS.at_seconds + 10,
        ),
    ]
    for reading in readings:
        told = monitor.observe(reading, BUDGET)
    assert told is not None
    least = told.curve.sizes_bytes[0]
    assert least == pytest.approx(readings[-1].baseline_bytes, abs=200_000)


@given(
    st.lists(
        st.tuples(st.integers(0, 1_000), st.integers(0, 1 << 25), st.integers(700_000, 1 << 24)),
        min_size=1,
        max_size=6,
    )
)
def test_no_readings_leave_a_server_less_than_no_memory(
    readings: list[tuple[int, int, int]],
) -> None:
    monitor = ServerMonitor("one")
    for step, (keys, counted, baseline) in enumerate(readings):
        reading = replace(
            STATS,
            keys=keys,
            counted_bytes=counted,
            baseline_bytes=baseline,
            at_seconds=STATS.at_seconds + step,
        )
        told = monitor.observe(reading, BUDGET)
        assert told is None or 0 <= told.curve.sizes_bytes[0] <= BUDGET
        assert monitor.calibration.keys_bytes >= 0


def test_memory_that_is_still_being_freed_is_not_that_of_the_keys() -> None:
    """FLUSHALL gives a large server's memory back for seconds or minutes; what is read meanwhile
    would be what an empty server takes, or what a few new keys do."""
    monitor = monitor_of(STATS)
    take(monitor, batches(zipf(3000, 20_000)))
    monitor.observe(later(STATS), BUDGET)
    known = vars(monitor.calibration).copy()
    for keys in (0, 20, 1000):
        flushed = replace(later(STATS), keys=keys, freeing_objects=2_000)
        monitor.observe(flushed, BUDGET)
        assert vars(monitor.calibration) == known


def test_what_subscribers_took_is_not_kept_from_the_keys() -> None:
    """Ten thousand channels of a server without keys looked like what it always takes."""
    monitor = ServerMonitor("one")
    channels = replace(STATS, keys=0, counted_bytes=STATS.baseline_bytes + 10_000_000)
    monitor.observe(channels, BUDGET)
    filled = replace(STATS, keys=50_000, counted_bytes=STATS.baseline_bytes + 50_000 * 160)
    monitor.observe(filled, BUDGET)
    assert monitor.calibration.object_bytes == pytest.approx(160, rel=0.01)


def test_windows_go_on_from_each_other() -> None:
    """Two windows of one load tell what one window twice as long tells: recency is kept."""
    taken = batches(zipf(3000, 20_000), batch_records=500)
    monitor = ServerMonitor("one")
    monitor.calibration.overhead_bytes = OVERHEAD
    monitor.observe(STATS, BUDGET)
    stats, told = STATS, None
    for part in (taken[:40], taken[40:]):
        take(monitor, part)
        assert monitor.samples_since_observation == sum(len(b.records) for b in part)
        stats = later(stats, hits=10)
        told = monitor.observe(stats, BUDGET)
        assert monitor.samples_since_observation == 0
    assert told is not None
    grid = np.linspace(BASELINE, 2 * BASELINE, 20)
    assert told.curve.miss_ratio(grid) == pytest.approx(
        estimate(taken).curve.miss_ratio(grid), abs=1e-9
    )


def test_old_load_fades_with_its_half_life() -> None:
    """That of a cycle, whatever steps the time comes in."""
    monitor = ServerMonitor("one", cycle_seconds=100)
    monitor.observe(STATS, BUDGET)
    hashes = number_hashes(np.tile(np.arange(300), 30), 0)
    take(monitor, SampledServer().batches(hashes, 1, SIZE))
    monitor.step(1)
    before = monitor.counts.histogram.reads.by(CYCLE)
    assert before > 5000
    for seconds in (300, *[10] * 40):
        monitor.step(seconds)
    assert monitor.counts.histogram.reads.by(CYCLE) == pytest.approx(before / 2**7)


def test_restarted_server_starts_with_an_empty_stack() -> None:
    monitor = ServerMonitor("one")
    monitor.observe(STATS, BUDGET)
    for instance in (1, 2):
        take(monitor, batches(np.arange(50), SampledServer(instance=instance)))
    assert monitor.counts.histogram.miss_ratios()[-1] == 1
    assert monitor.observe(replace(later(STATS), instance=2), BUDGET) is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"role": "slave"}, "no_eviction"),
        ({"maxmemory_policy": "noeviction"}, "no_eviction"),
        ({"maxmemory_policy": "volatile-ttl", "keys_with_ttl": 5000}, "no_model"),
    ],
)
def test_servers_that_are_no_targets_say_why(change: dict[str, object], code: str) -> None:
    stats = replace(STATS, **change)  # type: ignore[arg-type]
    reason = estimate(batches(zipf(100, 1000)), stats).keep_reason
    assert reason is not None
    assert reason.startswith(code + ":")


def test_a_server_without_samples_is_kept() -> None:
    assert estimate([]).miss_ratio is None
    told = estimate([], after=later(STATS, hits=99, misses=1))
    assert told.keep_reason is not None
    assert told.keep_reason.startswith("few_samples:")
    assert told.miss_ratio == 0.01


def test_a_curve_that_the_server_contradicts_says_how_far_off_it_is() -> None:
    """The planner keeps a server's size if that is too much (``size_ranges``)."""
    taken = batches(zipf(20_000, 20_000))
    told = estimate(taken, after=later(STATS, hits=900, misses=100))
    raw = float(told.raw_curve.miss_ratio(STATS.maxmemory_bytes))
    assert told.curve_error_ratio == pytest.approx(raw - 0.1, abs=0.01)
    assert told.curve_error_ratio > 0.15


@pytest.mark.parametrize("since_reset", [(90, 10), (3000, 1000)])
def test_reads_are_counted_although_the_counters_were_put_back(
    since_reset: tuple[int, int],
) -> None:
    """CONFIG RESETSTAT in the window; its counts may even be above those of before."""
    before = replace(STATS, keyspace_hits=200, keyspace_misses=50)
    monitor = monitor_of(before)
    take(monitor, batches(zipf(3000, 30_000)))
    hits, misses = since_reset
    after = replace(later(before), keyspace_hits=hits, keyspace_misses=misses)
    told = observed(monitor, after)
    assert told.request_rate_per_second == pytest.approx(3000, rel=0.01)
    assert told.miss_ratio == pytest.approx(misses / (hits + misses), abs=0.001)


def test_a_few_big_values_are_keys_and_not_the_server_itself() -> None:
    size = 160_000
    stats = replace(
        STATS, keys=150, maxmemory_bytes=32_000_000, counted_bytes=BASELINE + 150 * size
    )
    monitor = monitor_of(stats)
    keys = zipf(150, 3000, exponent=0.3)
    hashes = np.repeat(number_hashes(keys, 0), 2)
    operations, sizes = np.tile([2, 3], len(keys)), np.tile([0, size], len(keys))
    take(monitor, SampledServer().batches(hashes, operations, sizes))
    told = observed(monitor, later(stats))
    for objects in (50, 100, 140):
        exact = lru_miss_ratio(keys, objects)
        assert float(told.curve.miss_ratio(BASELINE + objects * size)) == pytest.approx(
            exact, abs=0.02
        )


def test_order_of_servers_does_not_matter() -> None:
    streams = {i: batches(zipf(500, 4000, seed=i), SampledServer(instance=i)) for i in range(1, 4)}
    curves = []
    for order in ((1, 2, 3), (3, 1, 2)):
        monitors = {i: ServerMonitor(str(i)) for i in order}
        for place in range(len(streams[1])):
            for i in order:
                if place < len(streams[i]):
                    monitors[i].take(streams[i][place])
        curves.append([monitors[i].counts.histogram.miss_ratios() for i in (1, 2, 3)])
    assert np.array_equal(*curves)


def test_a_server_that_is_hardly_read_is_not_kept_for_want_of_samples() -> None:
    monitor = monitor_of(STATS)
    stats = later(STATS)
    told = observed(monitor, stats)
    assert told.keep_reason is None  # nobody reads it
    stats = later(stats, hits=50)
    told = observed(monitor, stats)
    assert (told.keep_reason or "").startswith("few_samples:")
    take(monitor, batches(zipf(1000, 5000)))
    monitor.step(1)
    monitor.step(20 * CYCLE_SECONDS)  # what was known long ago
    stats = later(stats, hits=50)
    told = observed(monitor, stats)
    assert told.keep_reason is None


@pytest.mark.parametrize(("writes", "is_kept"), [(500, True), (9, False), (0, False)])
def test_a_server_that_is_written_and_not_read_is_kept(writes: int, is_kept: bool) -> None:
    """A store of single-use keys, or of counters, is never read; who sleeps is not written."""
    monitor = monitor_of(STATS)
    take(monitor, batches(zipf(3000, 30_000)))
    first = later(STATS, hits=20_000, misses=10_000)
    observed(monitor, first, BUDGET)
    after = replace(later(first), writes=first.writes + writes)
    reason = observed(monitor, after, BUDGET).keep_reason or ""
    assert reason.startswith("few_samples: 0 reads beside 500 writes") == is_kept


def test_what_was_counted_goes_on_fading_after_the_clock_was_put_back() -> None:
    monitor = monitor_of(STATS)
    server = SampledServer()
    (first,) = batches(zipf(100, 100), server)
    hour_us, year_us = 3600 * 1_000_000, 365 * 86400 * 1_000_000
    monitor.take(first)
    ahead = dataclasses.replace(
        first,
        sequence=first.sequence + 1,
        first_time_us=first.last_time_us + year_us,
        last_time_us=first.last_time_us + year_us,
        records=first.records[:0],
    )
    monitor.take(ahead)
    back = dataclasses.replace(
        first, sequence=first.sequence + 2, seen_reads=first.seen_reads + 100
    )
    monitor.take(back)
    before = monitor.counts.histogram.reads.by(CYCLE)
    for hours in range(1, 11):
        monitor.step(3600)
        later_us = first.last_time_us + hours * hour_us
        monitor.take(
            dataclasses.replace(
                back,
                sequence=back.sequence + hours,
                first_time_us=later_us,
                last_time_us=later_us,
                records=first.records[:0],
            )
        )
    assert monitor.counts.histogram.reads.by(CYCLE) < before / 500


def test_a_curve_is_of_the_usual_memory_beside_the_keys_and_says_how_far_that_swings() -> None:
    keys = zipf(3000, 30_000)
    steady = estimate(batches(keys))
    spike = 1_000_000
    stats = dataclasses.replace(
        later(STATS),
        baseline_bytes=STATS.baseline_bytes + spike,
        counted_bytes=STATS.counted_bytes + spike,
    )
    moment, often = ReadingWindow(), ReadingWindow()
    for reading in (*[STATS] * 99, stats):
        moment.add(reading)
    for reading in (*[STATS] * 60, *[stats] * 40):
        often.add(reading)
    alone = estimate(batches(keys), after=stats)
    known = estimate(batches(keys), after=stats, window=moment)
    swings = estimate(batches(keys), after=stats, window=often)
    size = BASELINE + 1000 * (SIZE + OVERHEAD)
    exact = float(steady.curve.miss_ratio(size))
    assert abs(float(alone.curve.miss_ratio(size)) - exact) > 0.2
    assert float(known.curve.miss_ratio(size)) == pytest.approx(exact, abs=0.01)
    # A moment changes little of what a window misses: buffers of a stranger's burst kept a server
    # from being given another size.
    assert swings.curve_error_ratio > 0.1 > known.curve_error_ratio >= steady.curve_error_ratio


# --- What a monitor tells by a half-life, and not of the last window.


def test_before_a_step_is_over_the_last_window_is_told_whatever_the_memory() -> None:
    stats = later(STATS, hits=2000, misses=1000)
    told = []
    for half_life in (None, HALF_LIVES[0]):
        monitor = monitor_of(STATS)
        take(monitor, batches(zipf(3000, 3000)))
        told.append(monitor.observe(stats, BUDGET, half_life=half_life))
    last, remembered = told
    assert last is not None
    assert remembered is not None
    assert remembered.request_rate_per_second == last.request_rate_per_second > 0
    grid = np.linspace(BASELINE, 2 * BASELINE, 20)
    assert np.array_equal(remembered.curve.miss_ratio(grid), last.curve.miss_ratio(grid))


def test_a_memory_tells_its_own_rate_and_a_curve_with_a_margin() -> None:
    monitor = monitor_of(STATS)
    taken = batches(zipf(3000, 30_000))
    take(monitor, taken)
    monitor.step(CYCLE_SECONDS / 12)
    monitor.step(CYCLE_SECONDS / 12)  # of silence
    (short, _), (_, long) = HALF_LIVES[0], HALF_LIVES[-1]
    told = observed(monitor, later(STATS), BUDGET, half_life=HalfLife(short, long))
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
            take(monitor, batches(part))
            monitor.step(CYCLE_SECONDS / 12)
        known_bytes.append(monitor.shards.stack.total_weight / monitor.shards.rate)
        stats = later(STATS, seconds=number * CYCLE_SECONDS, misses=number * len(cycle))
        told = monitor.observe(stats, budget_bytes, half_life=HALF_LIVES[0])
    assert min(known_bytes) > 1.5 * budget_bytes  # they do come back
    assert monitor.counts.growth_margin.growth_ratio == 0
    assert told is not None
    assert told.curve_error_ratio < 0.1


# --- A server whose figures cannot be computed with begins anew, and ends nothing.


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def monitor(load_node: LoadNode, metrics: Metrics) -> GuardedMonitor:
    return GuardedMonitor("s0", load_node({"s0": "redis://localhost:1"}), metrics)


def test_it_begins_anew_after_what_it_cannot_compute_with(
    monitor: GuardedMonitor, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monitor.observe(STATS, BUDGET)
    take(monitor, batches(zipf(300, 3000)))
    assert len(monitor.shards) > 0
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(ServerMonitor, "_tend_stack", lambda *_: 1 / 0)
        assert monitor.observe(later(STATS), BUDGET) is None
    assert metrics.value("monitors_begun_anew") == 1
    assert "server s0: its curve begins anew" in caplog.text
    assert len(monitor.shards) == 0
    monitor.observe(STATS, BUDGET)
    take(monitor, batches(zipf(300, 3000)))
    monitor.step(60.0)
    assert monitor.observe(later(STATS), BUDGET) is not None
    assert metrics.value("monitors_begun_anew") == 1


def test_another_role_begins_another_curve(monitor: GuardedMonitor) -> None:
    """What a replica served says nothing of a primary."""
    monitor.observe(STATS, BUDGET)
    take(monitor, batches(zipf(300, 3000)))
    assert len(monitor.shards) > 0
    assert monitor.observe(replace(later(STATS), role="slave"), BUDGET) is None
    assert len(monitor.shards) == 0


def test_a_rate_that_nobody_serves_is_no_estimate(
    monitor: GuardedMonitor, metrics: Metrics
) -> None:
    monitor.observe(STATS, BUDGET)
    hits = STATS.keyspace_hits + round(MOST_RATE * 1e5)
    assert monitor.observe(replace(later(STATS), keyspace_hits=hits), BUDGET) is None
    assert metrics.value("monitors_begun_anew") == 1


def test_one_batch_stands_for_no_more_reads_than_can_be(
    monitor: GuardedMonitor, metrics: Metrics
) -> None:
    monitor.observe(STATS, BUDGET)
    first, *others = batches(zipf(300, 3000))
    monitor.take(first)
    for place, batch in enumerate(others):
        monitor.take(replace(batch, seen_reads=(2**64 - 1) * (place % 2)))
    found = monitor.observe(later(STATS), BUDGET)
    assert found is None or found.request_rate_per_second <= MOST_RATE
