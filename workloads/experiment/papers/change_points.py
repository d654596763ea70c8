"""Finds where a series leaves its level and where it is at rest again; only the series says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# Of a level: fewer points tell nothing of it.
LEAST_LEVEL = 5
# So much more than Schwarz' criterion asks of a model with levels and bounds of its own.
CAUTION = 3.0
# Of CUSUM, in standard deviations: drift that is let pass, what raises the alarm, and what one
# point counts at most, so that a single one, however high, is no phase.
SLACK = 1.5
ALARM = 10.0
MOST_OF_A_POINT = 8.0
# The median absolute deviation of a normal distribution, times this, is its standard deviation.
NORMAL_DEVIATIONS = 1.4826


class Bounds(NamedTuple):
    """A transition: places in the series of its first point and of the first one after it."""

    begin: int
    end: int


def find_ramp(values: Sequence[float]) -> Bounds | None:
    """The best way to draw a series as a level, a straight line and another level.

    By least squares over all pairs of bounds. ``None`` where one level alone does as well, by
    Schwarz' criterion with a margin. A line that has not ended with the series ends there, but for
    ``LEAST_LEVEL`` points.
    """
    count = len(values)
    if count < 2 * LEAST_LEVEL + 1:
        return None
    x = np.asarray(values, dtype=float)
    x = x - x.mean()
    places = np.arange(count)
    sums, squares, moments = (
        np.concatenate([[0.0], np.cumsum(series)]) for series in (x, x * x, x * places)
    )
    begin, end = np.meshgrid(
        np.arange(LEAST_LEVEL, count - LEAST_LEVEL + 1),
        np.arange(LEAST_LEVEL, count - LEAST_LEVEL + 1),
        indexing="ij",
    )
    before = sums[begin] / begin
    after = (sums[-1] - sums[end]) / (count - end)
    length = np.maximum(end - begin, 1)
    slope = (after - before) / length
    # The line at place i is start + slope i.
    start = before - slope * (begin - 0.5)
    of_places, of_squares = _powers(begin, end)
    line_sum = sums[end] - sums[begin]
    line_error = (
        squares[end]
        - squares[begin]
        - 2 * (start * line_sum + slope * (moments[end] - moments[begin]))
        + start**2 * (end - begin)
        + 2 * start * slope * of_places
        + slope**2 * of_squares
    )
    error = (
        squares[begin]
        - before**2 * begin
        + squares[-1]
        - squares[end]
        - after**2 * (count - end)
        + line_error
    )
    error[begin > end] = np.inf
    first, second = np.unravel_index(np.argmin(error), error.shape)
    least, of_one_level = max(float(error[first, second]), 1e-12), max(float(squares[-1]), 1e-12)
    # Two bounds and one level more.
    if count * np.log(of_one_level / least) <= CAUTION * 3 * np.log(count):
        return None
    return Bounds(int(begin[first, second]), int(end[first, second]))


def _powers(
    begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sums of i and of i² from ``begin`` to before ``end``."""

    def of_places(n: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return n * (n - 1) // 2

    def of_squares(n: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return (n - 1) * n * (2 * n - 1) // 6

    return of_places(end) - of_places(begin), of_squares(end) - of_squares(begin)


def find_spike(
    values: Sequence[float], level_count: int, least_deviation: float = 0.0
) -> Bounds | None:
    """Find where a series rises above its level and is back again, by CUSUM (Page, 1954).

    ``None`` where it does not, or has not come back when the series ends: that is another level.

    Args:
        level_count: the first so many points show the level and how it scatters.
        least_deviation: it counts as scattering at least so much.
    """
    x = np.asarray(values, dtype=float)
    if level_count < LEAST_LEVEL or len(x) <= level_count:
        return None
    level = x[:level_count]
    middle = float(np.median(level))
    scatter = NORMAL_DEVIATIONS * float(np.median(np.abs(level - middle)))
    deviation = max(scatter, least_deviation)
    if deviation == 0.0:
        return None
    steps = np.minimum((x - middle) / deviation, MOST_OF_A_POINT) - SLACK
    total, begin = 0.0, 0
    best, found = ALARM, None
    for place, step in enumerate(steps.tolist()):
        if total == 0.0:
            begin = place
        total = max(0.0, total + step)
        if total > best:
            best, found = total, Bounds(begin, place + 1)
    if found and found.end > len(x) - LEAST_LEVEL:
        return None
    return found
