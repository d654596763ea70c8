"""The histogram against plain counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.curves.curve_points import simplified
from sidecar.curves.miss_ratio_histogram import EDGES_BYTES, GROUPS, MissRatioHistogram
from tests.oracles import miss_ratio_histogram as in_python

distance_lists = st.lists(
    st.one_of(st.integers(1, 10**6).map(float), st.just(float("inf"))), min_size=1, max_size=80
)


def filled(distances: list[float], weight: float = 1.0) -> MissRatioHistogram:
    histogram = MissRatioHistogram()
    histogram.add(np.array(distances), weight, np.arange(len(distances)).astype(np.uint64) << 32)
    histogram.reads.new += weight * len(distances)
    return histogram


@settings(deadline=None)
@given(distance_lists, st.floats(0.5, 100))
def test_miss_ratio_at_an_edge_is_the_share_of_greater_distances(
    distances: list[float], weight: float
) -> None:
    ratios = filled(distances, weight).miss_ratios()
    naive = (np.array(distances)[None, :] > EDGES_BYTES[:, None]).mean(axis=1)
    assert ratios == pytest.approx(naive, abs=1e-12)


@settings(deadline=None)
@given(distance_lists, st.integers(0, 500))
def test_reads_that_no_sample_stands_for_are_hits(distances: list[float], more: int) -> None:
    histogram = filled(distances)
    before = histogram.miss_ratios()
    histogram.reads.new += more
    share = len(distances) / (len(distances) + more)
    assert histogram.miss_ratios() == pytest.approx(before * share)


@settings(deadline=None)
@given(distance_lists, st.floats(-100, 500))
def test_always_a_curve(distances: list[float], more: float) -> None:
    histogram = filled(distances, 3.0)
    histogram.reads.new += max(more, -histogram.reads.new)
    histogram.stretch(1.037)
    ratios = histogram.miss_ratios()
    assert np.all((ratios >= 0) & (ratios <= 1))
    assert np.all(np.diff(ratios) <= 0)


def test_fading_changes_no_ratio_but_lets_new_reads_count_more() -> None:
    histogram = filled([500.0] * 100)
    histogram.step(0)
    histogram.step(2)  # cycles: they count a quarter
    assert histogram.miss_ratios()[0] == 1
    histogram.add(np.full(75, 10.0), 1.0, np.zeros(75, np.uint64))
    histogram.reads.new += 75
    assert histogram.miss_ratios()[0] == pytest.approx(0.25)


@settings(deadline=None)
@given(st.floats(0.5, 3))
def test_stretch_moves_a_distance_by_its_factor(factor: float) -> None:
    histogram = filled([50_000.0] * 10)
    histogram.stretch(factor)
    ratios = histogram.miss_ratios()
    width = 1.04
    assert np.all(ratios[50_000 * factor / width > EDGES_BYTES] == 1)
    assert np.all(ratios[50_000 * factor * width < EDGES_BYTES] < 1e-12)


def test_stretched_distances_beyond_the_last_edge_stay_finite() -> None:
    histogram = filled([EDGES_BYTES[-1], float("inf")])
    histogram.stretch(64)
    assert histogram.miss_ratios()[-1] == pytest.approx(0.5)


def test_standard_error_is_that_of_the_spread_between_groups() -> None:
    random = np.random.default_rng(4)
    size = 10_000
    distances = np.where(random.random(size) < 0.3, 1e5, np.inf)
    groups = random.integers(0, 256, size)
    histogram = MissRatioHistogram()
    histogram.add(distances, 1.0, groups.astype(np.uint64) << 32)
    histogram.reads.new += size
    naive = [np.sum(distances[groups % GROUPS == g] > 5e6) * GROUPS / size for g in range(GROUPS)]
    place = int(np.searchsorted(EDGES_BYTES, 5e6))
    assert histogram.standard_errors()[place] == pytest.approx(
        np.std(naive, ddof=1) / np.sqrt(GROUPS)
    )


def test_empty_histogram_misses_everything() -> None:
    assert np.all(MissRatioHistogram().miss_ratios() == 1)
    assert np.all(MissRatioHistogram().standard_errors() == 1)


@settings(deadline=None)
@given(distance_lists, st.floats(1e-4, 0.1))
def test_simplified_curve_stays_within_its_tolerance(
    distances: list[float], tolerance: float
) -> None:
    ratios = filled(distances).miss_ratios()
    curve = simplified(EDGES_BYTES, ratios, tolerance)
    assert np.max(np.abs(curve.miss_ratio(EDGES_BYTES) - ratios)) <= tolerance + 1e-12
    assert (curve.sizes_bytes[0], curve.sizes_bytes[-1]) == (EDGES_BYTES[0], EDGES_BYTES[-1])


def test_compiled_counts_are_those_of_python() -> None:
    random = np.random.default_rng(3)
    odd = [0.0, 1.0, 127.0, 128.0, 128.5, 256.0, 2.0**44, 2.0**45, np.inf]
    distances = np.concatenate(
        (odd, EDGES_BYTES, EDGES_BYTES + 1, 2.0 ** random.uniform(0, 46, 5000))
    )
    ids = random.integers(0, 2**63, len(distances)).astype(np.uint64)
    compiled, twin = MissRatioHistogram(), MissRatioHistogram()
    compiled.add(distances, 0.5, ids)
    in_python.add(twin, distances, 0.5, ids)
    assert compiled.counts.new.tolist() == twin.counts.new.tolist()
    assert compiled.groups.new.tolist() == twin.groups.new.tolist()
