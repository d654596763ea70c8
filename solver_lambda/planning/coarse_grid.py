"""What a grid coarser than the observation's unit can hide: a bound over all finer sizes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from solver_lambda.documents.observation import Observation
from solver_lambda.planning.effective_access_time import EffectiveAccessTime
from solver_lambda.planning.problem_grid import shares
from solver_lambda.planning.size_ranges import SizeRange
from solver_lambda.solvers.lagrangian import lagrangian_bound
from solver_lambda.solvers.partition_problem import PartitionProblem


def bound_of_finer_grids(
    problem: PartitionProblem, observation: Observation, ranges: Mapping[str, SizeRange]
) -> float:
    """No split of whole bytes within ``ranges`` is worth more than this.

    Each size is rounded up to the next point of the grid (or to the greatest size, if that is
    less), so each server that is free takes less than a unit more than it has. With so many units
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
