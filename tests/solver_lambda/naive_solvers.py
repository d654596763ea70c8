"""The slow, obvious twins of the solvers."""

from __future__ import annotations

import itertools

import numpy as np

from solver_lambda.problem import PartitionProblem


def brute_force(problem: PartitionProblem) -> float:
    """The greatest value of a split: all of them are tried."""
    choices = [range(int(limit) + 1) for limit in problem.limits]
    return max(
        sum(float(problem.utilities[row, k]) for row, k in enumerate(split))
        for split in itertools.product(*choices)
        if sum(split) <= problem.capacity
    )


def look_ahead(problem: PartitionProblem) -> list[int]:
    """Qureshi and Patt's algorithm, word for word."""
    units = [0] * len(problem.limits)
    balance = problem.capacity
    while balance:
        best = (0.0, 0, 0)
        for row, have in enumerate(units):
            for more in range(1, min(balance, int(problem.limits[row]) - have) + 1):
                gain = problem.utilities[row, have + more] - problem.utilities[row, have]
                if gain / more > best[0]:
                    best = (gain / more, row, more)
        if not best[2]:
            break
        units[best[1]] += best[2]
        balance -= best[2]
    return units


def lagrangian_value(problem: PartitionProblem, price: float) -> float:
    """The Lagrangian bound at one price."""
    total = price * problem.capacity
    for row, limit in enumerate(problem.limits):
        total += max(float(problem.utilities[row, k]) - price * k for k in range(int(limit) + 1))
    return total


def random_problem(
    generator: np.random.Generator, servers: int, units: int, shape: str = "any"
) -> PartitionProblem:
    """Utilities without any shape.

    ``any``: rising, flat or falling; ``whole``: the same in small integers, full of ties;
    ``rising``: always rising, so that no two steps tie.
    """
    limits = generator.integers(0, units + 1, servers)
    utilities = np.full((servers, units + 1), -np.inf)
    for row, limit in enumerate(limits):
        rises = generator.exponential(1.0, limit + 1) ** 2
        if shape != "rising":
            rises *= generator.random(limit + 1) < 0.4
            rises -= 0.2 * (generator.random(limit + 1) < 0.3)
        values = np.cumsum(np.rint(2 * rises) if shape == "whole" else rises)
        utilities[row, : limit + 1] = values - 10 * units
    return PartitionProblem(
        tuple(f"server-{row}" for row in range(servers)),
        (0,) * servers,
        1,
        units,
        limits.astype(np.int64),
        utilities[:, : int(limits.max()) + 1],
    )
