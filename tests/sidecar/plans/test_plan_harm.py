"""What a plan would do, by what the sidecar itself knows: each rule, whoever planned."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from sidecar.plans.plan_check import PlanRefusedError
from sidecar.plans.plan_harm import check_harm, check_ranges, reasons_for_a_loss
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.planning.planner import make_plan
from tests.examples import examples
from tests.solver_lambda.odd_observations import odd_observations

MB = 1 << 20
# With 16 MB nothing misses, with none all.
NEEDED = MissRatioCurve(np.array([16.0 * MB]), np.array([0.0]))
USELESS = MissRatioCurve(np.array([1.0 * MB]), np.array([0.5]))
SETTINGS = PlanningSettings(minimum_gain_ratio=0.0)


def seen(planning: PlanningSettings = SETTINGS, **of_a: Any) -> Observation:
    """A needs its 16 MB; B has as much, and cannot use more than one."""
    a = ServerObservation("a", 16 * MB, MB, 1.0, 1000.0, 0.001, 0.101, NEEDED)
    b = replace(a, name="b", curve=USELESS)
    return Observation("n", 7, 1e6, 60.0, 32 * MB, (replace(a, **of_a), b), planning=planning)


def refusal(check: Any, a_bytes: int, observation: Observation) -> PlanRefusedError:
    with pytest.raises(PlanRefusedError) as refused:
        check({"a": a_bytes, "b": 16 * MB}, observation)
    return refused.value


@given(observation=odd_observations())
@settings(max_examples=examples(150), deadline=None)
def test_what_our_planner_makes_is_never_refused(observation: Observation) -> None:
    # As it is planned elsewhere, from the document.
    read = Observation.loads(observation.dumps(), "o.json")
    plan = make_plan(read, now_seconds=1e6)
    if plan.decision == "apply":
        sizes = {server.name: server.maxmemory_bytes for server in plan.servers}
        check_ranges(sizes, observation)
        check_harm(sizes, observation)


# Name: (what is so of the server, the least that it may have, why).
RANGES: dict[str, tuple[dict[str, Any], dict[str, Any], int, str]] = {
    "free": ({}, {}, MB, ""),
    "kept": ({"keep_reason": "stuck: it is"}, {}, 16 * MB, " (stuck: it is)"),
    "curve": (
        {"curve_error_ratio": 0.4},
        {},
        16 * MB,
        " (too little is known of its curve: it may be off by 40 points",
    ),
    "dwell": (
        {"changed_at_seconds": 1e6 - 9},
        {"dwell_seconds": 60.0},
        16 * MB,
        " (it was changed",
    ),
    "step": ({}, {"maximum_step_ratio": 0.25}, 12 * MB, " (maximum_step_ratio 0.25 limits"),
    "quiet": (
        {"request_rate_per_second": 0.1},
        {},
        16 * MB - int(1.6 * MB),
        " (a server loses a tenth of its size at most: hardly any reads",
    ),
}


@pytest.mark.parametrize("name", RANGES)
def test_no_size_is_below_what_a_cycle_may_lead_to(name: str) -> None:
    of_a, planning, least, why = RANGES[name]
    observation = seen(replace(SETTINGS, **planning), **of_a)
    check_ranges({"a": least, "b": 16 * MB}, observation)
    # The first one and the last one.
    for servers in (observation.servers, observation.servers[::-1]):
        refused = refusal(check_ranges, least - 1, replace(observation, servers=servers))
        assert refused.code == "out_of_range"
        assert re.match("out_of_range: a: .* it may have .* to .*" + re.escape(why), str(refused))


def test_where_no_split_keeps_the_rules_every_size_stays() -> None:
    observation = seen(keep_reason="stuck: it is")
    observation = replace(
        observation,
        budget_bytes=20 * MB,
        servers=(
            observation.servers[0],
            replace(observation.servers[1], keep_reason="stuck: it is"),
        ),
    )
    check_ranges({"a": 16 * MB, "b": 16 * MB}, observation)
    assert "(the sizes that must be kept" in str(refusal(check_ranges, 15 * MB, observation))


def test_no_error_of_a_curve_excuses_a_loss() -> None:
    # A gives a sixteenth: of its reads, half of all, so many more miss.
    for error in (0.0, 1 / 16):
        refused = refusal(check_harm, 15 * MB, seen(curve_error_ratio=error))
        assert refused.code == "harmful"
        assert re.search(r"would be .* instead of .*", str(refused))
    # Also where it is small beside what a read takes anyway.
    assert refusal(check_harm, 8 * MB - MB // 2, seen(maxmemory_bytes=8 * MB)).code == "harmful"


@pytest.mark.parametrize("busy_unit", [-1, 0, 1])
def test_a_busy_server_that_hardly_moves_pays_for_nobody(busy_unit: int) -> None:
    """Three such plans, each within its error, emptied a cache."""
    observation = seen(request_rate_per_second=50.0)
    a, busy = observation.servers
    busy = replace(busy, request_rate_per_second=950.0, curve_error_ratio=0.05)
    observation = replace(observation, servers=(a, busy))
    sizes = {"a": 8 * MB, "b": 16 * MB + busy_unit * observation.unit_bytes}
    with pytest.raises(PlanRefusedError, match="harmful"):
        check_harm(sizes, observation)


def test_what_may_be_chance_pays_for_nothing() -> None:
    """A loses a sixteenth, C gains as much and a little more."""
    observation = seen()
    a, b = observation.servers
    c = replace(a, name="c", maxmemory_bytes=8 * MB, request_rate_per_second=1200.0)
    observation = replace(observation, servers=(a, b, c), budget_bytes=40 * MB)
    sizes = {"a": 15 * MB, "b": 16 * MB, "c": 9 * MB}
    settled = PlanningSettings(minimum_gain_ratio=1.0)  # our own planner moves nothing
    check_harm(sizes, replace(observation, planning=settled))
    with pytest.raises(PlanRefusedError, match=r"instead of .*, and 5\.00% less may be chance"):
        check_harm(sizes, replace(observation, planning=settled, chance_ratio=0.05))
    # Where nobody loses, nothing has to be paid.
    sizes = {"a": 16 * MB, "b": 15 * MB, "c": 9 * MB}
    check_harm(sizes, replace(observation, planning=settled, chance_ratio=1.0))


def test_memory_is_not_taken_for_nobody() -> None:
    observation = seen()
    rounded = 2 * observation.unit_bytes
    check_harm({"a": 16 * MB, "b": 16 * MB - rounded}, observation)
    with pytest.raises(PlanRefusedError, match=r"wasteful: takes 14 MiB that nobody gets"):
        check_harm({"a": 16 * MB, "b": 2 * MB}, observation)
    check_harm({"a": 16 * MB, "b": 2 * MB}, replace(observation, budget_bytes=18 * MB))


def test_a_loss_that_our_own_plan_would_have_is_none() -> None:
    """Above its maximum it has to give, whatever that costs; but no more than that."""
    above = seen(maximum_bytes=8 * MB)
    check_harm({"a": 8 * MB, "b": 16 * MB}, above)
    assert refusal(check_harm, 7 * MB, above).code == "harmful"


def test_reasons_for_a_loss_are_those_that_we_see() -> None:
    sizes = {"a": 12 * MB, "b": 20 * MB}
    assert reasons_for_a_loss(sizes, seen()) == set()
    assert reasons_for_a_loss(sizes, seen(maximum_bytes=8 * MB)) == {"bounds"}
    assert reasons_for_a_loss(sizes, seen(maxmemory_bytes=0)) == {"no_limit"}
    back = replace(seen(maximum_bytes=8 * MB), goes_back=True)
    assert reasons_for_a_loss(sizes, back) == {"back"}
    bounded = seen(maxmemory_bytes=8 * MB, bounds={"miss_bound_per_second": 100.0})
    assert reasons_for_a_loss(sizes, bounded) == {"miss_bound"}
    assert reasons_for_a_loss({**sizes, "a": 7 * MB}, bounded) == set()
    assert reasons_for_a_loss({**sizes, "a": 8 * MB}, bounded) == set()
    just_met = seen(maxmemory_bytes=8 * MB, bounds={"miss_bound_per_second": 500.0})
    assert reasons_for_a_loss(sizes, just_met) == set()
    met = seen(bounds={"miss_bound_per_second": 100.0})
    assert reasons_for_a_loss({**sizes, "a": 16 * MB}, met) == set()
