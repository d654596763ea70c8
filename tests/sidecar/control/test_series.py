"""What is said of reads now: counted over ten seconds at least, however short the cycles are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.control.series import Series
from tests.sidecar.monitored_load import STATS


@pytest.mark.parametrize(("cycle_seconds", "window_seconds"), [(60, 10), (600, 10), (3600, 60)])
def test_reads_are_those_of_ten_seconds_or_of_the_last_point_but_one(
    cycle_seconds: float, window_seconds: int
) -> None:
    """With cycles of a minute the status told the reads of one second: 14 where there were 330."""
    series = Series(cycle_seconds)
    hits = {at: 100 * at if at < 300 else 30_000 + 50 * (at - 300) for at in range(600)}
    for at in range(600):
        reading = replace(STATS, keyspace_hits=hits[at], keyspace_misses=10 * at, at_seconds=at)
        series.take_readings(at, {"a": reading}, None, {})
        if at % window_seconds == 0 and at >= window_seconds:
            seen = hits[at] - hits[at - window_seconds]
            reads = seen + 10 * window_seconds
            assert series.reads_per_second["a"] == pytest.approx(reads / window_seconds)
            assert series.hit_ratios["a"] == pytest.approx(seen / reads)


def test_another_process_counts_from_its_own_beginning() -> None:
    series = Series(60)
    for at in range(20):
        run_id = "old" if at < 15 else "new"
        since = at if at < 15 else at - 15
        reading = replace(STATS, run_id=run_id, keyspace_hits=30 * since, at_seconds=at)
        series.take_readings(at, {"a": reading}, None, {})
        if at not in (0, 15):
            assert series.reads_per_second["a"] == pytest.approx(30)
        else:
            assert "a" not in series.reads_per_second
