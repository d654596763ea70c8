"""Hill climbing with LookAhead, for curves with cliffs: the thesis' solver for many servers."""

from __future__ import annotations

import heapq
import time

import numpy as np

from solver_lambda.documents.curve import FloatArray
from solver_lambda.solvers.lagrangian import LagrangianBound
from solver_lambda.solvers.partition_problem import IntArray, PartitionProblem

# Passes over a curve that drop points which single neighbours show to lie below its hull.
_THINNING_PASSES = 4


class LookAhead:
    """Utility-based cache partitioning (Qureshi and Patt, MICRO 2006, algorithm 2).

    Again and again the server with the greatest marginal utility gets the units that attain it:
    max over d of (u(k + d) − u(k)) / d, where d may reach over a cliff but not over the balance.

    Two shortcuts change the time and not the result. A server's best steps, one after the other,
    are the segments of its curve's upper concave hull. As long as every step fits, those of all
    servers go by falling slope: that ends at the choices of the Lagrangian bound, so it starts
    there. From then on the hull of what the balance reaches is made once, and anew only when its
    next segment no longer fits.
    """

    def __init__(
        self,
        problem: PartitionProblem,
        bound: LagrangianBound,
        *,
        deadline_seconds: float = float("inf"),
    ) -> None:
        """``deadline_seconds`` is on the clock of ``time.perf_counter``."""
        self._problem = problem
        self._bound = bound
        self._deadline_seconds = deadline_seconds
        # For each server the places where its next segments end, the nearest one last.
        self._ends: list[list[int]] = [[] for _ in bound.units]

    def solve(self) -> IntArray:
        """Units of each server, shape (n,); after the deadline those that it has come to."""
        units = self._bound.units.copy()
        balance = self._problem.capacity - int(units.sum())
        waiting: list[tuple[float, int, int]] = []
        for row, start in enumerate(units.tolist()):
            if self._look_ahead(row, start, balance):
                heapq.heappush(waiting, self._next_step(row, start))
        while waiting and balance:
            _, row, end = heapq.heappop(waiting)
            start = int(units[row])
            if end - start <= balance:
                balance -= end - start
                units[row] = start = end
                self._ends[row].pop()
            else:
                self._ends[row].clear()
            if self._ends[row] or self._look_ahead(row, start, balance):
                heapq.heappush(waiting, self._next_step(row, start))
        return units

    def _next_step(self, row: int, start: int) -> tuple[float, int, int]:
        """Minus its marginal utility, the row and where it ends."""
        curve, end = self._problem.utilities[row], self._ends[row][-1]
        return -float(curve[end] - curve[start]) / (end - start), row, end

    def _look_ahead(self, row: int, start: int, balance: int) -> bool:
        """Find a server's steps as far as the balance reaches; whether there are any."""
        reach = min(balance, int(self._problem.limits[row]) - start)
        if reach > 0 and time.perf_counter() < self._deadline_seconds:
            curve = self._problem.utilities[row, start : start + reach + 1]
            self._ends[row] = [start + place for place in reversed(hull_ends(curve))]
        return bool(self._ends[row])


def hull_ends(curve: FloatArray) -> list[int]:
    """Where the segments of a curve's upper concave hull end, from place 0 to its first maximum.

    Points on a segment count as ends too: of two steps that gain the same, the smaller.
    """
    best = np.maximum.accumulate(curve)
    places = np.concatenate(([0], np.flatnonzero(best[1:] > best[:-1]) + 1))
    for _ in range(_THINNING_PASSES):
        # A point below the line between any two others is not on the hull.
        slopes = np.diff(curve[places]) / np.diff(places)
        kept = np.ones(len(places), dtype=bool)
        kept[1:-1] = slopes[:-1] >= slopes[1:]
        if kept.all():
            return [int(place) for place in places[1:]]
        places = places[kept]
    ends: list[int] = []
    slopes_to: list[float] = []
    values = curve.tolist() if len(places) * 4 > len(curve) else curve
    for place in places[1:].tolist():
        while True:
            last = ends[-1] if ends else 0
            slope = float(values[place] - values[last]) / (place - last)
            if not ends or slopes_to[-1] >= slope:
                break
            ends.pop()
            slopes_to.pop()
        ends.append(place)
        slopes_to.append(slope)
    return ends
