"""What a plan says of other budgets, held against a search over every unit of them."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.reader import DocumentError
from solver_lambda.planning.planner import make_plan
from solver_lambda.planning.problem_grid import shares

RATIOS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
SEEDS = st.integers(0, 10**6)


def asking(observation: Observation, **changes: object) -> Observation:
    return dataclasses.replace(observation, budget_ratios=RATIOS, **changes)


def figures(observation: Observation, sizes_bytes: list[int]) -> tuple[float, float]:
    """Return the mean access time and misses a second, server by server."""
    share, seconds, misses = shares(observation.servers), 0.0, 0.0
    for server, size in zip(observation.servers, sizes_bytes, strict=True):
        ratio = float(server.curve.miss_ratio([size])[0])
        cost = server.cache_latency_seconds * (1 - ratio) + server.backend_latency_seconds * ratio
        seconds += share[server.name] * cost
        misses += server.request_rate_per_second * ratio
    return seconds, misses


def best_of_all(observation: Observation, budget_bytes: int) -> float:
    """Try for two servers each size of the first, in steps of a quarter of a unit."""
    least = observation.unit_bytes
    return min(
        figures(observation, [size, budget_bytes - size])[0]
        for size in range(least, budget_bytes - least + 1, least // 4)
    )


@SHARED
@given(seed=SEEDS)
def test_each_budget_brings_what_its_best_division_brings(make_observation, seed):
    observation = asking(make_observation(2, units=64, seed=seed))
    plan = make_plan(observation, now_seconds=2e6)
    assert {round(observation.budget_bytes * ratio) for ratio in RATIOS} <= {
        one.budget_bytes for one in plan.what_if
    }
    for one in plan.what_if:
        slow = best_of_all(observation, one.budget_bytes)
        less = best_of_all(observation, one.budget_bytes - 2 * observation.unit_bytes)
        assert slow * (1 - 1e-9) <= one.mean_access_time_seconds <= less * (1 + 0.0006)
        each = [one.budget_bytes // 2] * 2
        equal = figures(observation, each)
        told = (one.equal_sizes_seconds, one.equal_sizes_misses_per_second)
        assert told == pytest.approx(equal)
        reads = sum(server.request_rate_per_second for server in observation.servers)
        assert one.hit_ratio == pytest.approx(1 - one.misses_per_second / reads)
    times = [one.mean_access_time_seconds for one in plan.what_if]
    assert times == sorted(times, reverse=True)


@SHARED
@given(seed=SEEDS, first=st.integers(1, 255))
def test_the_least_budget_that_is_as_fast_as_now_is_found(make_observation, seed, first):
    """With less than a 32nd of the way to the next lower one it would be slower."""
    observation = make_observation(2, seed=seed)
    sizes = [first * observation.unit_bytes]
    sizes.append(observation.budget_bytes - sizes[0])
    servers = tuple(
        dataclasses.replace(server, maxmemory_bytes=size)
        for server, size in zip(observation.servers, sizes, strict=True)
    )
    observation = asking(observation, servers=servers)
    plan = make_plan(observation, now_seconds=2e6)
    now = plan.mean_access_time_before_seconds
    enough = [one.budget_bytes for one in plan.what_if if one.mean_access_time_seconds <= now]
    least = plan.what_if[0].budget_bytes
    if enough[0] > least:
        between = enough[0] - observation.budget_bytes // 4 // 32 - 3 * observation.unit_bytes
        assert best_of_all(observation, between) > now * (1 - 1e-9)


def test_it_is_held_against_the_sizes_before_and_against_equal_ones(make_observation):
    """Each of the three adds a budget of its own."""
    smooth = [
        MissRatioCurve(np.arange(400) * 65536.0, np.exp(-np.arange(400) / s)) for s in (9, 90)
    ]
    observation = make_observation(2)
    unit, budget = observation.unit_bytes, observation.budget_bytes
    servers = tuple(
        dataclasses.replace(
            server,
            curve=curve,
            weight=1.0,
            request_rate_per_second=100.0,
            backend_latency_seconds=latency,
            maxmemory_bytes=now * unit,
            installed_bytes=found * unit,
        )
        for server, curve, latency, now, found in zip(
            observation.servers, smooth, (0.3, 0.01), (200, 58), (225, 33), strict=True
        )
    )
    observation = asking(observation, servers=servers)
    plan = make_plan(observation, now_seconds=2e6)
    asked = {round(budget * ratio) for ratio in RATIOS}
    added = [one for one in plan.what_if if one.budget_bytes not in asked]
    assert len(added) == 3
    limits = [
        ("mean_access_time_seconds", figures(observation, [225 * unit, 33 * unit])[0]),
        ("mean_access_time_seconds", plan.mean_access_time_before_seconds),
        ("misses_per_second", figures(observation, [budget // 2, budget // 2])[1]),
    ]
    for key, limit in limits:
        enough = [one for one in plan.what_if if getattr(one, key) <= limit]
        assert enough[0] in added, key
        lower = plan.what_if[plan.what_if.index(enough[0]) - 1]
        assert getattr(lower, key) > limit


def test_who_does_not_ask_reads_what_older_sidecars_read(make_observation):
    plan = make_plan(make_observation(3), now_seconds=2e6)
    assert [set(one.to_json()) for one in plan.what_if] == [
        {"budget_bytes", "mean_access_time_seconds"}
    ] * 4


def test_who_keeps_his_size_keeps_it_with_every_budget(make_observation):
    base = make_observation(2)
    kept = dataclasses.replace(base.servers[0], keep_reason="replica")
    plan = make_plan(asking(base, servers=(kept, base.servers[1])), now_seconds=2e6)
    for one in plan.what_if:
        assert one.budget_bytes >= kept.maxmemory_bytes
        sizes = [kept.maxmemory_bytes, one.budget_bytes - kept.maxmemory_bytes]
        assert one.mean_access_time_seconds >= figures(base, sizes)[0] * (1 - 1e-9)


def test_nobody_reads_and_nothing_is_divided_by_nothing(make_observation):
    base = make_observation(2)
    idle = tuple(dataclasses.replace(one, request_rate_per_second=0.0) for one in base.servers)
    plan = make_plan(asking(base, servers=idle), now_seconds=2e6)
    assert [one.hit_ratio for one in plan.what_if] == [None] * len(RATIOS)
    assert all(one.misses_per_second == 0 for one in plan.what_if)


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ([0.01], "budget_ratios has 0.01, not from 0.05 to 20"),
        ([1.0, 21], "budget_ratios has 21, not from 0.05 to 20"),
        ([1.0] * 33, "must have 32 numbers at most"),
    ],
)
def test_a_budget_that_nobody_has_is_refused(make_observation, ratios, words):
    document = {**make_observation(2).to_json(), "budget_ratios": ratios}
    with pytest.raises(DocumentError, match=words):
        Observation.loads(json.dumps(document), "d")


def test_more_servers_and_rules_bring_no_budget_twice(make_observation):
    for servers, step in itertools.product((1, 5, 9), (None, 0.05)):
        observation = asking(make_observation(servers, maximum_step_ratio=step))
        plan = make_plan(observation, now_seconds=2e6)
        budgets = [one.budget_bytes for one in plan.what_if]
        assert budgets == sorted(set(budgets))
