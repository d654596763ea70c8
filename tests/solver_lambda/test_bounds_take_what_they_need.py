"""A bound of memory that changed moves what it needs; the rest of a plan is judged as any plan."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.planning.planner import make_plan
from tests.solver_lambda.test_plans_take_little import MIB, plan_for, server, sizes_mib

KIB = 1 << 10
FLAT = MissRatioCurve(np.array([0.0]), np.array([0.5]))


def three(least_kib: int = 0, **flat_one: object):
    """The first needs nothing of what it has; the last has a minimum of so much above its size."""
    return (
        server("flat", 24, **{"curve": FLAT, **flat_one}),
        server("steep", 20),
        server("raised", 20, minimum_bytes=20 * MIB + least_kib * KIB),
    )


def test_a_minimum_that_is_raised_a_little_moves_as_much_where_no_more_is_worth_it():
    plan = plan_for(*three(128), minimum_gain_ratio=0.9)
    assert plan.decision == "apply"
    assert plan.reason.startswith("bounds: raised is below its minimum of ")
    flat, steep, raised = sizes_mib(plan)
    assert raised == 20.125
    # The others give in proportion to what they have above their minima.
    assert 24 - flat == pytest.approx(0.125 * 22 / 40, abs=1e-5)
    assert 20 - steep == pytest.approx(0.125 * 18 / 40, abs=1e-5)


def test_a_gain_beside_a_raised_minimum_is_taken_where_it_is_worth_it():
    plan = plan_for(*three(128), minimum_gain_ratio=0.01)
    assert plan.reason.startswith("bounds: ")
    flat, steep, raised = sizes_mib(plan)
    assert flat == pytest.approx(2, abs=0.1)
    assert min(steep, raised) > 25


def test_what_is_left_unassigned_is_taken_first():
    plan = plan_for(*three(128), minimum_gain_ratio=0.9, budget_mib=65)
    assert sizes_mib(plan) == [24, 20, 20.125]


def test_a_maximum_that_is_lowered_a_little_takes_as_much():
    above = three(maximum_bytes=24 * MIB - 128 * KIB)
    assert sizes_mib(plan_for(*above, minimum_gain_ratio=0.9)) == [23.875, 20, 20]


def test_a_curve_that_may_be_wrong_gives_nothing():
    plan = plan_for(*three(128, curve_error_ratio=0.9), minimum_gain_ratio=0.9)
    assert sizes_mib(plan) == [24, 19.875, 20.125]


def test_a_change_holds_for_its_time_but_for_what_the_bound_needs():
    changed = [dataclasses.replace(one, changed_at_seconds=1e6 - 30) for one in three(128)]
    plan = plan_for(*changed, minimum_gain_ratio=0.01, dwell_seconds=600.0)
    flat, steep, raised = sizes_mib(plan)
    assert raised == 20.125
    assert min(flat, steep) > 19.9


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    servers=st.integers(2, 9),
    more_bytes=st.integers(1, 1 << 19),
    step=st.sampled_from([None, 0.05, 0.5]),
)
def test_it_gets_its_minimum_to_the_byte_and_nobody_else_grows(
    make_observation, seed, servers, more_bytes, step
):
    observation = make_observation(servers, seed=seed, maximum_step_ratio=step)
    first, *others = observation.servers
    least = min(first.maxmemory_bytes + more_bytes, observation.budget_bytes // 2)
    first = dataclasses.replace(first, minimum_bytes=least)
    observation = dataclasses.replace(observation, servers=(first, *others), chance_ratio=1.0)
    if (
        least <= first.maxmemory_bytes
        or least + sum(one.minimum_bytes for one in others) > observation.budget_bytes
    ):
        return
    plan = make_plan(observation, now_seconds=2e6)
    assert plan.servers[0].maxmemory_bytes == least
    after = [one.maxmemory_bytes for one in plan.servers[1:]]
    before = [one.maxmemory_bytes for one in others]
    assert all(now <= then for now, then in zip(after, before, strict=True))
    assert sum(after) == min(sum(before), observation.budget_bytes - least)
