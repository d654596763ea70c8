"""Solves by hill climbing with LookAhead, for curves with cliffs: the thesis' solver for many
servers."""

from __future__ import annotations

import heapq
import time

import numpy as np
import numpy.typing as npt

from solver_lambda.documents.curve import FloatArray
from solver_lambda.solvers.lagrangian import LagrangianBound
from solver_lambda.solvers.partition_problem import IntArray, PartitionProblem

# Points of a curve that lie below its hull are dropped in passes. If this part is left, the next
# pass looks further.
_FEW_DROPPED = 31 / 32


class LookAhead:
    """Partitions caches by utility (Qureshi and Patt, MICRO 2006, algorithm 2).

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
        # For each server, where its next segments end and minus their slopes, nearest last.
        self._ends: list[list[int]] = [[] for _ in bound.units]
        self._falls: list[list[float]] = [[] for _ in bound.units]

    def solve(self) -> IntArray:
        """Return the units of each server, shape (n,); after the deadline those that it has come
        to."""
        units = self._bound.units.tolist()
        balance = self._problem.capacity - sum(units)
        waiting: list[tuple[float, int, int]] = []
        for row, start in enumerate(units):
            if self._look_ahead(row, start, balance):
                heapq.heappush(waiting, self._next_step(row))
        while waiting and balance:
            _, row, end = waiting[0]
            if end - units[row] <= balance:
                balance -= end - units[row]
                units[row] = end
                self._ends[row].pop()
                self._falls[row].pop()
            else:
                self._ends[row].clear()
            if self._ends[row] or self._look_ahead(row, units[row], balance):
                heapq.heapreplace(waiting, self._next_step(row))
            else:
                heapq.heappop(waiting)
        return np.array(units, dtype=np.int64)

    def _next_step(self, row: int) -> tuple[float, int, int]:
        """Return minus its marginal utility, the row and where it ends."""
        return self._falls[row][-1], row, self._ends[row][-1]

    def _look_ahead(self, row: int, start: int, balance: int) -> bool:
        """Find a server's steps as far as the balance reaches. Returns whether there are any."""
        reach = min(balance, int(self._problem.limits[row]) - start)
        if reach > 0 and time.perf_counter() < self._deadline_seconds:
            curve = self._problem.utilities[row, start : start + reach + 1]
            places = np.append(0, hull_ends(curve))
            falls = -np.diff(curve[places]) / np.diff(places)
            self._ends[row] = (start + places[:0:-1]).tolist()
            self._falls[row] = falls[::-1].tolist()
        return bool(self._ends[row])


def hull_ends(curve: FloatArray) -> IntArray:
    """Return where the segments of a curve's upper concave hull end, from place 0 to its first
    maximum.

    Points on a segment count as ends too: of two steps that gain the same, the smaller.
    """
    best = np.maximum.accumulate(curve)
    places = np.concatenate(([0], np.flatnonzero(best[1:] > best[:-1]) + 1))
    reach = 1
    while len(places) > 2 * reach:
        # A point below the line between any two others is not on the hull. Ever more distant
        # ones show at once what lies in the shade of a cliff.
        above = _is_above(places, curve[places], reach)
        if reach == 1 and above.all():
            return places[1:]
        if above.sum() > _FEW_DROPPED * len(places):
            reach *= 2
        places = places[above]
    return _on_hull(places, curve[places])


def _is_above(places: IntArray, values: FloatArray, reach: int = 1) -> npt.NDArray[np.bool_]:
    """Whether a point is not below the line between those ``reach`` before and after it.

    Of the first and the last ones, between the end of the curve and the other.
    """
    slopes = (values[reach:] - values[:-reach]) / (places[reach:] - places[:-reach])
    near = slice(1, reach)
    first = (values[near] - values[0]) / (places[near] - places[0])
    near = slice(-reach, -1)
    last = (values[-1] - values[near]) / (places[-1] - places[near])
    above = np.ones(len(places), dtype=bool)
    above[1:-1] = np.concatenate((first, slopes[:-1])) >= np.concatenate((slopes[1:], last))
    return above


def _on_hull(places: IntArray, values: FloatArray) -> IntArray:
    """Return the places on the hull, but for the first.

    One point after the other goes on the hull and takes away those before it that then lie below.
    In a stretch that bends down nobody does, so it goes on as a whole.
    """
    at, value = places.tolist(), values.tolist()
    ends_of_stretches = [*np.flatnonzero(~_is_above(places, values)).tolist(), len(at) - 1]
    hull = [0]
    stretch = 0
    point = 1
    while point < len(at):
        while len(hull) > 1:
            before, last = hull[-2], hull[-1]
            slope = (value[last] - value[before]) / (at[last] - at[before])
            if slope >= (value[point] - value[last]) / (at[point] - at[last]):
                break
            hull.pop()
        is_next = hull[-1] == point - 1
        hull.append(point)
        point += 1
        if is_next:
            while ends_of_stretches[stretch] < point - 1:
                stretch += 1
            end = ends_of_stretches[stretch]
            hull.extend(range(point, end + 1))
            point = end + 1
    return places[hull[1:]]
