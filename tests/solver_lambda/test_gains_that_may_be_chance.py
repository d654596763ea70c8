"""A plan that gains no more than what may be chance changes nothing, unless something must move."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solver_lambda.documents.observation import Observation
from solver_lambda.documents.reader import DocumentError
from solver_lambda.planning.planner import make_plan

SHARED = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None
)


def plan_of(observation, chance_ratio):
    observation = dataclasses.replace(observation, chance_ratio=chance_ratio)
    return make_plan(observation, now_seconds=2e6)


def with_server(observation, number, **changes):
    servers = list(observation.servers)
    servers[number] = dataclasses.replace(servers[number], **changes)
    return dataclasses.replace(observation, servers=tuple(servers))


@SHARED
@given(seed=st.integers(0, 10**6), servers=st.integers(2, 9))
def test_a_gain_moves_if_it_is_more_than_chance_and_the_least_gain_together(
    make_observation, seed, servers
):
    observation = make_observation(servers, seed=seed)
    certain = plan_of(observation, 0.0)
    if certain.decision == "keep":
        return
    gain = certain.predicted_gain_ratio
    least = observation.planning.minimum_gain_ratio
    assert plan_of(observation, min(1.0, gain)).decision == "keep"
    if gain > least + 2e-4:
        below = plan_of(observation, gain - least - 1e-4)
        assert below.decision == "apply"
        assert below.servers == certain.servers


def test_the_words_say_how_much_is_chance(make_observation):
    observation = make_observation(4, seed=5)
    plan = plan_of(observation, 0.9876)
    assert plan.decision == "keep"
    assert plan.reason.startswith("small_gain: a better split would gain ")
    assert (
        "; it takes 98.96% to move (98.76% that may be chance + 0.20% minimum gain)" in plan.reason
    )
    high = dataclasses.replace(observation.planning, minimum_gain_ratio=0.99)
    without = plan_of(dataclasses.replace(observation, planning=high), 0.0)
    assert without.reason.startswith("small_gain:")
    assert "chance" not in without.reason


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("over_budget", {"maxmemory_bytes": 300 << 16}),
        ("no_limit", {"maxmemory_bytes": 0}),
        ("bounds", {"maxmemory_bytes": 1 << 16, "minimum_bytes": 4 << 16}),
        ("bounds", {"maxmemory_bytes": 60 << 16, "maximum_bytes": 40 << 16}),
    ],
)
def test_what_must_move_moves_whatever_may_be_chance(make_observation, code, changes):
    observation = with_server(make_observation(3, seed=2), 0, **changes)
    plan = plan_of(observation, 1.0)
    assert (plan.decision, plan.reason.partition(":")[0]) == ("apply", code)
    assert sum(s.maxmemory_bytes for s in plan.servers) <= observation.budget_bytes


def test_a_bound_that_is_not_met_is_not_left_for_chance(make_observation):
    observation = make_observation(3, seed=1, minimum_gain_ratio=0.0)
    free = plan_of(observation, 0.0)
    in_force = free.servers[1].eat_before_seconds
    best = min(free.servers[1].eat_seconds, in_force)
    bounds = {"latency_bound_seconds": 0.95 * best}
    plan = plan_of(with_server(observation, 1, bounds=bounds), 1.0)
    assert (plan.decision, plan.reason.partition(":")[0]) == ("apply", "latency_bound")
    assert plan.servers[1].eat_seconds <= 0.95 * best


def test_the_document_tells_it_and_earlier_sidecars_need_not(make_observation):
    observation = dataclasses.replace(make_observation(2), chance_ratio=0.25)
    assert Observation.loads(observation.dumps(), "x").chance_ratio == 0.25
    document = json.loads(observation.dumps())
    del document["chance_ratio"]
    assert Observation.loads(json.dumps(document), "x").chance_ratio == 0
    for wrong in (-0.1, 1.1):
        with pytest.raises(DocumentError, match="chance_ratio"):
            Observation.loads(json.dumps({**document, "chance_ratio": wrong}), "x")
