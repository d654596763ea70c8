"""Plans that nobody carries out, against all divisions there are."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.curves.decaying_counts import CYCLE, HALF_LIVES, HalfLife
from sidecar.curves.object_groups import GROUPS
from sidecar.curves.read_counts import ReadCounts
from sidecar.half_lives import virtual_plans
from sidecar.half_lives.chance_of_gain import chance_ratio
from sidecar.half_lives.half_life_selection import VirtualDivision
from sidecar.half_lives.virtual_plans import UNITS, PlannedServer, VirtualPlanner, cost_of
from tests.sidecar.counted_reads import MEBIBYTE, at_depth, count, step

FEW_UNITS = 12
BUDGET = 100 * MEBIBYTE


def planner_of(servers: int, budget_bytes: int = BUDGET) -> VirtualPlanner:
    return VirtualPlanner(
        [PlannedServer(f"server-{n}", 1.0, 10.0, MEBIBYTE) for n in range(servers)], budget_bytes
    )


def random_costs(servers: int, units: int, seed: int, *, cliffs: bool) -> np.ndarray:
    """Never rising; some servers cost nothing. Without cliffs each unit gains less than the one
    before it."""
    random = np.random.default_rng(seed)
    falls = random.random((servers, units + 1)) ** random.choice([1, 4, 30], (servers, 1))
    if not cliffs:
        falls = -np.sort(-falls, axis=1)
    costs = np.cumsum(falls[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(costs * random.choice([0.0, 1.0, 50.0], (servers, 1)))


def least_cost(costs: np.ndarray) -> float:
    """Return the least cost of all divisions into whole units."""
    servers, units = len(costs), costs.shape[1] - 1
    return min(
        sum(float(costs[place, unit]) for place, unit in enumerate(division))
        for division in product(range(units + 1), repeat=servers)
        if sum(division) <= units
    )


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 4), st.integers(0, 10**6), st.booleans())
def test_few_units_are_divided_as_well_as_can_be_where_no_curve_has_a_cliff(
    servers: int, seed: int, cliffs: bool
) -> None:
    costs = random_costs(servers, FEW_UNITS, seed, cliffs=cliffs)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(virtual_plans, "UNITS", FEW_UNITS)
        division = planner_of(servers).plan(costs)
    assert division.sum() <= FEW_UNITS
    assert np.all((division >= 0) & (division == np.rint(division)))
    if not cliffs:
        assert cost_of(division, costs) == pytest.approx(least_cost(costs))


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 12), st.integers(0, 10**6))
def test_never_worse_than_the_equal_split_or_any_other_where_no_curve_has_a_cliff(
    servers: int, seed: int
) -> None:
    costs = random_costs(servers, UNITS, seed, cliffs=False)
    random = np.random.default_rng(seed)
    planned = cost_of(planner_of(servers).plan(costs), costs)
    shares = [np.ones(servers) / servers, *random.dirichlet(np.ones(servers), 20)]
    for share in shares:
        # In force: any size in bytes, not a whole number of units.
        assert planned <= cost_of(share * UNITS, costs) * (1 + 1e-9)


@pytest.mark.parametrize("servers", [2, 5, 12])
def test_cliffs_are_climbed_where_there_is_room_for_them(servers: int) -> None:
    """Of a working set that fits into three quarters of a fair share, nothing below is worth
    anything."""
    units = np.arange(UNITS + 1)
    costs = np.tile(np.where(units * servers * 4 >= UNITS * 3, 0.0, 1.0), (servers, 1))
    assert cost_of(planner_of(servers).plan(costs), costs) == 0


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="LookAhead leaves no room for a cliff that gains less for each unit",
)
def test_never_worse_than_the_equal_split_where_a_cliff_needs_the_whole_of_a_share() -> None:
    units = np.arange(UNITS + 1)
    slope = 0.3 - np.minimum(0.002 * units, 0.258)  # up to unit 129
    cliff = np.where(units >= UNITS // 2, 0.05, 0.3)  # 0.00195 for each unit, but all at once
    costs = np.stack([slope, cliff])
    equal = np.array([UNITS // 2, UNITS // 2])
    assert cost_of(planner_of(2).plan(costs), costs) <= cost_of(equal, costs)


def test_sizes_are_units_above_their_minima() -> None:
    planner = planner_of(2, BUDGET)
    assert planner.unit_bytes == 98 * MEBIBYTE // UNITS
    sizes = {"server-0": MEBIBYTE, "server-1": MEBIBYTE + 5 * planner.unit_bytes // 2}
    assert planner.units(sizes) == pytest.approx([0, 2.5])
    # Below its minimum, or above the whole budget, a server counts as if it were there.
    assert planner.units({"server-0": 0, "server-1": 2 * BUDGET}) == pytest.approx([0, UNITS])


def test_a_plan_holds_what_is_read_and_costs_what_it_misses() -> None:
    planner = planner_of(2)
    counts = {"server-0": at_depth(60 * MEBIBYTE), "server-1": at_depth(20 * MEBIBYTE)}
    reads = counts["server-0"].reads(None)
    equal = planner.units(dict.fromkeys(counts, BUDGET // 2))
    for half_life in (None, *HALF_LIVES):
        costs = planner.miss_costs(counts, half_life)
        assert costs.shape == (2, UNITS + 1)
        assert cost_of(equal, costs) == pytest.approx(10 * reads)
        assert cost_of(planner.plan(costs), costs) == pytest.approx(0)
        assert planner.hit_costs(counts, half_life) == pytest.approx(2 * reads)
        groups = planner.miss_costs(counts, half_life, by_group=True)
        assert cost_of(equal, groups[3]) == pytest.approx(10 * reads)


def test_what_the_minimum_holds_is_no_miss() -> None:
    servers = [PlannedServer("a", 1.0, 10.0, 30 * MEBIBYTE), PlannedServer("b", 1.0, 10.0, 1)]
    counts = {"a": at_depth(25 * MEBIBYTE), "b": at_depth(25 * MEBIBYTE)}
    costs = VirtualPlanner(servers, BUDGET).miss_costs(counts, None)
    assert costs[0, 0] == 0
    assert costs[1, 0] == pytest.approx(10 * counts["b"].reads(None))


def test_order_of_servers_does_not_matter() -> None:
    one, two = (PlannedServer(name, 1.0, 10.0, MEBIBYTE) for name in ("a", "b"))
    assert VirtualPlanner([one, two], BUDGET).servers == VirtualPlanner([two, one], BUDGET).servers


def test_nobody_gets_more_than_its_maximum() -> None:
    unbounded, bounded = (
        VirtualPlanner(
            [PlannedServer("a", 1.0, 10.0, MEBIBYTE, most), PlannedServer("b", 1.0, 1.0, MEBIBYTE)],
            BUDGET,
        )
        for most in (None, 30 * MEBIBYTE)
    )
    costs = np.stack([np.linspace(100, 0, UNITS + 1), np.linspace(10, 0, UNITS + 1)])
    assert unbounded.plan(costs).tolist() == [UNITS, 0]
    units = bounded.plan(costs)
    assert units.sum() == UNITS
    assert bounded.sizes_bytes(units)["a"] <= 30 * MEBIBYTE
    assert bounded.units({"a": 50 * MEBIBYTE, "b": 50 * MEBIBYTE})[0] == pytest.approx(
        units[0], abs=1
    )


@given(st.lists(st.integers(MEBIBYTE, 20 * MEBIBYTE), min_size=2, max_size=5))
def test_sizes_come_back_as_they_were(sizes: list[int]) -> None:
    named = {f"server-{n}": size for n, size in enumerate(sizes)}
    planner = planner_of(len(sizes))
    assert planner.sizes_bytes(planner.units(named)) == named


def test_plans_for_the_same_servers_and_bounds_are_comparable() -> None:
    def planner(
        price: float, budget_bytes: int = BUDGET, most: int | None = None
    ) -> VirtualPlanner:
        servers = [PlannedServer(n, 1.0, price, MEBIBYTE, most) for n in ("a", "b")]
        return VirtualPlanner(servers, budget_bytes)

    assert planner(10.0).divides_as(planner(10.0))
    assert planner(10.0).divides_as(planner(10.0, BUDGET + MEBIBYTE))
    assert planner(10.0).divides_as(planner(1000.0))
    assert not planner(10.0).divides_as(planner(10.0, 2 * BUDGET))
    assert not planner(10.0).divides_as(planner(10.0, most=BUDGET))
    assert not planner_of(2).divides_as(planner_of(3))


# --- Caches that nobody has: they fill by misses, and give as others fill.


GRID = np.arange(UNITS + 1)
UNIT_ROWS = np.stack([1000.0 - GRID, 2000.0 - 2 * GRID])


def divided(*units: float) -> VirtualDivision:
    return VirtualDivision(np.array(units))


def fills(*units: float) -> np.ndarray:
    return np.repeat(np.array(units)[:, None], UNITS + 1, axis=1)


@pytest.mark.parametrize(("planned", "filled"), [(None, 5), ([240.0, 16.0], 0)])
def test_what_stays_costs_what_its_curve_says_and_nobody_gives_what_nobody_fills(
    planned: list[float] | None, filled: int
) -> None:
    division = divided(100, 156)
    if planned:
        division.planned = np.array(planned)
    for _ in range(10):
        assert division.step(UNIT_ROWS, fills(filled, filled)) == pytest.approx(900 + 2000 - 312)


def test_a_cache_that_grows_misses_what_it_has_not_read_yet() -> None:
    division = divided(100, 156)
    division.planned = np.array([140.0, 116.0])
    # 15 units are filled, and given: half of that on average.
    assert division.step(UNIT_ROWS, fills(15, 0)) == pytest.approx(892.5 + 2000 - 2 * 148.5)
    assert division.step(UNIT_ROWS, fills(15, 0)) == pytest.approx(877.5 + 2000 - 2 * 133.5)
    for _ in range(3):
        cost = division.step(UNIT_ROWS, fills(15, 0))
    assert cost == pytest.approx(860 + 2000 - 2 * 116)


def test_a_cache_that_was_emptied_has_to_be_filled_again() -> None:
    division = divided(100, 156)
    division.planned = np.array([0.0, 256.0])
    division.step(UNIT_ROWS, fills(0, 256))
    division.planned = np.array([100.0, 156.0])
    only_the_first = UNIT_ROWS * [[1], [0]]
    assert division.step(only_the_first, fills(10, 0)) == pytest.approx(995)
    assert division.step(only_the_first, fills(10, 0)) == pytest.approx(985)


@given(
    plans=st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=8),
    filled=st.lists(st.floats(0, 300), min_size=3, max_size=3),
)
def test_no_division_holds_more_than_there_is(
    plans: list[list[float]], filled: list[float]
) -> None:
    division = divided(80, 80, 80)
    for shares in plans:
        division.planned = UNITS * np.array(shares) / max(1.0, sum(shares))
        # With rows that tell the sum of what is held.
        held = division.step(np.tile(GRID, (3, 1)).astype(float), fills(*filled))
        assert held <= UNITS * (1 + 1e-9)


# --- How much of a gain may be chance: what some groups of objects say and others do not.


HALF_LIFE = HalfLife(CYCLE, CYCLE)
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
    return chance_ratio(PLANNER, counts_of(one, two), HALF_LIFE, sizes, errors)


def in_all_groups(depth_mebibytes: float, times: int = 1) -> Reads:
    return [(depth_mebibytes * MEBIBYTE, group) for group in range(GROUPS)] * times


def seeming_gain(counts: dict[str, ReadCounts], sizes: dict[str, int]) -> float:
    """Return the gain as a share of all cost."""
    costs = PLANNER.miss_costs(counts, HALF_LIFE, by_group=True).mean(axis=0)
    now = cost_of(PLANNER.units(sizes), costs)
    total = now + PLANNER.hit_costs(counts, HALF_LIFE)
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
    st.sampled_from(HALF_LIVES),
)
def test_chance_is_finite_and_more_errors_never_leave_less_of_it(
    one: Reads, two: Reads, share: int, errors: float, half_life: HalfLife
) -> None:
    counts = counts_of(one, two)
    sizes = {"one": share * MEBIBYTE, "two": (100 - share) * MEBIBYTE}
    less = chance_ratio(PLANNER, counts, half_life, sizes, errors)
    more = chance_ratio(PLANNER, counts, half_life, sizes, errors + 1)
    assert 0 <= less <= more < math.inf


def test_no_reads_are_no_chance() -> None:
    assert chance([], [], EQUAL) == 0
    counts = counts_of(in_all_groups(10), [])
    counts["one"].forget()
    assert chance_ratio(PLANNER, counts, HALF_LIFE, EQUAL, 2.0) == 0
    free = VirtualPlanner([PlannedServer(name, 0, 0, 1) for name in EQUAL], BUDGET)
    assert chance_ratio(free, counts_of(in_all_groups(9), []), HALF_LIFE, EQUAL, 2.0) == 0
