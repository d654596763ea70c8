"""Solves for few servers as the thesis does: its Algorithm 8, a probabilistic adaptive search."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from solver_lambda.documents.curve import FloatArray
from solver_lambda.solvers.partition_problem import IntArray, PartitionProblem
from solver_lambda.solvers.spare_units import without_idle_units

# The kernel moves at least so many servers: memory has to come from somewhere.
_FEWEST_MOVED = 2


@dataclass(frozen=True)
class DirichletSearch:
    """Keeps a population of splits, and makes Dirichlet draws around one of them after the other.

    A split is x = (m − m̲)/(M − Σm̲), a point of the simplex. The K first ones are drawn from
    Dir(1/n, …, 1/n). Then each round has two steps. *Explore*: draw α from the mixture (8.5) of the
    kernels around the K splits; that is, pick one of them and draw from its kernel. *Exploit*: draw
    J splits from Dir(γ(j)·α), whose mean is α and whose variance falls with γ. Let each replace the
    worst of the K if it is better. J such draws from one α leave the K best of all, so a round is a
    few calls of numpy.

    The thesis leaves K, J, γ, the kernel and when to stop open. Ours were found by some 200 random
    trials on random curves and curves of traces, for 3 to 20 servers:

    Attributes:
        points: K. Fewer are soon all of one place, for a round's draws are; more keep bad splits.
        draws: J. A round of fewer costs nearly as much, for the calls are what takes the time.
        first_growth, last_growth: γ(1) and γ(J), geometric in between. At 1.25 a draw still goes
            to corners, where curves with cliffs have their optimum. With γ(1) = 25 the gaps on
            random curves were at least twice as large. At 3,000 a coordinate of 0.1 varies by
            0.0055, less than six of 1,024 units.
        least_width, greatest_width: of the kernel φ, a Gaussian around x (the radial basis function
            that the thesis suggests). Its width is drawn for each α, evenly in its logarithm: no
            width suits both the first rounds and the last. It moves memory between some of the
            servers, two at least, for that is what a better split often takes: their noise sums to
            0. What would fall below ``floor`` is put there, and all are scaled to the sum 1 again.
        floor: above 0, where no Dirichlet distribution is.
        rounds: at most. A tenth of them is enough before the certificate, see ``solver``.
        patience: stop after so many rounds in a row without a better best split.
        seed: of the draws.
        deadline_seconds: on the clock of ``time.perf_counter``; no round begins after it.

    Small α seeks corners, and near them coordinates underflow to zero. That does no harm: zero is a
    server's minimum. A whole row of zeros needs each coordinate to underflow. That has a
    probability of at most about (5·10⁻³²⁴)^Σα, and Σα is at least 1.
    """

    points: int = 64
    draws: int = 256
    first_growth: float = 1.25
    last_growth: float = 3000.0
    least_width: float = 0.003
    greatest_width: float = 0.3
    floor: float = 1e-6
    rounds: int = 600
    patience: int = 200
    seed: int = 0
    deadline_seconds: float = float("inf")

    def solve(self, problem: PartitionProblem, enough: float = float("inf")) -> IntArray:
        """Return the units of each server, shape (n,), of the best split that was drawn; none that
        is idle.

        The search ends when its value reaches ``enough``: the thesis' satisfactory solution.
        """
        servers = len(problem.limits)
        if not problem.capacity:
            return np.zeros(servers, dtype=np.int64)
        generator = np.random.default_rng(self.seed)
        # A split gives at most so many units: the sum may be less, (8.1).
        best_utilities = np.maximum.accumulate(problem.utilities, axis=1)
        growth = np.geomspace(self.first_growth, self.last_growth, self.draws)[:, None]

        def values_of(splits: FloatArray) -> FloatArray:
            """Return F̃ of each split: thesis, equation (8.4), on the grid of units."""
            units = units_of_splits(splits, problem)
            values: FloatArray = best_utilities[np.arange(servers), units].sum(axis=1)
            return values

        splits = _draw(generator, np.full((self.points, servers), 1 / servers), problem)
        splits, values = _best(self.points, splits, values_of(splits))
        failures = 0
        for _ in range(self.rounds):
            late = time.perf_counter() > self.deadline_seconds
            if late or values[0] >= enough or failures == self.patience:
                break
            best_value = values[0]
            centre = splits[generator.integers(self.points)]
            drawn = _draw(generator, growth * self._kernel(generator, centre), problem)
            splits, values = _best(
                self.points,
                np.concatenate((splits, drawn)),
                np.concatenate((values, values_of(drawn))),
            )
            failures = 0 if values[0] > best_value else failures + 1
        return without_idle_units(problem, units_of_splits(splits[:1], problem)[0])

    def _kernel(self, generator: np.random.Generator, centre: FloatArray) -> FloatArray:
        """Draw α ~ φₓ around ``centre``, both of shape (n,)."""
        servers = len(centre)
        width = np.exp(generator.uniform(np.log(self.least_width), np.log(self.greatest_width)))
        count = int(generator.integers(min(_FEWEST_MOVED, servers), servers + 1))
        moved = generator.permutation(servers)[:count]
        noise = generator.standard_normal(count)
        alpha = centre.copy()
        alpha[moved] += width * (noise - noise.mean())
        alpha = np.maximum(alpha, self.floor)
        scaled: FloatArray = alpha / alpha.sum()
        return scaled


def _draw(
    generator: np.random.Generator, alphas: FloatArray, problem: PartitionProblem
) -> FloatArray:
    """Draw one split for each row of ``alphas``, of that Dirichlet distribution, within the
    limits."""
    splits = generator.standard_gamma(alphas)
    splits /= splits.sum(axis=1, keepdims=True)
    return within_limits(splits, problem.limits / problem.capacity)


def _best(count: int, splits: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the best ``count``, best first; of equal ones those that came first."""
    kept = np.argsort(-values, kind="stable")[:count]
    return splits[kept], values[kept]


def within_limits(splits: FloatArray, greatest: FloatArray) -> FloatArray:
    """Return splits, shape (samples, n), in which no server has more than it may, shape (n,).

    What one has too much goes to the others in proportion to what they may still have, so each
    row's sum remains; ``greatest`` sums to 1 at least.
    """
    capped = np.minimum(splits, greatest)
    excess = (splits - capped).sum(axis=1, keepdims=True)
    room = greatest - capped
    all_room = room.sum(axis=1, keepdims=True)
    given: FloatArray = capped + room * (excess / np.where(all_room > 0, all_room, 1.0))
    return given


def units_of_splits(splits: FloatArray, problem: PartitionProblem) -> IntArray:
    """Return whole units for splits of shape (samples, n) that sum to 1 in each row.

    The running sums are rounded, so each row sums to the capacity exactly, before limits cut it.
    """
    ends = np.rint(np.cumsum(splits, axis=1) * problem.capacity).astype(np.int64)
    ends = np.minimum(ends, problem.capacity)
    return np.minimum(np.diff(ends, axis=1, prepend=0), problem.limits)
