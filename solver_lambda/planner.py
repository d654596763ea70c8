"""From an observation to an adaptation plan."""

from __future__ import annotations

import resource
import time

import numpy as np

from solver_lambda.dirichlet import DirichletSearch
from solver_lambda.effective_access_time import EffectiveAccessTime
from solver_lambda.hill_climbing import LookAhead
from solver_lambda.hull import hull_segments
from solver_lambda.observation import Observation
from solver_lambda.plan import AdaptationPlan, ServerPlan
from solver_lambda.problem import SizeRange, build_problem, shares

# The thesis measured that the Dirichlet search is the better one up to here.
MOST_SERVERS_FOR_DIRICHLET = 7


def make_plan(observation: Observation, *, now_seconds: float) -> AdaptationPlan:
    """The plan for an observation; ``now_seconds`` is Unix time, and only dates the plan."""
    started = time.perf_counter()
    budget = observation.budget_bytes
    ranges = {
        server.name: SizeRange(
            server.minimum_bytes if server.keep_reason is None else server.maxmemory_bytes,
            (server.maximum_bytes or budget)
            if server.keep_reason is None
            else server.maxmemory_bytes,
        )
        for server in observation.servers
    }
    problem = build_problem(observation, ranges)
    method = observation.planning.method
    if method == "auto":
        few = len(problem.names) <= MOST_SERVERS_FOR_DIRICHLET
        method = "dirichlet" if few else "hill_climbing"
    if method == "dirichlet":
        units = DirichletSearch(seed=observation.planning.seed).solve(problem)
    else:
        units = LookAhead(problem, hull_segments(problem)).solve()
    sizes = problem.sizes_bytes(units)
    share = shares(observation.servers)
    plans = []
    before_seconds = after_seconds = 0.0
    for server in observation.servers:
        eat = EffectiveAccessTime.of(server)
        before, after = server.maxmemory_bytes, sizes[server.name]
        eat_before, eat_after = (float(x) for x in eat.seconds(np.array([before, after])))
        before_seconds += share[server.name] * eat_before
        after_seconds += share[server.name] * eat_after
        plans.append(
            ServerPlan(
                name=server.name,
                maxmemory_before_bytes=before,
                maxmemory_bytes=after,
                hit_ratio_before=1 - float(server.curve.miss_ratio(before)),
                hit_ratio=1 - float(server.curve.miss_ratio(after)),
                eat_before_seconds=eat_before,
                eat_seconds=eat_after,
                marginal_gain_seconds_per_mebibyte=share[server.name]
                * (eat_after - float(eat.seconds(after + 1048576))),
                reason="grows: " if after > before else "shrinks: ",
                settings_version=server.settings_version,
            )
        )
    return AdaptationPlan(
        node=observation.node,
        cycle=observation.cycle,
        observation_made_at_seconds=observation.made_at_seconds,
        made_at_seconds=now_seconds,
        budget_bytes=budget,
        method=method,
        decision="apply",
        reason="gain",
        optimality_gap=0.0,
        mean_access_time_before_seconds=before_seconds,
        mean_access_time_seconds=after_seconds,
        servers=tuple(plans),
        run_seconds=time.perf_counter() - started,
        run_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
