"""The certificate says how far a split is from the optimum at most, and gives the optimum if
wanted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from solver_lambda.documents.curve import FloatArray
from solver_lambda.solvers.lagrangian import LagrangianBound
from solver_lambda.solvers.pareto import Choices, LossProgramme, OutOfTimeError
from solver_lambda.solvers.partition_problem import IntArray, PartitionProblem

# Up to so many units the dynamic programme counts single units, and its result is the optimum.
EXACT_UNITS = 4096
# Losses are searched up to this part of the incumbent's, then to a growing part.
_FIRST_PART = 1 / 16
_GROWTH = 4.0
_CAUTION = 0.8
_ROUNDING = 1e-12


class CertifiedSplit(NamedTuple):
    """Holds a split with a proof of how good it is.

    Attributes:
        units: shape (n,).
        value: of the split.
        bound: no split has a greater value.
    """

    units: IntArray
    value: float
    bound: float

    @property
    def gap_ratio(self) -> float:
        """Return the part of the split's mean access time that no proof says is needed.

        From 0, an optimum, to 1, nothing is proven: (value − bound) / value, which is also
        defined where the lower bound of the mean access time is 0.
        """
        excess = self.bound - self.value
        return excess / max(-self.value, abs(self.bound)) if excess > 0 else 0.0


class Certifier:
    """Brings a split to a certified gap.

    The loss of a split is what its value stays below the Lagrangian bound: the sum of its points'
    reduced costs, max_j(uᵢ(j) − λj) − (uᵢ(k) − λk), and λ for each unit that is left over. So

    * a point whose reduced cost exceeds the loss of a known split belongs to no better split
      (reduced-cost fixing);
    * a dynamic programme over the points that are left finds the split with the least loss.

    The least loss is mostly far below that of the split to start from, and the programme's time
    grows with the loss it must reach. So it is run up to a small loss first; when that has no
    split, the bound has been lowered by so much, and the next run goes further (iterative
    deepening).

    On a grid of more than ``EXACT_UNITS`` the programme counts blocks of units, with the least
    reduced cost in each. That relaxes the problem: it gives a bound, and the exact programme
    over the points near its choice gives a split. Blocks shrink until the gap is accepted.
    """

    def __init__(
        self,
        problem: PartitionProblem,
        bound: LagrangianBound,
        *,
        epsilon_ratio: float,
        deadline_seconds: float,
    ) -> None:
        """``deadline_seconds`` is on the clock of ``time.perf_counter``."""
        self._problem = problem
        self._bound = bound
        self._epsilon_ratio = epsilon_ratio
        self._deadline_seconds = deadline_seconds
        self._slack = _ROUNDING * abs(bound.value)

    def certify(self, best: CertifiedSplit) -> CertifiedSplit:
        """Start from a split that was found, and improve it until the deadline."""
        if best.bound - best.value <= self._slack:
            return best
        points = self._points(best.bound - best.value)
        block = 1
        while self._problem.capacity // block > EXACT_UNITS:
            block *= 2
        most_loss = (best.bound - best.value) * _FIRST_PART
        try:
            while True:
                most_loss = min(most_loss, self._bound.value - best.value)
                found = self._least_loss(points.up_to(most_loss + self._slack), block, most_loss)
                if found is None:
                    best = self._lower(best, most_loss)
                    most_loss *= _GROWTH
                elif block == 1:
                    best = self._better(best, found[1])
                    return best._replace(bound=best.value)
                else:
                    loss, blocks = found
                    best = self._lower(best, loss)
                    near = points.near(blocks, block)
                    exact = self._least_loss(near, 1, self._bound.value - best.value)
                    if exact is not None:
                        best = self._better(best, exact[1])
                if best.bound - best.value <= self._slack or (
                    block > 1 and best.gap_ratio <= self._epsilon_ratio
                ):
                    return best
                if found is not None:
                    block = self._next_block(block, best.gap_ratio)
        except OutOfTimeError:
            return best

    def _next_block(self, block: int, gap_ratio: float) -> int:
        """Return the size of blocks that should suffice: what blocks hide shrinks in proportion to
        it."""
        wanted = block * self._epsilon_ratio / gap_ratio * _CAUTION
        block //= 2
        while block > 1 and block > wanted:
            block //= 2
        return block

    def _lower(self, best: CertifiedSplit, loss: float) -> CertifiedSplit:
        """There is no split with less than this loss, but for ``best`` perhaps."""
        bound = max(best.value, min(best.bound, self._bound.value - loss))
        return best._replace(bound=bound)

    def _better(self, best: CertifiedSplit, units: IntArray) -> CertifiedSplit:
        value = self._problem.value(units)
        if value <= best.value:
            return best
        return CertifiedSplit(units, value, max(value, best.bound))

    def _points(self, most_loss: float) -> _Points:
        """Return all points that a split with this loss may have, but for those with a lighter
        equal."""
        problem, price = self._problem, self._bound.price
        steps = price * np.arange(problem.utilities.shape[1])
        least = self._bound.tops - most_loss - self._slack
        # One server after the other: its part of the grid stays in the processor's cache.
        found = [
            np.flatnonzero(curve - steps >= enough)
            for curve, enough in zip(problem.utilities, least.tolist(), strict=True)
        ]
        rows = np.repeat(np.arange(len(found)), [len(units) for units in found])
        units = np.concatenate(found)
        values = problem.utilities[rows, units]
        useful = (units == 0) | (values > problem.utilities[rows, units - 1])
        rows, units, values = rows[useful], units[useful], values[useful]
        losses = np.maximum(self._bound.tops[rows] - (values - price * units), 0.0)
        return _Points(rows, units, losses)

    def _least_loss(
        self, points: _Points, block: int, most_loss: float
    ) -> tuple[float, IntArray] | None:
        """Return the least loss in blocks, and the block of each server; None if above
        ``most_loss``."""
        servers = len(self._problem.limits)
        starts = np.searchsorted(points.rows, np.arange(servers + 1))
        # A server with a single point takes it, at no loss.
        free = np.flatnonzero(np.diff(starts) > 1)
        takes = points.units[starts[:-1]]
        left = self._problem.capacity - int(np.delete(takes, free).sum())
        takes //= block
        programme = LossProgramme(
            price=self._bound.price * block,
            capacity=left // block,
            free_below=(left - len(free) * (block - 1)) / block,
            most_loss=most_loss + self._slack,
            deadline_seconds=self._deadline_seconds,
        )
        groups = [
            points.choices(int(row), slice(starts[row], starts[row + 1]), block) for row in free
        ]
        found = programme.solve(groups)
        if found is None:
            return None
        for row, total in found[1].items():
            takes[row] = total
        return found[0], takes


class _Points(NamedTuple):
    """Holds points of curves, sorted by row and then by units, with their reduced costs."""

    rows: IntArray
    units: IntArray
    losses: FloatArray

    def _where(self, kept: npt.NDArray[np.bool_]) -> _Points:
        return _Points(self.rows[kept], self.units[kept], self.losses[kept])

    def up_to(self, loss: float) -> _Points:
        return self._where(self.losses <= loss)

    def near(self, choice: IntArray, block: int) -> _Points:
        """Return those in the blocks of a choice and beside them."""
        return self._where(np.abs(self.units // block - choice[self.rows]) <= 1)

    def choices(self, row: int, part: slice, block: int) -> Choices:
        totals, losses = self.units[part] // block, self.losses[part]
        if block > 1:
            firsts = np.flatnonzero(np.diff(totals, prepend=-1))
            totals, losses = totals[firsts], np.minimum.reduceat(losses, firsts)
        return Choices(totals, losses, row)
