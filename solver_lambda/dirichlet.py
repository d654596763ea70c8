"""Dirichlet adaptive search: the thesis' solver for few servers (its Algorithm 8)."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from solver_lambda.curve import FloatArray
from solver_lambda.problem import IntArray, PartitionProblem

_SMALLEST_COORDINATE = 1e-9


@dataclass(frozen=True)
class DirichletSearch:
    """Random search on the simplex of splits, ever closer around the best one found.

    Each of at most J rounds draws K splits from a Dirichlet distribution, keeps the best split x̂
    seen so far, and makes the next distribution from it: α(j) = φ + γ(j)·x̂. The thesis names K,
    J, γ and φ and leaves their values open; ours, with the reasons:

    Attributes:
        samples: K = 128. One round is a handful of numpy calls; fewer samples would leave their
            fixed cost dominant, more would postpone the adaptation, which finds more than luck.
        rounds: J = 48, at most: 6,144 evaluations, some milliseconds.
        first_concentration, last_concentration: γ grows geometrically over the rounds from
            n·0.1 to n·300 (n servers). The standard deviation of a coordinate x is about
            √(x(1−x)/γ), so the search narrows by a constant factor each round. The first rounds
            have α far below 1 and draw corners of the simplex: on curves with cliffs the best
            split often gives some servers everything they can use and others their minimum.
        spread: φ = 0.03. It keeps each α away from 0, so that no server is given up for good.
        patience: stop after so many rounds without a better split: 12 is a quarter of the
            schedule, in which γ grows by a factor of 8, so other scales were tried in vain.
        seed: of the draws.
        deadline_seconds: on the clock of ``time.perf_counter``; no round begins after it.

    The values are those with the least mean gap to the optimum among some 30 that were tried on
    random curves with cliffs, smooth ones and steps, for 3 to 20 servers; γ from n·1 and φ = 0.5
    had gaps three to ten times as large.

    The first round draws from α = 1, uniform over the simplex (α = 1/n underflows most
    coordinates of many servers to exact zeros), and includes the equal split. Coordinates are
    clamped to 1e-9 at least, so that none is zero.
    """

    samples: int = 128
    rounds: int = 48
    first_concentration: float = 0.1
    last_concentration: float = 300.0
    spread: float = 0.03
    patience: int = 12
    seed: int = 0
    deadline_seconds: float = float("inf")

    def solve(self, problem: PartitionProblem) -> IntArray:
        """Units of each server, shape (n,)."""
        servers = len(problem.limits)
        generator = np.random.default_rng(self.seed)
        growth = (self.last_concentration / self.first_concentration) ** (
            1 / max(1, self.rounds - 2)
        )
        concentration = servers * self.first_concentration
        best_split = np.full(servers, 1 / servers)
        best_units: IntArray = units_of_splits(best_split[None, :], problem)[0]
        best_value = problem.value(best_units)
        alpha = np.ones(servers)
        failures = 0
        for _ in range(self.rounds):
            if time.perf_counter() > self.deadline_seconds:
                break
            splits = np.maximum(generator.dirichlet(alpha, self.samples), _SMALLEST_COORDINATE)
            splits /= splits.sum(axis=1, keepdims=True)
            units = units_of_splits(splits, problem)
            values = problem.utilities[np.arange(servers), units].sum(axis=1)
            winner = int(values.argmax())
            failures += 1
            if values[winner] > best_value:
                best_value = float(values[winner])
                best_split, best_units = splits[winner], units[winner]
                failures = 0
            if failures == self.patience:
                break
            alpha = self.spread + concentration * best_split
            concentration *= growth
        return best_units


def units_of_splits(splits: FloatArray, problem: PartitionProblem) -> IntArray:
    """Whole units for splits of shape (samples, n) that sum to 1 in each row.

    The running sums are rounded, so each row sums to the capacity exactly, before limits cut it.
    """
    ends = np.rint(np.cumsum(splits, axis=1) * problem.capacity).astype(np.int64)
    ends = np.minimum(ends, problem.capacity)
    return np.minimum(np.diff(ends, axis=1, prepend=0), problem.limits)
