"""Hill climbing with LookAhead, for curves with cliffs: the thesis' solver for many servers."""

from __future__ import annotations

import heapq

import numpy as np

from solver_lambda.lagrangian import LagrangianBound
from solver_lambda.problem import IntArray, PartitionProblem


class LookAhead:
    """Utility-based cache partitioning (Qureshi and Patt, MICRO 2006, algorithm 2).

    Again and again the server with the greatest marginal utility gets the units that attain it:
    max over d of (u(k + d) − u(k)) / d, where d may reach over a cliff but not over the balance.

    Two shortcuts change the time and not the result. As long as every step fits, the best step of
    a server is the next segment of its curve's upper concave hull, and these go by falling slope:
    that ends at the choices of the Lagrangian bound, so it starts there. And each server's best
    step is kept until it wins or the balance no longer covers it; until then it is an upper bound
    of the true one.
    """

    def __init__(self, problem: PartitionProblem, bound: LagrangianBound) -> None:
        self._problem = problem
        self._bound = bound

    def solve(self) -> IntArray:
        """Units of each server, shape (n,)."""
        units = self._bound.units.copy()
        balance = self._problem.capacity - int(units.sum())
        waiting = [
            step
            for row, start in enumerate(units.tolist())
            if (step := self._best_step(row, start, balance))
        ]
        heapq.heapify(waiting)
        while waiting and balance:
            _, row, width = heapq.heappop(waiting)
            if width <= balance:
                units[row] += width
                balance -= width
            if step := self._best_step(row, int(units[row]), balance):
                heapq.heappush(waiting, step)
        return units

    def _best_step(self, row: int, start: int, balance: int) -> tuple[float, int, int] | None:
        """Minus the greatest marginal utility, the row and the width in units; None: no gain."""
        reach = min(balance, int(self._problem.limits[row]) - start)
        if reach <= 0:
            return None
        curve = self._problem.utilities[row, start : start + reach + 1]
        marginal = (curve[1:] - curve[0]) / np.arange(1, reach + 1)
        best = int(marginal.argmax())
        return (-float(marginal[best]), row, best + 1) if marginal[best] > 0 else None
