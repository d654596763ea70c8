"""Finds the best split that the rules allow, and how far a cycle goes towards it.

What a grid coarser than the observation's unit can hide: a bound over all finer sizes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from solver_lambda.documents.observation import Observation
from solver_lambda.planning.effective_access_time import EffectiveAccessTime
from solver_lambda.planning.problem_grid import build_problem, shares
from solver_lambda.planning.quiet_servers import is_quiet
from solver_lambda.planning.reservations import Reserved, reserve_for_bounds, with_reserved
from solver_lambda.planning.size_ranges import SizeRange
from solver_lambda.planning.step_limits import Step, step_towards
from solver_lambda.solvers.lagrangian import lagrangian_bound
from solver_lambda.solvers.partition_problem import PartitionProblem
from solver_lambda.solvers.solver import Solution, solve
from solver_lambda.solvers.spare_units import give_back, with_surplus, without_idle_units


def bound_of_finer_grids(
    problem: PartitionProblem, observation: Observation, ranges: Mapping[str, SizeRange]
) -> float:
    """No split of whole bytes within ``ranges`` is worth more than this.

    Each size is rounded up to the next point of the grid (or to the greatest size, if that is
    less). So each server that is free takes less than a unit more than it has. With so many units
    more, and with no cost of moving, each split becomes one of the grid that is worth no less.
    """
    servers = {server.name: server for server in observation.servers}
    share = shares(observation.servers)
    free = np.array([ranges[name].high_bytes > ranges[name].low_bytes for name in problem.names])
    limits = problem.limits + free
    utilities = np.full((len(limits), int(limits.max()) + 1), -np.inf)
    for row, name in enumerate(problem.names):
        sizes = problem.bases_bytes[row] + problem.unit_bytes * np.arange(limits[row] + 1)
        sizes = np.minimum(sizes, ranges[name].high_bytes)
        worth = -share[name] * EffectiveAccessTime.of(servers[name]).seconds(sizes)
        utilities[row, : limits[row] + 1] = worth
    relaxed = PartitionProblem(
        problem.names,
        problem.bases_bytes,
        problem.unit_bytes,
        problem.capacity + int(free.sum()),
        limits,
        utilities,
    )
    return lagrangian_bound(relaxed).value


Sizes = Mapping[str, int]


class FoundSplit(NamedTuple):
    """Holds the best split that the rules allow.

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
        """Say what shortens this cycle's step, for people."""
        return self.step.because if self.step else None


def find_split(
    observation: Observation, ranges: dict[str, SizeRange], deadline_seconds: float
) -> FoundSplit:
    """Return the best split, or the best step towards it where a cycle may not go all the way."""
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
        return FoundSplit(solution, wanted, wanted, None, reserved)
    problem = _problem(observation, step.ranges)
    solution, sizes = _split(observation, problem, step.ranges, reserved, deadline_seconds)
    return FoundSplit(solution, sizes, wanted, step, reserved)


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
