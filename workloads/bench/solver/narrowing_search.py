"""A Dirichlet search that narrows around one best split: what Algorithm 8 is measured beside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver_lambda.solvers.dirichlet import units_of_splits
from solver_lambda.solvers.partition_problem import IntArray, PartitionProblem

_SMALLEST_COORDINATE = 1e-9


@dataclass(frozen=True)
class NarrowingSearch:
    """Random search on the simplex of splits, ever closer around the best one found.

    No population and no kernel, as Algorithm 8 has them: each round draws ``samples`` splits from
    Dir(α), keeps the best split x̂ seen so far, and goes on with α = spread + γ·x̂.

    Attributes:
        samples: a round.
        rounds: at most.
        first_concentration, last_concentration: γ of the first and the last round, for each
            server. It grows geometrically: the search narrows by a constant factor a round.
        spread: keeps each α away from 0, so that no server is given up for good.
        patience: stop after so many rounds without a better split.
        seed: of the draws.
    """

    samples: int = 128
    rounds: int = 48
    first_concentration: float = 0.1
    last_concentration: float = 300.0
    spread: float = 0.03
    patience: int = 12
    seed: int = 0

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
