"""The slow, obvious twins of the solvers."""

from __future__ import annotations

import itertools
import math

import numpy as np

from solver_lambda.solvers.dirichlet import DirichletSearch
from solver_lambda.solvers.partition_problem import PartitionProblem


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


def algorithm_8(problem: PartitionProblem, search: DirichletSearch) -> list[int]:
    """The thesis' probabilistic adaptive search, line by line, one draw after the other."""
    n = len(problem.limits)
    capacity = problem.capacity
    greatest = [int(limit) / capacity for limit in problem.limits]
    generator = np.random.default_rng(search.seed)

    def draw(alpha: list[float]) -> list[float]:
        gammas = np.array([generator.standard_gamma(a) for a in alpha])
        x = (gammas / gammas.sum()).tolist()
        excess = sum(max(0.0, part - most) for part, most in zip(x, greatest, strict=True))
        x = [min(part, most) for part, most in zip(x, greatest, strict=True)]
        room = [most - part for part, most in zip(x, greatest, strict=True)]
        return [part + excess * more / (sum(room) or 1) for part, more in zip(x, room, strict=True)]

    def units(x: list[float]) -> list[int]:
        ends = [0, *(min(capacity, round(sum(x[: i + 1]) * capacity)) for i in range(n))]
        return [min(ends[i + 1] - ends[i], int(problem.limits[i])) for i in range(n)]

    def used(row: int, most: int) -> int:
        return max(range(most + 1), key=lambda unit: problem.utilities[row, unit])

    def value(x: list[float]) -> float:
        return problem.value(np.array([used(row, most) for row, most in enumerate(units(x))]))

    alpha = [1 / n] * n  # line 1
    best = [draw(alpha) for _ in range(search.points)]  # line 2
    best.sort(key=value, reverse=True)
    failures = 0
    for _ in range(search.rounds):  # line 3
        if failures == search.patience:
            break
        highest = value(best[0])
        x = best[generator.integers(search.points)]  # line 4: one of the K kernels
        log_least, log_greatest = math.log(search.least_width), math.log(search.greatest_width)
        width = math.exp(generator.uniform(log_least, log_greatest))
        count = int(generator.integers(min(2, n), n + 1))
        moved = generator.permutation(n)[:count].tolist()
        noise = [generator.standard_normal() for _ in moved]
        alpha = list(x)
        for i, step in zip(moved, noise, strict=True):
            alpha[i] += width * (step - sum(noise) / count)
        alpha = [max(search.floor, a) for a in alpha]
        alpha = [a / sum(alpha) for a in alpha]
        for j in range(search.draws):  # line 5
            share = j / (search.draws - 1)
            growth = search.first_growth ** (1 - share) * search.last_growth**share
            x = draw([growth * a for a in alpha])  # line 6
            if value(x) > value(best[-1]):  # line 7
                best.pop()  # line 8
                place = sum(value(other) >= value(x) for other in best)
                best.insert(place, x)
        failures = 0 if value(best[0]) > highest else failures + 1  # line 9
    return [used(row, most) for row, most in enumerate(units(best[0]))]  # line 10


def lagrangian_value(problem: PartitionProblem, price: float) -> float:
    """The Lagrangian bound at one price."""
    total = price * problem.capacity
    for row, limit in enumerate(problem.limits):
        total += max(float(problem.utilities[row, k]) - price * k for k in range(int(limit) + 1))
    return total


def random_problem(
    generator: np.random.Generator, servers: int, units: int, shape: str = "any"
) -> PartitionProblem:
    """Draw a problem whose utilities have no shape.

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
