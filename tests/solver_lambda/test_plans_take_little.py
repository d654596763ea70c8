"""No plan takes memory that nobody needs elsewhere, or on a gain that no reads support."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.planning.planner import make_plan
from solver_lambda.planning.quiet_servers import is_quiet
from solver_lambda.planning.step_limits import QUIET_STEP_RATIO
from tests.examples import examples
from tests.solver_lambda.odd_observations import odd_observations

MIB = 1 << 20
# Falls from 1 to 0 over 64 MiB, ever more slowly.
CONVEX = MissRatioCurve(np.arange(65.0) * MIB, np.linspace(1, 0, 65) ** 3)


def server(name: str, size_mib: float, rate: float = 100.0, **changes) -> ServerObservation:
    made = ServerObservation(
        name=name,
        maxmemory_bytes=int(size_mib * MIB),
        minimum_bytes=2 * MIB,
        weight=1.0,
        request_rate_per_second=rate,
        cache_latency_seconds=2e-4,
        backend_latency_seconds=0.05,
        curve=CONVEX,
    )
    return dataclasses.replace(made, **changes)


def plan_for(
    *servers: ServerObservation,
    budget_mib: float = 64,
    cycle_seconds: float = 0.0,
    **planning: object,
) -> AdaptationPlan:
    observation = Observation(
        node="n1",
        cycle=7,
        made_at_seconds=1e6,
        window_seconds=60.0,
        cycle_seconds=cycle_seconds,
        budget_bytes=int(budget_mib * MIB),
        servers=servers,
        planning=PlanningSettings(**planning),  # type: ignore[arg-type]
    )
    return make_plan(observation, now_seconds=1e6)


def sizes_mib(plan: AdaptationPlan) -> list[float]:
    return [server.maxmemory_bytes / MIB for server in plan.servers]


def test_an_idle_node_keeps_its_sizes_whatever_bound_a_team_sets():
    idle = [
        server("a", 147, 0),
        server("b", 11, 0),
        server("c", 2, 0, bounds={"latency_bound_seconds": 0.01}),
    ]
    plan = plan_for(*idle, budget_mib=160)
    assert plan.decision == "keep"
    assert plan.predicted_gain_ratio == 0
    assert "takes no memory while it has hardly any reads" in plan.servers[2].reason


def test_a_raised_minimum_on_an_idle_node_takes_no_more_than_it_asks():
    idle = [server("a", 120, 0), server("b", 20, 0), server("c", 4, 0, minimum_bytes=10 * MIB)]
    assert sizes_mib(plan_for(*idle, budget_mib=160)) == [120, 20, 10]
    # Only 4 of the 6 MiB are unassigned: the others give 2, in proportion to what they have above
    # their minima.
    a, b, c = sizes_mib(plan_for(*idle, budget_mib=148))
    assert c == 10
    assert a + b == 138
    assert 120 - a == pytest.approx(2 * 118 / 136, abs=0.0625)


def test_minima_that_cannot_all_be_had_are_cut_and_planning_goes_on():
    kept = server("a", 20, keep_reason="noeviction")
    plan = plan_for(kept, server("b", 5), server("c", 5, minimum_bytes=10 * MIB), budget_mib=30)
    assert sizes_mib(plan) == [20, 2, 8]
    assert plan.decision == "apply"
    assert "its minimum of 10 MiB cannot be had beside the sizes" in plan.servers[2].reason
    # Even the sizes in force are too much: minima give way in proportion.
    plan = plan_for(kept, *(server(n, 6, minimum_bytes=5 * MIB) for n in "bc"), budget_mib=28)
    assert sizes_mib(plan) == [20, 4, 4]
    assert plan_for(kept, server("b", 5), budget_mib=20).reason.startswith("infeasible: ")


def test_a_bounded_server_with_reads_takes_from_idle_ones_what_it_gains_by_and_slowly():
    idle = [server("a", 147, 0), server("b", 11, 0)]
    plan = plan_for(*idle, server("c", 2, bounds={"latency_bound_seconds": 0.02}), budget_mib=160)
    assert plan.decision == "apply"
    a, b, c = sizes_mib(plan)
    assert c > 2
    assert a + b + c == 160
    assert a >= 147 * 0.9
    assert b >= 11 * 0.9 - 0.0625


def test_a_server_that_is_quiet_for_one_window_loses_little():
    plan = plan_for(server("a", 40, 0), server("b", 24))
    assert plan.decision == "apply"
    assert sizes_mib(plan) == [36, 28]
    assert "a tenth of its size at most: hardly any reads of a" in plan.reason


@pytest.mark.parametrize("flat", [True, False])
def test_who_claims_very_many_reads_makes_the_gain_of_others_no_smaller(flat: bool):
    """Also one who moves by a little himself, as what he asks for gains next to nothing."""
    ratios = np.full(65, 0.5) if flat else np.linspace(0.5, 0.4999, 65)
    curve = MissRatioCurve(np.arange(65.0) * MIB, ratios)
    liar = server("liar", 16, 1e7, curve=curve, maximum_bytes=(16 if flat else 17) * MIB)
    plan = plan_for(server("a", 40), server("b", 8, 1000), liar, horizon_seconds=1e6)
    assert plan.decision == "apply"
    assert sizes_mib(plan)[1] > 16


def test_what_a_quiet_server_loses_in_a_day_does_not_depend_on_how_often_one_plans():
    for cycle_seconds, left in ((0.0, 36), (60.0, 36), (120.0, 38), (720.0, 39.6875)):
        plan = plan_for(server("a", 40, 0), server("b", 24), cycle_seconds=cycle_seconds)
        assert sizes_mib(plan)[0] == left, cycle_seconds


def test_an_uncertain_curve_keeps_a_server_from_shrinking_but_not_from_growing():
    uncertain = {"curve_error_ratio": 0.5}
    plan = plan_for(server("a", 40, **uncertain), server("b", 24))
    assert sizes_mib(plan) == [40, 24]
    assert (
        "off by 50 points, and no server shrinks by one that may be off by more than 30"
        in plan.servers[0].reason
    )
    plan = plan_for(server("a", 24, **uncertain), server("b", 40))
    assert sizes_mib(plan) == [32, 32]
    assert plan.servers[0].reason.startswith("grows: ")
    assert plan.what_if == plan_for(server("a", 24), server("b", 40)).what_if
    # Within its bounds, which come first.
    plan = plan_for(server("a", 40, maximum_bytes=36 * MIB, **uncertain), server("b", 24))
    assert sizes_mib(plan) == [36, 28]
    plan = plan_for(server("a", 40, **uncertain), server("b", 24, **uncertain), budget_mib=60)
    assert plan.reason.startswith("infeasible: the sizes that must be kept (a, b)")
    plan = plan_for(server("a", 0, **uncertain), server("b", 24))
    assert plan.reason.startswith("infeasible: a has no maxmemory and is to be kept")


def test_an_uncertain_curve_does_not_keep_what_a_quiet_server_has():
    for error in (0.0, 0.5):
        plan = plan_for(server("a", 40, 0.1, curve_error_ratio=error), server("b", 24))
        assert sizes_mib(plan) == [36, 28]
    plan = plan_for(server("a", 40, 1.0, curve_error_ratio=0.5), server("b", 24))
    assert sizes_mib(plan) == [40, 24]


@settings(max_examples=examples(200))
@given(observation=odd_observations())
def test_no_server_with_reads_shrinks_by_a_curve_that_may_be_wrong(observation):
    plan = make_plan(observation, now_seconds=1e6)
    for before, after in zip(observation.servers, plan.servers, strict=True):
        known = before.curve_error_ratio <= observation.planning.maximum_curve_error_ratio
        if not known and not is_quiet(before, observation):
            most = min(before.maximum_bytes or observation.budget_bytes, observation.budget_bytes)
            assert after.maxmemory_bytes >= min(before.maxmemory_bytes, most)


def test_a_quiet_server_gives_more_where_the_budget_demands_it():
    for step_ratio in (None, 0.01):
        servers = server("a", 40, 0), server("b", 24)
        plan = plan_for(*servers, budget_mib=44, maximum_step_ratio=step_ratio)
        assert 16 <= sizes_mib(plan)[0] < 36
    gone = plan_for(server("a", 40, 0, keep_reason="replica"), server("b", 24, 0), budget_mib=44)
    assert sizes_mib(gone) == [40, 4]


def test_an_impossible_bound_takes_no_more_than_the_share_of_its_server():
    others = [server("b", 20, 300.0), server("c", 24, 500.0)]
    free = plan_for(server("a", 20), *others)
    for bound, words in (
        (10e-6, "its bound of 0.01 ms cannot be met: it is below the time of its cache itself"),
        (0.205e-3, "its bound of 0.205 ms cannot be met by any size that it may have now"),
    ):
        plan = plan_for(server("a", 20, bounds={"latency_bound_seconds": bound}), *others)
        assert sizes_mib(plan) == sizes_mib(free)
        assert words in plan.servers[0].reason
        assert plan.servers[1].reason == free.servers[1].reason


def test_a_bound_takes_nothing_that_costs_the_others_much_more_than_it_is_worth():
    busy = server("busy", 54, 5000.0)
    free = plan_for(busy, server("small", 10, 1.0))
    plan = plan_for(busy, server("small", 10, 1.0, bounds={"latency_bound_seconds": 0.005}))
    assert sizes_mib(plan) == sizes_mib(free)
    assert "takes no memory: it would cost the node's mean access time" in plan.servers[1].reason
    assert "more than 10%" in plan.servers[1].reason


def test_a_bound_that_is_met_is_not_dropped_where_a_new_one_would_be_too_dear():
    busy = MissRatioCurve(np.array([0, 64.0]) * MIB, np.array([1.0, 0.5]))
    small = {"rate": 10.0, "bounds": {"latency_bound_seconds": 0.0195}}
    costs = []
    for size, is_met in ((11, False), (20, True)):
        servers = server("busy", 64 - size, 100.0, curve=busy), server("small", size, **small)
        plan = plan_for(*servers)
        assert ("its bound of 19.5 ms is met" in plan.servers[1].reason) == is_met
        costs.append(plan.servers[1].reason)
    assert "more than 10%" in costs[0]


def test_the_bound_of_a_server_without_weight_takes_nothing():
    servers = (
        server("busy", 44),
        server("small", 20, weight=0.0, bounds={"latency_bound_seconds": 0.04}),
    )
    plan = plan_for(*servers)
    assert plan.servers[1].maxmemory_bytes < 20 * MIB
    assert "takes no memory, because its weight is 0" in plan.servers[1].reason


def test_a_bounded_server_with_few_reads_gains_as_slowly_as_a_quiet_one_loses():
    others = server("flat", 40, curve=MissRatioCurve(np.array([1.0]), np.array([0.5])))
    few = plan_for(others, server("trickle", 20, 0.5, bounds={"latency_bound_seconds": 0.0065}))
    assert sizes_mib(few) == [40, 22]
    assert (
        "gains a tenth of its size at most for its bound: few reads of trickle"
        in few.servers[1].reason
    )
    many = plan_for(others, server("trickle", 20, 100.0, bounds={"latency_bound_seconds": 0.0065}))
    assert sizes_mib(many)[1] > 22


def test_of_bounds_that_cannot_all_be_met_those_that_take_the_least_are():
    bounds = [(server("a", 20), 0.012), (server("b", 20), 0.004), (server("c", 24), 0.016)]
    plan = plan_for(
        *(dataclasses.replace(s, bounds={"latency_bound_seconds": b}) for s, b in bounds)
    )
    assert [" is met" in s.reason for s in plan.servers] == [True, False, True]
    assert "cannot be met beside the bounds that take less" in plan.servers[1].reason


def closed_loop(cycles: int, *servers: ServerObservation, **planning: object) -> AdaptationPlan:
    """The last of so many plans, each of them applied."""
    for _ in range(cycles):
        plan = plan_for(*servers, **planning)
        servers = tuple(
            dataclasses.replace(before, maxmemory_bytes=after.maxmemory_bytes)
            for before, after in zip(servers, plan.servers, strict=True)
        )
    return plan


def test_small_steps_lead_to_where_a_large_one_leads():
    servers = (server("a", 8, 900.0), server("b", 28, 50.0), server("c", 28, 50.0))
    at_once = plan_for(*servers)
    first = plan_for(*servers, maximum_step_ratio=0.01, minimum_gain_ratio=0.005)
    assert first.decision == "apply"
    assert first.reason.startswith("step: ")
    assert first.predicted_gain_ratio < 0.005
    assert "maximum_step_ratio 0.01 limits a cycle's step" in first.reason
    last = closed_loop(150, *servers, maximum_step_ratio=0.02)
    assert last.mean_access_time_seconds == pytest.approx(
        at_once.mean_access_time_seconds, rel=0.01
    )


def test_a_step_below_one_unit_is_one_unit():
    first = plan_for(server("a", 2.5, 900.0), server("b", 2.5, 5.0), budget_mib=5)
    assert first.decision == "apply"
    step = plan_for(
        server("a", 2.5, 900.0), server("b", 2.5, 5.0), budget_mib=5, maximum_step_ratio=0.001
    )
    assert sizes_mib(step) == [2.5 + 0.0625, 2.5 - 0.0625]


@pytest.mark.parametrize("rate", [0.0, 10.0])
def test_a_cliff_beyond_a_step_is_reached_with_memory_that_nobody_misses(rate):
    cliff = MissRatioCurve(np.array([1, 47.9, 48]) * MIB, np.array([0.98, 0.98, 0.02]))
    useless = MissRatioCurve(np.array([1.0, 2.0]) * MIB, np.array([0.9, 0.1]))
    servers = server("busy", 32, 1000.0, curve=cliff), server("other", 32, rate, curve=useless)
    ratio = {"maximum_step_ratio": 0.1} if rate else {}
    first = plan_for(*servers, **ratio)
    assert first.reason.startswith("way: a step that gains nothing yet")
    assert sizes_mib(first) == [32 + 3.1875, 32 - 3.1875]
    assert "on the way to a size at which it gains" in first.servers[0].reason
    last = closed_loop(12, *servers, **ratio)
    assert last.decision == "keep"
    assert sizes_mib(last)[0] >= 48


def test_a_plan_that_a_step_limit_holds_back_names_it():
    cliff = MissRatioCurve(np.array([0, 40, 40.1]) * MIB, np.array([1.0, 1.0, 0.0]))
    servers = (server("a", 32, curve=cliff), server("b", 32, 200.0))
    assert plan_for(*servers).decision == "apply"
    plan = plan_for(*servers, maximum_step_ratio=0.05)
    assert plan.decision == "keep"
    assert "maximum_step_ratio 0.05 limits a cycle's step" in plan.reason


@settings(max_examples=examples(300))
@given(observation=odd_observations())
def test_nobody_shrinks_while_memory_is_left(observation):
    plan = make_plan(observation, now_seconds=1e6)
    if plan.decision == "keep":
        assert all(s.maxmemory_bytes == s.maxmemory_before_bytes for s in plan.servers)
        return
    spare = observation.budget_bytes - sum(s.maxmemory_bytes for s in plan.servers)
    assert spare >= 0
    excess = max(0, -spare_in_force(observation))
    reads = any(s.request_rate_per_second for s in observation.servers)
    for before, after in zip(observation.servers, plan.servers, strict=True):
        if not before.maxmemory_bytes:
            continue
        forced = before.maximum_bytes or observation.budget_bytes
        kept = min(before.maxmemory_bytes, forced, observation.budget_bytes)
        lost = kept - after.maxmemory_bytes
        assert lost <= 0 or spare < observation.unit_bytes, (before, after)
        if is_quiet(before, observation):
            most = max(int(QUIET_STEP_RATIO * before.maxmemory_bytes), observation.unit_bytes)
            assert lost <= most + excess
        if not reads:
            assert lost <= excess + observation.unit_bytes * len(plan.servers)


def spare_in_force(observation: Observation) -> int:
    """Return what the budget has above the sizes in force, taken into each server's bounds."""
    needed = 0
    for item in observation.servers:
        high = item.maximum_bytes or observation.budget_bytes
        within = min(max(item.maxmemory_bytes, item.minimum_bytes, 1), high)
        needed += item.maxmemory_bytes if item.keep_reason else within
    return observation.budget_bytes - needed


def test_a_bound_on_misses_takes_memory_and_is_told():
    busy, rate = server("busy", 44), 10.0
    free = plan_for(busy, server("small", 20, rate))
    most = rate * (1 - free.servers[1].hit_ratio) * 0.9
    plan = plan_for(busy, server("small", 20, rate, bounds={"miss_bound_per_second": most}))
    assert plan.reason.startswith(("miss_bound:", "gain:"))
    assert rate * (1 - plan.servers[1].hit_ratio) <= most
    assert f"its bound of {most:.4g} misses a second is met" in plan.servers[1].reason


def test_of_two_bounds_of_one_server_the_stricter_decides():
    busy, both = server("busy", 44), {"latency_bound_seconds": 0.0195}
    alone = plan_for(busy, server("small", 20, 10.0, bounds=both))
    looser = 10.0 * (1 - alone.servers[1].hit_ratio) + 1
    same = plan_for(
        busy, server("small", 20, 10.0, bounds={**both, "miss_bound_per_second": looser})
    )
    assert sizes_mib(same) == sizes_mib(alone)
    assert same.servers[1].reason.count(" is met") == 2
    unmeetable = plan_for(
        busy, server("small", 20, 10.0, bounds={**both, "miss_bound_per_second": 1e-9})
    )
    assert sizes_mib(unmeetable) == sizes_mib(alone)
    assert "misses a second cannot be met by any size" in unmeetable.servers[1].reason


def test_a_backend_that_is_said_to_be_faster_than_its_cache_makes_memory_no_harm():
    """A miss includes the look into the cache: what is below that is a mistake."""
    mistaken = server("mistaken", 50, cache_latency_seconds=2e-4, backend_latency_seconds=1e-4)
    steep = MissRatioCurve(np.array([0.0, 30.0 * MIB]), np.array([1.0, 0.0]))
    plan = plan_for(mistaken, server("db", 40, curve=steep), budget_mib=90)
    assert (plan.decision, plan.optimality_gap) == ("keep", 0.0)
    assert plan.servers[0].eat_seconds == 2e-4
    plan = plan_for(mistaken, server("db", 20, curve=steep), budget_mib=75)
    assert sizes_mib(plan)[1] >= 30
    hopeless = dataclasses.replace(mistaken, bounds={"latency_bound_seconds": 1.5e-4})
    plan = plan_for(hopeless, server("db", 20, curve=steep), budget_mib=75)
    assert "cannot be met: it is below the time of its cache itself" in plan.servers[0].reason


def test_going_back_needs_no_gain_and_no_curve_stops_it():
    """The observation's bounds are the sizes to go back to."""

    def bounded(name: str, size_mib: float, back_mib: int) -> ServerObservation:
        back = {"minimum_bytes": back_mib * MIB, "maximum_bytes": back_mib * MIB}
        return server(name, size_mib, curve_error_ratio=1.0, **back)

    def plan(*servers: ServerObservation) -> AdaptationPlan:
        observation = Observation("n1", 7, 1e6, 60.0, 64 * MIB, servers, goes_back=True)
        return make_plan(observation, now_seconds=1e6)

    back = plan(bounded("a", 50, 32), bounded("b", 14, 32))
    assert (back.decision, sizes_mib(back)) == ("apply", [32, 32])
    assert back.reason.startswith("back: to the sizes from before there were plans")
    assert "shrinks: 18 MiB less" in back.servers[0].reason
    assert not any("maximum" in one.reason for one in back.servers)  # nobody has set one
    there = plan(bounded("a", 32, 32), bounded("b", 32, 32))
    assert there.decision == "keep"
    assert there.reason.startswith("back: no sizes nearer to those from before")
    byte = 1 / MIB
    nearly = plan(bounded("a", 32 - 40 * byte, 32), bounded("b", 32 + 40 * byte, 32))
    assert (nearly.decision, nearly.reason) == ("keep", there.reason)
    unit = plan(bounded("a", 32 - 1 / 16, 32), bounded("b", 32 + 1 / 16, 32))
    assert (unit.decision, sizes_mib(unit)) == ("apply", [32, 32])


def test_where_too_little_is_known_the_best_is_said_to_be_the_best_of_what_is_allowed():
    unknown = server("a", 32, curve_error_ratio=1.0), server("b", 32, curve_error_ratio=1.0)
    assert plan_for(*unknown).reason == (
        "learning: nothing better is known so far that the rules allow: "
        "a, b (too little is known of the reads so far) may not shrink now"
    )
    mib = {"a": 21, "b": 21, "c": 22}
    three = [server(name, size, curve_error_ratio=1.0) for name, size in mib.items()]
    assert plan_for(*three).reason == (
        "learning: nothing better is known so far: all servers are still being learnt, and none "
        "may shrink until that is done"
    )
