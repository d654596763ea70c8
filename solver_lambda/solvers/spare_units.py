"""Decides what becomes of units that nobody gains from: they stay where they are, or go out as
reserve."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from solver_lambda.solvers.partition_problem import IntArray, PartitionProblem


def without_idle_units(problem: PartitionProblem, units: IntArray) -> IntArray:
    """Return the least units with at least the same utility, for each server."""
    least = units.copy()
    for row, count in enumerate(units):
        least[row] = int(problem.utilities[row, : count + 1].argmax())
    return least


def give_back(
    problem: PartitionProblem, units: IntArray, in_force_bytes: Mapping[str, int]
) -> IntArray:
    """Spare units to the servers that would shrink, up to the sizes in force.

    So nobody shrinks unless somebody takes the memory, or a rule does. Where it is too little for
    all, each gets it in proportion to what it would lose. No utility falls: a size between the
    planned one and the one in force misses no more, and moves less.
    """
    bases = np.array(problem.bases_bytes, dtype=np.float64)
    sizes = np.array([in_force_bytes[name] for name in problem.names], dtype=np.float64)
    # Up to the unit that covers the size in force, if the grid does not meet it.
    before = np.ceil((sizes - bases) / problem.unit_bytes).clip(0, problem.limits)
    missing = np.maximum(before.astype(np.int64) - units, 0)
    total, spare = int(missing.sum()), problem.capacity - int(units.sum())
    if total <= spare:
        return np.asarray(units + missing)
    return np.asarray(units + in_proportion(missing.tolist(), spare))


def in_proportion(most: Sequence[int], total: int) -> list[int]:
    """``total`` whole parts in proportion to the most of each, which sum to ``total`` at least."""
    whole = sum(most)
    if not whole:
        return [0] * len(most)
    ends = [reached * total // whole for reached in itertools.accumulate(most, initial=0)]
    return [end - start for start, end in itertools.pairwise(ends)]


def with_surplus(problem: PartitionProblem, units: IntArray, weights: IntArray) -> IntArray:
    """Hand out what helps nobody, as a reserve against a curve that is wrong about its tail.

    Each server's part is in proportion to ``weights``, shape (n,): the units that do something
    for it. It takes no more than costs it nothing, and a server whose whole curve is flat takes
    none: memory has never helped it. What is left then stays unassigned.
    """
    given = units.copy()
    total = int(weights.sum())
    surplus = problem.capacity - int(units.sum())
    if not total or surplus <= 0:
        return given
    for row, count in enumerate(units.tolist()):
        part = surplus * int(weights[row]) // total
        curve = problem.utilities[row, count : min(count + part, int(problem.limits[row])) + 1]
        worse = np.flatnonzero(curve < curve[0])
        given[row] += (int(worse[0]) if len(worse) else len(curve)) - 1
    return given
