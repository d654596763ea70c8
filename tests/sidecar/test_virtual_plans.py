"""Plans that nobody carries out, against all divisions there are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.curves.remembered import MEMORIES
from sidecar.half_lives import virtual_plans
from sidecar.half_lives.virtual_plans import UNITS, PlannedServer, VirtualPlanner, cost_of
from tests.sidecar.counted_reads import MEBIBYTE, at_depth

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
    """Of all divisions into whole units."""
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
    for memory in (None, *MEMORIES):
        costs = planner.miss_costs(counts, memory)
        assert costs.shape == (2, UNITS + 1)
        assert cost_of(equal, costs) == pytest.approx(10 * reads)
        assert cost_of(planner.plan(costs), costs) == pytest.approx(0)
        assert planner.hit_costs(counts, memory) == pytest.approx(2 * reads)
        groups = planner.miss_costs(counts, memory, by_group=True)
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
