"""The second goal: bounds on mean access times, which come before the rest."""

from __future__ import annotations

import dataclasses

import numpy as np

from solver_lambda.curve import FloatArray
from solver_lambda.effective_access_time import EffectiveAccessTime
from solver_lambda.observation import Observation
from solver_lambda.problem import IntArray, PartitionProblem
from solver_lambda.solver import solve


def reserve_for_bounds(
    problem: PartitionProblem, observation: Observation, *, deadline_seconds: float
) -> PartitionProblem:
    """The problem that is left when every bounded server has what its bound takes.

    Lexicographic: first the sum of relative excesses over the bounds, Σ max(0, EATᵢ/boundᵢ − 1),
    is made as small as the memory allows; it is 0 if all bounds can be met. Then each bounded
    server keeps the least memory with which it does as well as in that split, or meets its bound,
    and only what is above that is open to the actual objective.
    """
    servers = {server.name: server for server in observation.servers}
    bounded: dict[int, tuple[float, FloatArray]] = {}
    for row, name in enumerate(problem.names):
        bound = servers[name].latency_bound_seconds
        if bound is not None:
            sizes = problem.bases_bytes[row] + problem.unit_bytes * np.arange(
                problem.limits[row] + 1
            )
            bounded[row] = (bound, EffectiveAccessTime.of(servers[name]).seconds(sizes))
    if not bounded:
        return problem
    targets = {row: bound for row, (bound, _) in bounded.items()}
    least = _least_units(problem, bounded, targets)
    if least is None or int(least.sum()) > problem.capacity:
        nearest = _nearest(problem, bounded, observation, deadline_seconds)
        targets = {
            row: max(bound, float(seconds[nearest[row]]))
            for row, (bound, seconds) in bounded.items()
        }
        least = _least_units(problem, bounded, targets)
        assert least is not None, "each target is reached where it was taken from"
    return problem.with_least(least)


def _least_units(
    problem: PartitionProblem,
    bounded: dict[int, tuple[float, FloatArray]],
    targets: dict[int, float],
) -> IntArray | None:
    """The least units with which each bounded server meets its target; None if one cannot."""
    least = np.zeros(len(problem.names), dtype=np.int64)
    for row, (_, seconds) in bounded.items():
        met = np.flatnonzero(seconds <= targets[row])
        if not len(met):
            return None
        least[row] = met[0]
    return least


def _nearest(
    problem: PartitionProblem,
    bounded: dict[int, tuple[float, FloatArray]],
    observation: Observation,
    deadline_seconds: float,
) -> IntArray:
    """The split with the least sum of relative excesses."""
    utilities = np.where(np.isneginf(problem.utilities), -np.inf, 0.0)
    for row, (bound, seconds) in bounded.items():
        utilities[row, : len(seconds)] = -np.maximum(0.0, seconds / bound - 1)
    excess = dataclasses.replace(problem, utilities=utilities)
    return solve(excess, observation.planning, deadline_seconds=deadline_seconds).units
