"""What a plan must always keep, and the rules around the solver."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import Observation
from solver_lambda.planning.cost_of_moving import moving_misses
from solver_lambda.planning.planner import make_plan
from solver_lambda.solvers.dirichlet import DirichletSearch

MIB = 1 << 20

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
SEEDS = st.integers(0, 10**6)


def sizes(plan):
    return {server.name: server.maxmemory_bytes for server in plan.servers}


def with_server(observation, number, **changes):
    servers = list(observation.servers)
    servers[number] = dataclasses.replace(servers[number], **changes)
    return dataclasses.replace(observation, servers=tuple(servers))


def plan_of(observation, **planning):
    changed = dataclasses.replace(observation.planning, **planning)
    return make_plan(dataclasses.replace(observation, planning=changed), now_seconds=2e6)


@SHARED
@given(seed=SEEDS, servers=st.integers(1, 9), step=st.sampled_from([None, 0.05, 0.5]))
def test_budget_and_bounds_always_hold(make_observation, seed, servers, step):
    observation = make_observation(servers, seed=seed, maximum_step_ratio=step)
    high = observation.budget_bytes // 2 + 5
    observation = with_server(observation, 0, maximum_bytes=high)
    plan = plan_of(observation)
    assert sum(sizes(plan).values()) <= observation.budget_bytes
    if plan.decision == "apply":
        for before, after in zip(observation.servers, plan.servers, strict=True):
            assert after.maxmemory_bytes >= before.minimum_bytes
            assert after.maxmemory_bytes <= (before.maximum_bytes or observation.budget_bytes)
            if step and (before.maximum_bytes or high + 1) > before.maxmemory_bytes:
                change = abs(after.maxmemory_bytes - before.maxmemory_bytes)
                assert change <= max(before.maxmemory_bytes * step, observation.unit_bytes)


def test_a_search_that_finds_only_worse_sizes_stays_and_tells_the_gap_of_those_in_force(
    make_observation, monkeypatch
):
    """Without a certificate it may: what the plan says is of the sizes that it leaves in force."""
    observation = make_observation(5, seed=3)
    for _ in range(3):
        best = plan_of(observation, minimum_gain_ratio=0.0)
        observation = dataclasses.replace(
            observation,
            servers=tuple(
                dataclasses.replace(server, maxmemory_bytes=sizes(best)[server.name])
                for server in observation.servers
            ),
        )
    monkeypatch.setattr(DirichletSearch, "solve", lambda _, problem, enough: 0 * problem.limits)
    plan = plan_of(observation, certify=False)
    assert (plan.decision, plan.method) == ("keep", "dirichlet")
    assert plan.reason.startswith(("optimal:", "best_found:"))
    assert plan.optimality_gap < 0.05
    worse = dataclasses.replace(
        observation,
        servers=tuple(dataclasses.replace(s, maxmemory_bytes=1) for s in observation.servers),
    )
    assert plan_of(worse, certify=False).optimality_gap > 0.5


@SHARED
@given(seed=SEEDS, more=st.integers(1, 200))
def test_more_memory_is_never_worse(make_observation, seed, more):
    observation = make_observation(4, seed=seed, minimum_gain_ratio=0.0)
    larger = dataclasses.replace(
        observation, budget_bytes=observation.budget_bytes + more * observation.unit_bytes
    )
    first, second = plan_of(observation), plan_of(larger)
    assert second.mean_access_time_seconds <= first.mean_access_time_seconds * (1 + 1e-9)
    smaller, *larger_ones = (w.mean_access_time_seconds for w in first.what_if)
    means = [first.mean_access_time_seconds, *larger_ones]
    assert smaller >= larger_ones[0]
    assert means == sorted(means, reverse=True)


@SHARED
@given(seed=SEEDS, order=st.permutations(range(5)), factor=st.floats(1e-3, 1e3))
def test_order_and_common_weight_do_not_matter(make_observation, seed, order, factor):
    observation = make_observation(5, seed=seed)
    shuffled = dataclasses.replace(
        observation,
        servers=tuple(
            dataclasses.replace(
                observation.servers[i], weight=observation.servers[i].weight * factor
            )
            for i in order
        ),
    )
    assert sizes(plan_of(shuffled)) == sizes(plan_of(observation))


@SHARED
@given(seed=SEEDS)
def test_a_server_with_a_flat_curve_gives_what_others_take_and_no_more(make_observation, seed):
    flat = MissRatioCurve(np.array([0.0]), np.array([0.5]))
    observation = with_server(make_observation(3, seed=seed), 1, curve=flat)
    plan = plan_of(observation, minimum_gain_ratio=0)
    if plan.decision == "apply":
        assert sizes(plan)["server-1"] <= observation.servers[1].maxmemory_bytes
        assert sum(sizes(plan).values()) > observation.budget_bytes - observation.unit_bytes
        for before, after in zip(observation.servers, plan.servers, strict=True):
            if after.maxmemory_bytes < before.maxmemory_bytes:
                break
            assert after.name == "server-1" or after.eat_seconds <= after.eat_before_seconds


def test_kept_and_dwelling_servers_keep_their_size_and_the_plan_says_why(make_observation):
    base = make_observation(4, seed=5)
    cases = {
        "replica": {"keep_reason": "replica"},
        "a change holds for 600 s": {"changed_at_seconds": base.made_at_seconds - 30},
    }
    for words, change in cases.items():
        plan = plan_of(with_server(base, 2, **change), dwell_seconds=600.0)
        assert plan.servers[2].maxmemory_bytes == base.servers[2].maxmemory_bytes
        assert words in plan.servers[2].reason


@pytest.mark.parametrize("dwell_seconds", [0.0, 600.0])
def test_a_change_that_a_clock_puts_into_the_future_holds_nothing(make_observation, dwell_seconds):
    base = make_observation(4, seed=5)
    free = plan_of(base, dwell_seconds=dwell_seconds)
    ahead = {"changed_at_seconds": base.made_at_seconds + 3600}
    for number in range(4):
        base = with_server(base, number, **ahead)
    plan = plan_of(base, dwell_seconds=dwell_seconds)
    assert plan.decision == "apply"
    assert sizes(plan) == sizes(free)


def test_no_plan_below_the_minimum_gain(make_observation):
    observation = make_observation(4, seed=5)
    assert plan_of(observation).decision == "apply"
    plan = plan_of(observation, minimum_gain_ratio=0.99)
    assert (plan.decision, plan.reason.split(":")[0]) == ("keep", "small_gain")
    assert sizes(plan) == {s.name: s.maxmemory_bytes for s in observation.servers}


def test_sizes_above_the_budget_must_move_and_the_impossible_is_said(make_observation):
    observation = make_observation(3)
    crowded = with_server(observation, 0, maxmemory_bytes=observation.budget_bytes)
    plan = plan_of(crowded, minimum_gain_ratio=1.0, maximum_step_ratio=0.01)
    assert plan.decision == "apply"
    assert plan.reason.startswith("over_budget")
    stuck = plan_of(
        with_server(crowded, 0, keep_reason="replica", maxmemory_bytes=observation.budget_bytes)
    )
    assert (stuck.decision, stuck.reason.split(":")[0]) == ("keep", "infeasible")


@pytest.mark.parametrize("moving", [None, 100.0])
def test_the_gap_counts_what_a_coarser_grid_hides(make_observation, monkeypatch, moving):
    gaps = []
    for seed in range(8):
        observation = make_observation(3, 60, seed=seed, minimum_gain_ratio=0.0)
        observation = with_server(observation, 0, mean_object_bytes=moving)
        fine = plan_of(observation)
        assert fine.optimality_gap <= 1e-4
        with monkeypatch.context() as patched:
            patched.setattr("solver_lambda.planning.problem_grid.MAX_UNITS", 7)
            coarse = plan_of(observation)
        best = coarse.mean_access_time_seconds * (1 - coarse.optimality_gap)
        assert best <= fine.mean_access_time_seconds * (1 + 1e-9)
        gaps.append(1 - fine.mean_access_time_seconds / coarse.mean_access_time_seconds)
    assert max(gaps) > 0.1, "no case in which the grid hides much"


def test_a_latency_bound_comes_before_the_rest(make_observation):
    observation = make_observation(3, seed=1)
    free = plan_of(observation, minimum_gain_ratio=0.0)
    bound = free.servers[1].eat_seconds * 0.95
    plan = plan_of(with_server(observation, 1, bounds={"latency_bound_seconds": bound}))
    assert plan.servers[1].eat_seconds <= bound
    assert "is met" in plan.servers[1].reason
    mean = free.mean_access_time_seconds
    assert mean < plan.mean_access_time_seconds <= 1.1 * mean


@SHARED
@given(seed=SEEDS, parts=st.lists(st.floats(0.1, 1.0), min_size=4, max_size=4))
def test_latency_bounds_cost_the_node_a_tenth_of_its_mean_at_most(make_observation, seed, parts):
    observation = make_observation(4, seed=seed, minimum_gain_ratio=0.0)
    free = plan_of(observation)
    for number, part in enumerate(parts):
        # None is met in force: then they may cost a little more.
        in_force = free.servers[number].eat_before_seconds
        bound = part * 0.999 * in_force
        observation = with_server(observation, number, bounds={"latency_bound_seconds": bound})
    plan = plan_of(observation)
    assert plan.mean_access_time_seconds <= free.mean_access_time_seconds * 1.1001


@pytest.mark.parametrize(
    ("source", "measured", "fill_ratio", "words"),
    [
        (
            "team",
            0.09,
            0.75,
            ("80 ms as its team says (90 ms measured, which does not count", "25% of the misses"),
        ),
        ("configured", 0.09, 1.0, ("80 ms as configured (90 ms measured, which does not count)",)),
        (
            "configured",
            None,
            0.1,
            (
                "80 ms as configured",
                "not measured: too few fills yet; 90% of the misses were never filled",
            ),
        ),
        ("measured", 0.08, 1.0, ("its backend takes 80 ms as measured",)),
    ],
)
def test_the_plan_says_which_backend_latency_it_used_and_how_far_it_holds(
    make_observation, source, measured, fill_ratio, words
):
    changes = {
        "backend_latency_seconds": 0.08,
        "backend_latency_source": source,
        "measured_backend_latency_seconds": measured,
        "fill_ratio": fill_ratio,
    }
    observation = with_server(make_observation(3), 1, **changes)
    read = Observation.loads(observation.dumps(), "observation")
    reason = plan_of(read).servers[1].reason
    assert all(part in reason for part in words), reason
    assert "backend" not in plan_of(read).servers[0].reason


def test_an_observation_from_before_the_measured_latency_is_read(make_observation):
    table = json.loads(make_observation(2).dumps())
    for server in table["servers"]:
        del server["measured_backend_latency_seconds"], server["fill_ratio"]
    read = Observation.loads(json.dumps(table), "observation")
    assert [server.fill_ratio for server in read.servers] == [None, None]


@pytest.mark.parametrize(("inserted", "written"), [(None, 0), (0.3, 0), (0.5, 0), (4.5, 4)])
def test_the_misses_of_a_move_are_those_of_a_cache_that_fills(make_observation, inserted, written):
    curve = MissRatioCurve(np.array([0.0, 1000.0]), np.array([0.9, 0.1]))
    server = dataclasses.replace(
        make_observation(1).servers[0],
        curve=curve,
        maxmemory_bytes=200,
        mean_object_bytes=0.01,
        miss_ratio=0.5,
        inserted_per_read=inserted,
    )
    size, extra = 200.0, 0.0
    final = float(curve.miss_ratio(800))
    while size < 800:  # one read after the other, each with what is written beside it
        misses = float(curve.miss_ratio(size))
        extra += misses - final
        size += 0.01 * (misses + written)
    assert float(moving_misses(server, 800)) == pytest.approx(extra, rel=0.05)
    assert float(moving_misses(server, 200)) == 0.0


@pytest.mark.parametrize("idle_mib", [0, 10])
def test_one_of_which_nothing_is_known_grows_only_into_what_brings_nobody_hits(
    make_observation, idle_mib
):
    """By a guess it took the memory of a loop that paused for the first time."""
    falls = MissRatioCurve(np.array([0.0, 64.0 * MIB]), np.array([1.0, 0.1]))
    holds = MissRatioCurve(
        np.array([0.0, (16.0 - idle_mib) * MIB, 64.0 * MIB]), np.array([1.0, 0.2, 0.2])
    )
    observation = make_observation(2)
    sizes = {"maxmemory_bytes": 16 * MIB, "minimum_bytes": MIB, "maximum_bytes": None}
    for place, changes in enumerate(
        (
            {"curve": falls, "curve_error_ratio": 1.0, "backend_latency_seconds": 1.0},
            {"curve": holds, "curve_error_ratio": 0.0, "backend_latency_seconds": 0.01},
        )
    ):
        observation = with_server(observation, place, **sizes, **changes)
    observation = dataclasses.replace(observation, budget_bytes=32 * MIB, unit_bytes=MIB // 8)
    planned = [one.maxmemory_bytes for one in plan_of(observation).servers]
    assert planned[0] == pytest.approx((16 + idle_mib) * MIB, abs=MIB // 4)
    # As soon as something is known of it, it may have what is worth more there.
    known = with_server(observation, 0, curve_error_ratio=0.9)
    assert plan_of(known).servers[0].maxmemory_bytes > 27 * MIB
