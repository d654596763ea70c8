"""What a server that does not fill its memory needs at most, and gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.curves.served_reads import ServedReads
from sidecar.curves.unfilled_memory import UnfilledMemory, at_most_from, level_from
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.curve import MissRatioCurve
from tests.sidecar.monitored_load import STATS

MB = 1 << 20
CYCLE = 3600.0


def looks(*readings: ServerReading) -> UnfilledMemory:
    unfilled = UnfilledMemory()
    previous = None
    for reading in readings:
        unfilled.take_reading(previous, reading)
        previous = reading
    return unfilled


def at(minutes: float, used_mb: float, *, size_mb: int = 40, keys: int = 1000) -> ServerReading:
    return replace(
        STATS,
        at_seconds=60 * minutes,
        counted_bytes=round(used_mb * MB),
        maxmemory_bytes=size_mb * MB,
        keys=keys,
    )


def test_a_server_that_holds_as_much_for_a_cycle_needs_the_most_of_it() -> None:
    unfilled = looks(at(0, 6), at(20, 6.2), at(40, 6.1), at(60, 6))
    assert unfilled.enough_bytes(3600.0, CYCLE) == round(6.2 * MB)
    assert unfilled.enough_bytes(3599.0, CYCLE) is None


@pytest.mark.parametrize(("most_mb", "enough_mb"), [(6.2, 6.2), (24, None), (40, None)])
def test_a_job_that_came_and_went_between_two_looks_counts(
    most_mb: float, enough_mb: float | None
) -> None:
    """Empty at both ends of each window, and 24 MiB of keys were read in between."""
    unfilled, readings = UnfilledMemory(), [at(0, 6), at(30, 6), at(70, 6)]
    for previous, reading in pairwise(readings):
        unfilled.take_reading(previous, reading, round(most_mb * MB))
    assert unfilled.enough_bytes(4200.0, CYCLE) == (enough_mb and round(enough_mb * MB))


def test_another_size_that_it_does_not_fill_changes_nothing() -> None:
    readings = (at(0, 6), at(30, 6, size_mb=20), at(70, 6, size_mb=15))
    assert looks(*readings).enough_bytes(4200.0, CYCLE) == 6 * MB


@pytest.mark.parametrize(
    "readings",
    [
        (at(0, 6),),
        (at(0, 6), at(20, 6), at(40, 6)),
        (at(0, 39), at(30, 39), at(70, 39)),  # full
        (at(0, 6), at(30, 7), at(70, 7)),  # it fills
        (at(0, 6), at(30, 5), at(70, 5)),
        (at(0, 6), at(30, 6, size_mb=6), at(70, 6, size_mb=6)),
        (at(0, 6, size_mb=6), at(30, 6), at(70, 6, size_mb=6)),
        (at(0, 6), at(30, 6, keys=2000), at(70, 6, keys=2000)),
        (at(0, 6), at(30, 6), replace(at(70, 6), evicted_keys=1)),  # full when nobody looked
        (at(0, 6), replace(at(30, 6), instance=2), replace(at(70, 6), instance=2)),
        (at(0, 6, size_mb=0), at(70, 6, size_mb=0)),
    ],
)
def test_of_others_it_is_not_known(readings: tuple[ServerReading, ...]) -> None:
    assert looks(*readings).enough_bytes(readings[-1].at_seconds, CYCLE) is None


def test_it_is_known_again_a_cycle_after_it_changed() -> None:
    readings = [at(0, 6), at(60, 6), at(70, 9), at(100, 9), at(130, 9)]
    assert looks(*readings[:2]).enough_bytes(3600.0, CYCLE) == 6 * MB
    assert looks(*readings[:3]).enough_bytes(4200.0, CYCLE) is None
    assert looks(*readings).enough_bytes(7800.0, CYCLE) == 9 * MB


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=8),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_its_curve_is_level_from_there_and_no_lower_below(
    ratios: list[float], from_mb: int, size_mb: int
) -> None:
    sizes = np.arange(1, len(ratios) + 1) * 7.0 * MB
    curve = MissRatioCurve(sizes, np.sort(np.array(ratios))[::-1])
    found = level_from(curve, from_mb * MB, size_mb * MB)
    level = float(curve.miss_ratio(size_mb * MB))
    assert found.miss_ratio(np.arange(from_mb, 70) * float(MB)) == pytest.approx(level)
    below = curve.sizes_bytes[curve.sizes_bytes < from_mb * MB]
    assert found.miss_ratio(below) == pytest.approx(np.maximum(curve.miss_ratio(below), level))


LOOP = MissRatioCurve(np.array([0.0, 31.0 * MB, 32.0 * MB]), np.array([1.0, 0.62, 0.0]))


@pytest.mark.parametrize(("used_mb", "size_mb", "known_mb"), [(29, 31, 29.9), (30.9, 31, 31)])
def test_a_curve_whose_edge_is_off_is_refuted_by_hits(
    used_mb: float, size_mb: int, known_mb: float
) -> None:
    """All reads of a loop were hits for ten minutes, and a plan that claimed a fifth took another
    cache's memory for what was there."""
    full = at(1, used_mb, size_mb=size_mb)
    unfilled = looks(at(0, used_mb, size_mb=size_mb), full)
    assert unfilled.agreed(LOOP, full, CYCLE) == (LOOP, None)
    unfilled.compare(ServedReads(20_000, 0), 12_400, 0.01)
    curve, _ = unfilled.agreed(LOOP, full, CYCLE)
    assert curve.miss_ratio([known_mb * MB, 40 * MB]) == pytest.approx([0.0, 0.0], abs=1e-6)
    assert curve.miss_ratio(0.96 * used_mb * MB) == LOOP.miss_ratio(0.96 * used_mb * MB)
    # Nor do a few reads, or what was served with more than it has now.
    unfilled.take_reading(full, replace(full, at_seconds=120.0))
    assert unfilled.agreed(LOOP, full, CYCLE) == (LOOP, None)
    unfilled.compare(ServedReads(900, 0), 558, 1.0)
    assert unfilled.agreed(LOOP, full, CYCLE) == (LOOP, None)


@pytest.mark.parametrize(("rate", "refutes"), [(0.01, False), (0.1, True)])
def test_what_may_be_chance_refutes_nothing(rate: float, refutes: bool) -> None:
    """Of 200 sampled reads a tenth more may miss, of 2,000 not."""
    full = at(1, 30.9, size_mb=31)
    unfilled = looks(at(0, 30.9, size_mb=31), full)
    unfilled.compare(ServedReads(12_000, 8_000), 9_800, rate)
    assert (unfilled.agreed(LOOP, full, CYCLE)[0] is not LOOP) == refutes


def test_of_a_server_that_evicts_only_its_size_is_known() -> None:
    full = replace(at(1, 31, size_mb=31), evicted_keys=10)
    unfilled = looks(replace(full, evicted_keys=5, at_seconds=0.0), full)
    unfilled.compare(ServedReads(18_000, 2_000), 12_400, 0.01)
    curve, _ = unfilled.agreed(LOOP, full, CYCLE)
    assert curve.miss_ratio([31 * MB, 32 * MB]) == pytest.approx([0.1, 0.0])
    assert curve.miss_ratio(30.9 * MB) == pytest.approx(LOOP.miss_ratio(30.9 * MB))


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.integers(1, 90),
    st.floats(0, 1),
)
def test_a_curve_is_never_above_what_was_served(
    ratios: list[float], from_bytes: int, most: float
) -> None:
    sizes = np.arange(1, len(ratios) + 1) * 15.0
    curve = MissRatioCurve(sizes, np.sort(ratios)[::-1])
    bent = at_most_from(curve, from_bytes, most)
    at_all = np.arange(from_bytes, 100)
    assert np.all(bent.miss_ratio(at_all) <= most + 1e-9)
    assert np.all(bent.miss_ratio(np.arange(100)) <= curve.miss_ratio(np.arange(100)) + 1e-9)
    below = np.arange(0, from_bytes)
    assert bent.miss_ratio(below) == pytest.approx(curve.miss_ratio(below))
