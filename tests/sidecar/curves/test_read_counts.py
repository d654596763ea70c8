"""Misses a second against counting distances by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.curves.decaying_counts import (
    CYCLE,
    HALF_LIVES_CYCLES,
    STEPS_A_CYCLE,
    HalfLife,
    Remembered,
)
from sidecar.curves.miniature_caches import EvictionSettings
from sidecar.curves.miniature_simulation import MiniatureSimulation
from sidecar.curves.miss_ratio_histogram import COARSE_EDGES_BYTES, EDGES_BYTES
from sidecar.curves.object_groups import GROUPS
from sidecar.curves.read_counts import GrowthMargin, ReadCounts
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
    """Return the weight of each step; the last one counts whole."""
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
    counts, half_life = counted(steps), HalfLife(rate, shape)
    assert counts.reads(half_life) == pytest.approx(reads_a_second)
    assert counts.misses(EDGES_BYTES[::50] + EMPTY_BYTES, half_life) == pytest.approx(
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
    steps: Past, half_life: HalfLife | None
) -> None:
    counts = counted(steps)
    at_edges = COARSE_EDGES_BYTES + EMPTY_BYTES
    whole = counts.misses(at_edges, half_life)
    groups = counts.misses(at_edges, half_life, by_group=True)
    assert groups.shape == (GROUPS, len(at_edges))
    assert groups.mean(axis=0) == pytest.approx(whole, abs=TOLERANCE)
    # Between the edges there is no more than what the nearest say.
    middle = counts.misses(
        (COARSE_EDGES_BYTES[1:] + COARSE_EDGES_BYTES[:-1]) / 2 + EMPTY_BYTES,
        half_life,
        by_group=True,
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
    steps: Past, half_life: HalfLife | None
) -> None:
    counts = counted(steps)
    misses = counts.misses(np.linspace(0, 2e7, 300), half_life)
    assert np.all(np.diff(misses) <= 1e-12)
    assert np.all(misses >= 0)
    assert misses[0] == pytest.approx(counts.reads(half_life))


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
    for half_life in (None, HalfLife(CYCLE, CYCLE)):
        # Too small for one object, and large enough for all three.
        assert counts.misses(sizes * NEARLY_ONE, half_life) * STEP_SECONDS == pytest.approx([6, 3])
        groups = counts.misses(sizes * NEARLY_ONE, half_life, by_group=True) * STEP_SECONDS
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
    for half_life in (None, HalfLife(0, 3)):
        assert counts.reads(half_life) == 0
        assert not counts.misses(sizes, half_life).any()
        assert counts.misses(sizes, half_life, by_group=True).shape == (GROUPS, 2)
    known = at_depth(1e6)
    known.forget()
    assert known.reads(HalfLife(0, 0)) == known.reads(None) == 0


# --- Fading counts against a list of when how much was added.


amounts = st.floats(-1e6, 1e6)
# What is added in a step, and how long that takes, in cycles.
steps = st.lists(st.tuples(st.lists(amounts, max_size=4), st.floats(0, 5)), max_size=12)
PLACES = range(len(HALF_LIVES_CYCLES))


@given(steps, st.lists(amounts, max_size=3))
def test_each_memory_sums_all_that_was_added_with_its_weights(
    past: list[tuple[list[float], float]], latest: list[float]
) -> None:
    remembered = Remembered(2)
    added: list[tuple[float, float]] = []
    now = 0.0
    for some, cycles in past:
        for amount in some:
            remembered.new += [amount, -2 * amount]
        now += cycles
        # A step's counts begin to fade when it is over.
        added += [(now, amount) for amount in some]
        remembered.step(cycles)
    for amount in latest:
        remembered.new += [amount, -2 * amount]
        added.append((now, amount))
    for place, half_life in enumerate(HALF_LIVES_CYCLES):
        naive = sum(amount * 0.5 ** ((now - at) / half_life) for at, amount in added)
        assert remembered.by(place) == pytest.approx([naive, -2 * naive], rel=1e-9, abs=1e-6)
    last = sum(past[-1][0]) if past else 0.0
    assert remembered.last == pytest.approx([last, -2 * last], abs=1e-6)


@given(steps)
def test_a_longer_memory_never_holds_less_of_what_is_counted(
    past: list[tuple[list[float], float]],
) -> None:
    remembered = Remembered()
    for some, cycles in past:
        remembered.new += sum(map(abs, some))
        remembered.step(cycles)
    held = [float(remembered.by(place)) for place in PLACES]
    assert held == sorted(held)
    assert held[0] >= float(remembered.last)


def test_two_halves_of_a_step_without_reads_fade_as_the_whole_does() -> None:
    halves, whole = Remembered(), Remembered()
    for one, cycles in ((halves, (0.0, 0.5, 0.5)), (whole, (0.0, 1.0))):
        one.new += 8.0
        for part in cycles:
            one.step(part)
    assert halves.faded == pytest.approx(whole.faded)
    assert whole.by(CYCLE) == pytest.approx(4.0)


def test_nothing_is_left_of_what_is_forgotten() -> None:
    remembered = Remembered(3)
    for _ in range(3):
        remembered.new += 1.0
        remembered.step(0.1)
    remembered.new += 1.0
    remembered.forget()
    assert not np.any(remembered.last)
    assert not any(np.any(remembered.by(place)) for place in PLACES)


def test_a_change_reaches_every_array() -> None:
    changed, made_anew = Remembered(2), Remembered(2)
    for cycles in (0.2, 0.3):
        changed.new += [1.0, 5.0]
        made_anew.new += [5.0, 1.0]
        changed.step(cycles)
        made_anew.step(cycles)
    changed.new += [7.0, 0.0]
    made_anew.new += [0.0, 7.0]
    changed.change(lambda array: array[::-1].copy())
    assert np.array_equal(changed.new, made_anew.new)
    assert np.array_equal(changed.last, made_anew.last)
    assert np.array_equal(changed.faded, made_anew.faded)


# --- How much deeper reads are expected to reach.


weight_lists = st.lists(st.floats(0, 1e12), max_size=8)
depth_lists = st.lists(st.floats(0, 1e14), min_size=1, max_size=20)


def outlook_of(weights_bytes: list[float], objects: int) -> GrowthMargin:
    growth_margin = GrowthMargin()
    for weight in weights_bytes:
        growth_margin.step(weight, objects)
    return growth_margin


@given(weight_lists, st.integers(0, 10**6), depth_lists)
def test_depths_keep_their_order_and_never_shrink(
    weights_bytes: list[float], objects: int, depths: list[float]
) -> None:
    given_depths = np.sort(np.array([*depths, np.inf]))
    expected = outlook_of(weights_bytes, objects).depths(given_depths)
    assert np.all(expected >= given_depths)
    assert np.all(expected[1:] >= expected[:-1])
    assert np.all(np.isfinite(expected[:-1]))


@given(weight_lists, st.integers(0, 10**6), depth_lists)
def test_a_stack_that_does_not_grow_only_has_the_margin_for_chance(
    weights_bytes: list[float], objects: int, depths: list[float]
) -> None:
    growth_margin = outlook_of(sorted(weights_bytes, reverse=True), objects)
    margin = 1 + 2 / np.sqrt(max(16, objects if weights_bytes else 0))
    assert growth_margin.growth_ratio == 0
    assert growth_margin.depths(np.array(depths)) == pytest.approx(np.array(depths) * margin)


def test_growth_is_known_after_four_steps_and_forgotten_with_the_stack() -> None:
    growth_margin = outlook_of([1e6, 1.1e6, 1.2e6, 1.3e6], 100)
    assert growth_margin.growth_ratio == 0
    growth_margin.step(1.6e6, 100)
    assert growth_margin.growth_ratio == pytest.approx(3 * 0.6 / 1.6)
    growth_margin.forget()
    assert growth_margin.growth_ratio == 0


def test_only_sizes_that_hold_nearly_everything_are_to_hold_what_comes() -> None:
    growth_margin = outlook_of([0.9e6, 0.9e6, 0.9e6, 0.9e6, 1e6], 10**12)
    tenth, whole, beyond = growth_margin.depths(np.array([1e5, 1e6, 2e6])) / [1e5, 1e6, 2e6]
    assert tenth == pytest.approx(1.006, abs=1e-5)
    assert whole == beyond == pytest.approx(1.6, abs=1e-5)


def test_more_sampled_objects_leave_less_to_chance() -> None:
    margins = [float(outlook_of([1.0], n).depths(np.array([1.0]))[0]) for n in (0, 16, 64, 10**4)]
    assert margins == pytest.approx([1.5, 1.5, 1.25, 1.02])


def test_what_was_known_once_is_told_from_what_never_was() -> None:
    """Of the one a plan gives only what nobody uses; the other may have gained new keys."""
    margin = GrowthMargin()
    for weight in range(1, 9):
        margin.step(100.0 * weight, 1000)
    assert margin.error_ratio == 1.0
    for _ in range(5):
        margin.step(800.0, 1000)
    assert margin.error_ratio == 0.0
    margin.step(8000.0, 1000)
    assert 0.9 < margin.error_ratio < 1.0
    margin.forget()
    for weight in range(1, 9):
        margin.step(100.0 * weight, 1000)
    assert margin.error_ratio == 1.0
