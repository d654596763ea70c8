"""Upper concave hulls of the utility curves: LookAhead climbs them, the bound is made of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver_lambda.curve import FloatArray
from solver_lambda.problem import IntArray, PartitionProblem

# Rows are taken in groups of so many points, so that the copies stay in the processor's cache.
_POINTS_AT_ONCE = 1 << 17


@dataclass(frozen=True, eq=False)
class HullSegments:
    """The rising segments of all hulls, from the steepest to the flattest.

    Within a row they stand from left to right, because a hull's slopes fall.

    Attributes, all of shape (segments,):
        rows: the server.
        starts, widths: in units.
        slopes: utility per unit, > 0.
    """

    rows: IntArray
    starts: IntArray
    widths: IntArray
    slopes: FloatArray


def hull_segments(problem: PartitionProblem) -> HullSegments:
    """The hull of each row over the points 0 to its limit."""
    width = problem.utilities.shape[1]
    at_once = max(1, _POINTS_AT_ONCE // width)
    parts = [
        _hull_vertices(
            problem.utilities[first : first + at_once], problem.limits[first : first + at_once]
        )
        for first in range(0, len(problem.limits), at_once)
    ]
    rows = np.concatenate([part[0] + i * at_once for i, part in enumerate(parts)])
    positions = np.concatenate([part[1] for part in parts])
    values = problem.utilities[rows, positions]
    widths = np.diff(positions)
    inside = (np.diff(rows) == 0) & (np.diff(values) > 0)
    slopes = np.diff(values)[inside] / widths[inside]
    order = np.argsort(-slopes, kind="stable")
    return HullSegments(
        rows[:-1][inside][order],
        positions[:-1][inside][order],
        widths[inside][order],
        slopes[order],
    )


def _hull_vertices(utilities: FloatArray, limits: IntArray) -> tuple[IntArray, IntArray]:
    """Row and position of each hull vertex.

    A point on or below the line between its neighbours is no vertex, so all such points go at
    once, and again until none is left.
    """
    rows, positions = np.nonzero(np.arange(utilities.shape[1]) <= limits[:, None])
    values = utilities[rows, positions]
    while True:
        rises = np.diff(values)
        runs = np.diff(positions)
        keep = np.ones(len(rows), dtype=bool)
        keep[1:-1] = (rises[:-1] * runs[1:] > rises[1:] * runs[:-1]) | (rows[2:] != rows[:-2])
        if keep.all():
            return rows, positions
        rows, positions, values = rows[keep], positions[keep], values[keep]
