"""Misses a second against counting distances by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.curves.miniature_caches import EvictionSettings
from sidecar.curves.miniature_simulation import MiniatureSimulation
from sidecar.curves.miss_ratio_histogram import COARSE_EDGES_BYTES, EDGES_BYTES
from sidecar.curves.object_groups import GROUPS
from sidecar.curves.read_counts import ReadCounts
from sidecar.curves.remembered import CYCLE, HALF_LIVES_CYCLES, STEPS_A_CYCLE, HalfLife
from sidecar.samples.wire_format import Operation
from tests.sidecar.counted_reads import STEP_SECONDS, at_depth, count, ids_of, step
from tests.sidecar.monitored_load import accesses

EMPTY_BYTES = 1_000_003
# Next to no margin for chance is left, see ``step``.
TOLERANCE = 1e-6
NEARLY_ONE = 1 + 1e-6
reads_of_a_step = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 10**7).map(float), st.just(np.inf)), st.integers(0, GROUPS - 1)
    ),
    max_size=30,
)
past = st.lists(reads_of_a_step, min_size=1, max_size=5)
Past = list[list[tuple[float, int]]]
QUICK = settings(deadline=None, max_examples=50)


def counted(steps: Past) -> ReadCounts:
    counts = ReadCounts()
    counts.empty_bytes = EMPTY_BYTES
    for some in steps:
        count(counts, [depth for depth, _ in some], [group for _, group in some] or ())
        step(counts)
    return counts


def weights(steps: Past, half_life_cycles: float) -> list[float]:
    """Of each step, the last one counts whole."""
    ages = range(len(steps) - 1, -1, -1)
    return [float(0.5 ** (age / STEPS_A_CYCLE / half_life_cycles)) for age in ages]


@QUICK
@given(past, st.integers(0, 3), st.integers(0, 3))
def test_misses_are_reads_that_reach_deeper_at_the_rate_of_another_memory(
    steps: Past, rate: int, shape: int
) -> None:
    of_rate = weights(steps, HALF_LIVES_CYCLES[rate])
    of_shape = weights(steps, HALF_LIVES_CYCLES[shape])
    reads = sum(w * len(some) for w, some in zip(of_rate, steps, strict=True))
    reads_a_second = reads / (sum(of_rate) * STEP_SECONDS)
    all_reads = sum(w * len(some) for w, some in zip(of_shape, steps, strict=True))
    expected = []
    for size in EDGES_BYTES[::50]:
        deeper = sum(
            w * sum(depth > size for depth, _ in some)
            for w, some in zip(of_shape, steps, strict=True)
        )
        expected.append(deeper / all_reads * reads_a_second if all_reads else 0.0)
    counts, memory = counted(steps), HalfLife(rate, shape)
    assert counts.reads(memory) == pytest.approx(reads_a_second)
    assert counts.misses(EDGES_BYTES[::50] + EMPTY_BYTES, memory) == pytest.approx(
        expected, abs=TOLERANCE
    )


@QUICK
@given(past)
def test_those_of_the_last_step_are_neither_faded_nor_looked_ahead_of(steps: Past) -> None:
    counts = counted(steps)
    counts.growth_margin.step(1.0, 0)  # would be a margin of a half
    naive = [sum(d > size for d, _ in steps[-1]) / STEP_SECONDS for size in EDGES_BYTES[::50]]
    assert counts.reads(None) == pytest.approx(len(steps[-1]) / STEP_SECONDS)
    assert counts.misses(EDGES_BYTES[::50] + EMPTY_BYTES, None) == pytest.approx(naive)


@QUICK
@given(past, st.sampled_from([None, HalfLife(0, 3), HalfLife(2, 2)]))
def test_the_groups_mean_is_the_whole_on_a_coarse_grid(
    steps: Past, memory: HalfLife | None
) -> None:
    counts = counted(steps)
    at_edges = COARSE_EDGES_BYTES + EMPTY_BYTES
    whole = counts.misses(at_edges, memory)
    groups = counts.misses(at_edges, memory, by_group=True)
    assert groups.shape == (GROUPS, len(at_edges))
    assert groups.mean(axis=0) == pytest.approx(whole, abs=TOLERANCE)
    # Between the edges there is no more than what the nearest say.
    middle = counts.misses(
        (COARSE_EDGES_BYTES[1:] + COARSE_EDGES_BYTES[:-1]) / 2 + EMPTY_BYTES, memory, by_group=True
    ).mean(axis=0)
    assert np.all(middle <= whole[:-1] + TOLERANCE)
    assert np.all(middle >= whole[1:] - TOLERANCE)


@QUICK
@given(past)
def test_a_group_speaks_for_all_objects_by_its_own_only(steps: Past) -> None:
    counts = counted(steps)
    groups = counts.misses(COARSE_EDGES_BYTES + EMPTY_BYTES, None, by_group=True)
    for group in (0, 7):
        own = [depth for depth, other in steps[-1] if other == group]
        naive = [GROUPS * sum(d > edge for d in own) / STEP_SECONDS for edge in COARSE_EDGES_BYTES]
        assert groups[group] == pytest.approx(naive)


@QUICK
@given(past, st.sampled_from([None, HalfLife(1, 1), HalfLife(3, 3)]))
def test_a_larger_server_never_misses_more_and_none_misses_more_than_is_read(
    steps: Past, memory: HalfLife | None
) -> None:
    counts = counted(steps)
    misses = counts.misses(np.linspace(0, 2e7, 300), memory)
    assert np.all(np.diff(misses) <= 1e-12)
    assert np.all(misses >= 0)
    assert misses[0] == pytest.approx(counts.reads(memory))


def test_an_outlook_moves_the_curve_to_the_right() -> None:
    counts = at_depth(1e6)
    counts.growth_margin.step(1.0, 0)  # 16 objects at least: half as deep again
    misses = counts.misses(np.array([1.4e6, 1.6e6]), HalfLife(CYCLE, CYCLE))
    assert misses == pytest.approx([counts.reads(None), 0.0])


def test_a_simulated_policy_counts_its_own_misses() -> None:
    counts = ReadCounts()
    sizes = np.array([5.0, 1000.0])
    counts.simulation = MiniatureSimulation(sizes, EvictionSettings())
    counts.simulation.set_rate(1.0)
    keys = [int(key) for key in ids_of([0, 0, 1, 0, 1, 5])]
    operations = [int(Operation.READ_HIT)] * len(keys)
    counts.simulation.access(accesses(keys, operations, 10), 10, 0, 1.0)
    counts.histogram.reads.new += len(keys)
    step(counts)
    for memory in (None, HalfLife(CYCLE, CYCLE)):
        # Too small for one object, and large enough for all three.
        assert counts.misses(sizes * NEARLY_ONE, memory) * STEP_SECONDS == pytest.approx([6, 3])
        groups = counts.misses(sizes * NEARLY_ONE, memory, by_group=True) * STEP_SECONDS
        assert groups.mean(axis=0) == pytest.approx([6, 3])
        assert groups[1] == pytest.approx([2 * GROUPS, GROUPS])
    assert counts.miss_ratios(CYCLE)[1] == pytest.approx([1.0, 0.5])
    # The next step only misses when it is small.
    counts.simulation.access(accesses(keys, operations, 10), 10, 0, 1.0)
    counts.histogram.reads.new += len(keys)
    step(counts)
    assert counts.misses(sizes, None) * STEP_SECONDS == pytest.approx([6, 0])
    # Of the first one's three, so much is left in six cycles' memory of the curve.
    left = 0.5 ** (1 / STEPS_A_CYCLE / 6)
    misses = counts.misses(sizes * NEARLY_ONE, HalfLife(0, 3)) * STEP_SECONDS
    assert misses == pytest.approx([6, 6 * 3 * left / (6 + 6 * left)])


def test_without_reads_there_are_no_misses() -> None:
    counts = ReadCounts()
    sizes = np.array([0.0, 1e6])
    for memory in (None, HalfLife(0, 3)):
        assert counts.reads(memory) == 0
        assert not counts.misses(sizes, memory).any()
        assert counts.misses(sizes, memory, by_group=True).shape == (GROUPS, 2)
    known = at_depth(1e6)
    known.forget()
    assert known.reads(HalfLife(0, 0)) == known.reads(None) == 0
