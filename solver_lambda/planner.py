"""From an observation to an adaptation plan: solve, then decide whether moving is worth it."""

from __future__ import annotations

import resource
import time
from typing import NamedTuple

from solver_lambda.effective_access_time import EffectiveAccessTime
from solver_lambda.explanation import explain_server, size_in_force, what_if
from solver_lambda.latency_bounds import reserve_for_bounds
from solver_lambda.moving import moving_seconds
from solver_lambda.observation import Observation, ServerObservation
from solver_lambda.plan import AdaptationPlan
from solver_lambda.problem import build_problem, shares
from solver_lambda.size_ranges import InfeasibleError, SizeRange, size_ranges
from solver_lambda.solver import Solution, solve, with_surplus


class _Decision(NamedTuple):
    """``apply`` or ``keep``, and why."""

    word: str
    reason: str


def make_plan(observation: Observation, *, now_seconds: float) -> AdaptationPlan:
    """The plan for an observation.

    The same observation gives the same plan, unless the solver runs out of its time limit:
    ``now_seconds``, Unix time, only dates it, and the rules about time count from the moment of
    the observation.

    A node on which no split keeps the rules gets a plan that keeps all sizes and says why.
    """
    started = time.perf_counter()
    deadline = started + observation.planning.time_limit_seconds
    in_force = {server.name: server.maxmemory_bytes for server in observation.servers}
    ranges: dict[str, SizeRange] = {}
    solution, sizes = None, in_force
    try:
        ranges = size_ranges(observation)
        solution, sizes = _best_split(observation, ranges, deadline)
        decision = _decide(observation, sizes)
    except InfeasibleError as error:
        decision = _Decision("keep", f"infeasible: {error}")
    if decision.word == "keep":
        sizes = in_force
    share = shares(observation.servers)
    held = {name: found.kept_because for name, found in ranges.items()}
    keep = decision.reason if decision.word == "keep" else None
    servers = tuple(
        explain_server(
            server,
            sizes[server.name],
            share=share[server.name],
            held=held.get(server.name) or keep,
        )
        for server in observation.servers
    )
    before = sum(share[server.name] * server.eat_before_seconds for server in servers)
    after = sum(share[server.name] * server.eat_seconds for server in servers)
    return AdaptationPlan(
        node=observation.node,
        cycle=observation.cycle,
        observation_made_at_seconds=observation.made_at_seconds,
        made_at_seconds=now_seconds,
        budget_bytes=observation.budget_bytes,
        method=solution.method if solution else observation.planning.method,
        decision=decision.word,
        reason=decision.reason,
        optimality_gap=solution.gap_ratio if solution else 0.0,
        mean_access_time_before_seconds=before,
        mean_access_time_seconds=after,
        servers=servers,
        what_if=what_if(observation, after, deadline_seconds=deadline),
        run_seconds=time.perf_counter() - started,
        run_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _best_split(
    observation: Observation, ranges: dict[str, SizeRange], deadline_seconds: float
) -> tuple[Solution, dict[str, int]]:
    problem = build_problem(observation, ranges, budget_bytes=observation.budget_bytes, moving=True)
    problem = reserve_for_bounds(problem, observation, deadline_seconds=deadline_seconds)
    solution = solve(problem, observation.planning, deadline_seconds=deadline_seconds)
    return solution, problem.sizes_bytes(with_surplus(problem, solution.units))


def _decide(observation: Observation, sizes: dict[str, int]) -> _Decision:
    """Hysteresis: nothing moves unless it must, or the gain is worth it."""
    changed = [s for s in observation.servers if sizes[s.name] != s.maxmemory_bytes]
    if not changed:
        return _Decision("keep", "optimal: the sizes in force are the best found")
    if must := _must_move(observation):
        return _Decision("apply", must)
    for server in changed:
        if _nearer_to_bound(server, sizes[server.name], observation):
            return _Decision("apply", f"latency_bound: {server.name} comes nearer to its bound")
    share = shares(observation.servers)
    if not any(share.values()):
        return _Decision("keep", "no_demand: no server has both reads and a weight")
    before = after = moving = 0.0
    for server in observation.servers:
        eat = EffectiveAccessTime.of(server)
        part = share[server.name]
        before += part * float(eat.seconds(size_in_force(server)))
        after += part * float(eat.seconds(sizes[server.name]))
        moving += part * float(
            moving_seconds(server, sizes[server.name], observation.planning.horizon_seconds)
        )
    gain = (before - after - moving) / before if before > 0 else 0.0
    words = (
        f"mean access time from {before * 1e3:.4g} ms to {after * 1e3:.4g} ms, "
        f"{gain:.2%} less with the cost of moving counted"
    )
    least = observation.planning.minimum_gain_ratio
    if gain <= 0 or gain < least:
        return _Decision("keep", f"small_gain: {words}; moving starts at {least:.2%}")
    return _Decision("apply", f"gain: {words}")


def _must_move(observation: Observation) -> str | None:
    """Why the sizes in force cannot stay, or ``None``."""
    for server in observation.servers:
        if not server.maxmemory_bytes:
            return f"no_limit: {server.name} has no maxmemory"
    total = sum(server.maxmemory_bytes for server in observation.servers)
    if total > observation.budget_bytes:
        return f"over_budget: the sizes in force sum to {total} bytes"
    for server in observation.servers:
        if server.keep_reason is not None:
            continue
        if server.maxmemory_bytes < server.minimum_bytes:
            return f"bounds: {server.name} is below its minimum of {server.minimum_bytes} bytes"
        if server.maximum_bytes is not None and server.maxmemory_bytes > server.maximum_bytes:
            return f"bounds: {server.name} is above its maximum of {server.maximum_bytes} bytes"
    return None


def _nearer_to_bound(server: ServerObservation, size_bytes: int, observation: Observation) -> bool:
    bound = server.latency_bound_seconds
    if bound is None:
        return False
    before, after = (
        float(seconds)
        for seconds in EffectiveAccessTime.of(server).seconds([size_in_force(server), size_bytes])
    )
    least = observation.planning.minimum_gain_ratio
    return before > bound and after < before * (1 - least)
