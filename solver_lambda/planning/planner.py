"""From an observation to an adaptation plan: solve, then decide whether moving is worth it."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from typing import NamedTuple

from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.planning.bounds import Bound, bounds_of
from solver_lambda.planning.coarse_grid import bound_of_finer_grids
from solver_lambda.planning.effective_access_time import EffectiveAccessTime
from solver_lambda.planning.explanation import Circumstances, explain_server, size_in_force, what_if
from solver_lambda.planning.moving import moving_seconds
from solver_lambda.planning.problem_grid import build_problem, shares
from solver_lambda.planning.quiet import is_quiet
from solver_lambda.planning.reservations import Reserved, reserve_for_bounds, with_reserved
from solver_lambda.planning.size_ranges import (
    InfeasibleError,
    SizeRange,
    attainable_minima,
    size_ranges,
)
from solver_lambda.planning.step_limits import Step, along_the_way, step_towards
from solver_lambda.solvers.partition_problem import PartitionProblem
from solver_lambda.solvers.solver import Solution, solve
from solver_lambda.solvers.spare_units import give_back, with_surplus, without_idle_units

Sizes = Mapping[str, int]


class _Found(NamedTuple):
    """The best split that the rules allow.

    Attributes:
        sizes: that a cycle may reach.
        wanted: where it leads in the end: the same, but for the rules about a cycle's step.
        step: what makes the two differ, ``None`` if nothing does.
        reserved: what bounds take of ``wanted``.
    """

    solution: Solution
    sizes: Sizes
    wanted: Sizes
    step: Step | None
    reserved: Reserved

    @property
    def limit(self) -> str | None:
        """What shortens this cycle's step, for people."""
        return self.step.because if self.step else None


class _Gain(NamedTuple):
    """Weighted mean access times in seconds, before and after a move, and the cost of it."""

    before: float
    after: float
    moving: float

    @property
    def seconds(self) -> float:
        """By which the mean falls, with the cost counted."""
        return self.before - self.after - self.moving

    @property
    def ratio(self) -> float:
        """Of the mean before, with the cost counted."""
        return self.seconds / self.before if self.before > 0 else 0.0


class _Decision(NamedTuple):
    """``apply`` or ``keep``, why, and the sizes then."""

    word: str
    reason: str
    sizes: Sizes


def make_plan(observation: Observation, *, now_seconds: float) -> AdaptationPlan:
    """The plan for an observation.

    The same observation gives the same plan, unless the solver runs out of its time limit:
    ``now_seconds``, Unix time, only dates it, and the rules about time count from the moment of
    the observation.

    A node on which no split keeps the rules gets a plan that keeps all sizes and says why.
    """
    started = time.perf_counter()
    deadline = started + observation.planning.time_limit_seconds
    in_force: Sizes = observation.in_force_bytes
    ranges: dict[str, SizeRange] = {}
    found = None
    try:
        ranges = size_ranges(observation)
        found = _find(observation, ranges, deadline)
        decision = _decide(observation, found)
    except InfeasibleError as error:
        decision = _Decision("keep", f"infeasible: {error}", in_force)
    sizes = decision.sizes
    gain = _gain(observation, sizes)
    held = {name: item.kept_because for name, item in ranges.items() if item.kept_because}
    circumstances = _circumstances(observation, held, found, decision, gain)
    share = shares(observation.servers)
    return AdaptationPlan(
        node=observation.node,
        cycle=observation.cycle,
        observation_made_at_seconds=observation.made_at_seconds,
        made_at_seconds=now_seconds,
        budget_bytes=observation.budget_bytes,
        method=found.solution.method if found else "none",
        decision=decision.word,
        reason=decision.reason,
        optimality_gap=found.solution.gap_ratio if found else 1.0,
        mean_access_time_before_seconds=gain.before,
        mean_access_time_seconds=gain.after,
        servers=tuple(
            explain_server(server, sizes[server.name], share[server.name], circumstances)
            for server in observation.servers
        ),
        what_if=what_if(observation, gain.after, deadline_seconds=deadline),
        run_seconds=time.perf_counter() - started,
        run_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _circumstances(
    observation: Observation,
    held: Mapping[str, str],
    found: _Found | None,
    decision: _Decision,
    gain: _Gain,
) -> Circumstances:
    return Circumstances(
        decision=decision.reason,
        keeps=decision.word == "keep",
        mean_falls=gain.after < gain.before,
        held=held,
        unmet_bounds=found.reserved.unmet if found else {},
        limit=found.limit if found else None,
        minima_bytes=attainable_minima(observation),
        unit_bytes=observation.unit_bytes,
    )


def _find(
    observation: Observation, ranges: dict[str, SizeRange], deadline_seconds: float
) -> _Found:
    """The best split, or the best step towards it where a cycle may not go all the way."""
    planning = observation.planning
    bounded = any(server.bounds for server in observation.servers)
    may_step = (
        planning.maximum_step_ratio is not None
        or bounded
        or any(is_quiet(server, observation) for server in observation.servers)
    )
    now_seconds = time.perf_counter()
    first_deadline = now_seconds + (deadline_seconds - now_seconds) / (2 if may_step else 1)
    problem = _problem(observation, ranges)
    reserved = reserve_for_bounds(
        problem, observation, deadline_seconds=(now_seconds + first_deadline) / 2
    )
    solution, wanted = _split(observation, problem, ranges, reserved, first_deadline)
    step = step_towards(wanted, observation, ranges, reserved.sizes_bytes)
    if step is None:
        return _Found(solution, wanted, wanted, None, reserved)
    problem = _problem(observation, step.ranges)
    solution, sizes = _split(observation, problem, step.ranges, reserved, deadline_seconds)
    return _Found(solution, sizes, wanted, step, reserved)


def _problem(observation: Observation, ranges: dict[str, SizeRange]) -> PartitionProblem:
    return build_problem(observation, ranges, budget_bytes=observation.budget_bytes, moving=True)


def _split(
    observation: Observation,
    problem: PartitionProblem,
    ranges: dict[str, SizeRange],
    reserved: Reserved,
    deadline_seconds: float,
) -> tuple[Solution, Sizes]:
    problem = with_reserved(problem, reserved.sizes_bytes)
    solution = solve(problem, observation.planning, deadline_seconds=deadline_seconds)
    if problem.unit_bytes > observation.unit_bytes:
        bound = bound_of_finer_grids(problem, observation, ranges)
        solution = solution._replace(bound=max(solution.bound, bound))
    stay = problem.units_of(observation.in_force_bytes)
    if stay is not None and problem.value(stay) > solution.value:
        # A search without certificate may have found nothing better.
        units = without_idle_units(problem, stay)
        solution = solution._replace(units=units, value=problem.value(units))
    units = give_back(problem, solution.units, observation.in_force_bytes)
    return solution, problem.sizes_bytes(with_surplus(problem, units, solution.units))


def _gain(observation: Observation, sizes: Sizes) -> _Gain:
    share = shares(observation.servers)
    before = after = moving = 0.0
    for server in observation.servers:
        eat = EffectiveAccessTime.of(server)
        part, size = share[server.name], sizes[server.name] or size_in_force(server)
        before += part * float(eat.seconds(size_in_force(server)))
        after += part * float(eat.seconds(size))
        moving += part * float(moving_seconds(server, size, observation.planning.horizon_seconds))
    return _Gain(before, after, moving)


def _decide(observation: Observation, found: _Found) -> _Decision:
    """Hysteresis: nothing moves unless it must, or the gain is worth it.

    A step that a rule shortens gains little, however much the whole way gains. So it is taken if
    it gains anything, or next to nothing is lost by it, and the whole way gains enough.
    """
    limit = f"; {found.limit}" if found.limit else ""
    in_force: Sizes = observation.in_force_bytes
    if found.wanted == in_force:
        return _Decision("keep", _best_found(found, observation), in_force)
    if found.sizes != in_force:
        if must := _must_move(observation):
            return _Decision("apply", must, found.sizes)
        for server in observation.servers:
            if bound := _nearer_to_bound(server, found, observation):
                words = f"{bound.code}: {server.name} comes nearer to its bound"
                return _Decision("apply", words, found.sizes)
    if not any(shares(observation.servers).values()):
        return _Decision("keep", "no_demand: no server has both reads and a weight", in_force)
    least = observation.planning.minimum_gain_ratio
    gain, way = _gain(observation, found.sizes), _gain(observation, found.wanted)
    words = (
        f"mean access time from {gain.before * 1e3:.4g} ms to {gain.after * 1e3:.4g} ms, "
        f"{gain.ratio:.2%} less with the cost of moving counted"
    )
    if gain.ratio > 0 and gain.ratio >= least:
        return _Decision("apply", f"gain: {words}{limit}", found.sizes)
    the_way = f"the best split found would gain {max(0.0, way.ratio):.2%}"
    if way.ratio < least or way.ratio <= 0:
        start = f", less than the {least:.2%} at which moving starts" if least else ""
        return _Decision("keep", f"small_gain: {the_way}{start}{limit}", in_force)
    if gain.ratio > 0:
        return _Decision(
            "apply", f"step: {words}, of {way.ratio:.2%} for the whole way{limit}", found.sizes
        )
    assert found.step is not None, "what gains enough at once was applied above"
    part = along_the_way(found.wanted, observation, found.step.ranges, way.seconds)
    if part is not None:
        words = f"a step that gains nothing yet, towards a split that would gain {way.ratio:.2%}"
        return _Decision("apply", f"way: {words}{limit}", part)
    return _Decision(
        "keep",
        f"step_limit: {the_way}, but a step towards it gains nothing and costs much{limit}",
        in_force,
    )


def _best_found(found: _Found, observation: Observation) -> str:
    """Why to stay where nothing better was found."""
    gap_ratio = found.solution.gap_ratio
    if gap_ratio <= observation.planning.epsilon_ratio:
        return "optimal: the sizes in force are the best"
    gap = f"{gap_ratio:.2%}" if gap_ratio >= 1e-4 else "0.01%"
    return f"best_found: nothing better was found; the best may be up to {gap} better"


def _must_move(observation: Observation) -> str | None:
    """Why the sizes in force cannot stay, or ``None``."""
    for server in observation.servers:
        if not server.maxmemory_bytes:
            return f"no_limit: {server.name} has no maxmemory"
    total = sum(server.maxmemory_bytes for server in observation.servers)
    if total > observation.budget_bytes:
        return f"over_budget: the sizes in force sum to {total} bytes"
    minima = attainable_minima(observation)
    for server in observation.servers:
        if server.keep_reason is not None:
            continue
        if server.maxmemory_bytes < minima[server.name]:
            return f"bounds: {server.name} is below its minimum of {server.minimum_bytes} bytes"
        if server.maximum_bytes is not None and server.maxmemory_bytes > server.maximum_bytes:
            return f"bounds: {server.name} is above its maximum of {server.maximum_bytes} bytes"
    return None


def _nearer_to_bound(
    server: ServerObservation, found: _Found, observation: Observation
) -> Bound | None:
    """The bound to which its memory brings a server nearer, in the end by enough, if any."""
    if server.name not in found.reserved.sizes_bytes:
        return None
    least = observation.planning.minimum_gain_ratio
    sizes = [size_in_force(server), found.sizes[server.name], found.wanted[server.name]]
    for bound in bounds_of(server):
        before, after, in_the_end = bound.amounts(sizes).tolist()
        if (server.name, bound.code) in found.reserved.unmet:
            continue
        if before > bound.most and after < before and in_the_end < before * (1 - least):
            return bound
    return None
