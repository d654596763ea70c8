"""How much of a gain may be chance: what some groups of objects say and others do not."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.curves.object_groups import GROUPS
from sidecar.curves.read_counts import ReadCounts
from sidecar.curves.remembered import CYCLE, MEMORIES, HalfLife
from sidecar.half_lives.chance_of_gain import chance_ratio
from sidecar.half_lives.virtual_plans import PlannedServer, VirtualPlanner, cost_of
from tests.sidecar.counted_reads import MEBIBYTE, count, step

BUDGET = 100 * MEBIBYTE
MEMORY = HalfLife(CYCLE, CYCLE)
PLANNER = VirtualPlanner(
    [PlannedServer(name, 0.1, 10.0, MEBIBYTE) for name in ("one", "two")], BUDGET
)
EQUAL = dict.fromkeys(("one", "two"), BUDGET // 2)
Reads = list[tuple[float, int]]
reads_of_a_server = st.lists(
    st.tuples(
        st.one_of(st.floats(0.1, 120).map(lambda m: m * MEBIBYTE), st.just(math.inf)),
        st.integers(0, GROUPS - 1),
    ),
    max_size=40,
)


def counts_of(one: Reads, two: Reads) -> dict[str, ReadCounts]:
    """Each read: its depth and its object's group."""
    counts = {"one": ReadCounts(), "two": ReadCounts()}
    for name, reads in (("one", one), ("two", two)):
        count(counts[name], [d for d, _ in reads], [g for _, g in reads] or ())
        step(counts[name])
    return counts


def chance(one: Reads, two: Reads, sizes: dict[str, int], errors: float = 2.0) -> float:
    return chance_ratio(PLANNER, counts_of(one, two), MEMORY, sizes, errors)


def in_all_groups(depth_mebibytes: float, times: int = 1) -> Reads:
    return [(depth_mebibytes * MEBIBYTE, group) for group in range(GROUPS)] * times


def seeming_gain(counts: dict[str, ReadCounts], sizes: dict[str, int]) -> float:
    """Of all cost."""
    costs = PLANNER.miss_costs(counts, MEMORY, by_group=True).mean(axis=0)
    now = cost_of(PLANNER.units(sizes), costs)
    total = now + PLANNER.hit_costs(counts, MEMORY)
    return (now - cost_of(PLANNER.plan(costs), costs)) / total


def test_nothing_is_chance_when_all_groups_say_the_same() -> None:
    one, two = in_all_groups(70, times=3), in_all_groups(10)
    assert seeming_gain(counts_of(one, two), EQUAL) > 0.9
    assert chance(one, two, EQUAL, errors=4) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("share", [1, 4])
def test_a_gain_that_one_group_makes_alone_is_all_chance(share: int) -> None:
    """Equal servers; one hot object of one of them, in the sample by chance, reaches deep."""
    flat = in_all_groups(20, times=10)
    hot = [(70.0 * MEBIBYTE, 5)] * (100 * share)
    counts = counts_of(flat + hot, flat)
    seems = seeming_gain(counts, EQUAL)
    assert seems > 0.3
    assert chance(flat + hot, flat, EQUAL) >= seems - 1e-9
    # By the others alone, or judged by them, there is no gain: no errors are needed to see that.
    assert chance(flat + hot, flat, EQUAL, errors=0) == pytest.approx(seems)


def test_the_best_plan_has_no_gain_that_could_be_chance() -> None:
    one, two = in_all_groups(70), in_all_groups(10)
    assert chance(one, two, {"one": 80 * MEBIBYTE, "two": 20 * MEBIBYTE}) == pytest.approx(0)


@settings(deadline=None, max_examples=40)
@given(
    reads_of_a_server,
    reads_of_a_server,
    st.integers(1, 99),
    st.floats(0, 4),
    st.sampled_from(MEMORIES),
)
def test_chance_is_finite_and_more_errors_never_leave_less_of_it(
    one: Reads, two: Reads, share: int, errors: float, memory: HalfLife
) -> None:
    counts = counts_of(one, two)
    sizes = {"one": share * MEBIBYTE, "two": (100 - share) * MEBIBYTE}
    less = chance_ratio(PLANNER, counts, memory, sizes, errors)
    more = chance_ratio(PLANNER, counts, memory, sizes, errors + 1)
    assert 0 <= less <= more < math.inf


def test_no_reads_are_no_chance() -> None:
    assert chance([], [], EQUAL) == 0
    counts = counts_of(in_all_groups(10), [])
    counts["one"].forget()
    assert chance_ratio(PLANNER, counts, MEMORY, EQUAL, 2.0) == 0
    free = VirtualPlanner([PlannedServer(name, 0, 0, 1) for name in EQUAL], BUDGET)
    assert chance_ratio(free, counts_of(in_all_groups(9), []), MEMORY, EQUAL, 2.0) == 0
