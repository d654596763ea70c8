"""Ratios of things measured side by side: their median, its interval, and what that shows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

CONFIDENCE = 0.95
FEWEST = 6  # ratios: of fewer, not even the range is such an interval


class MedianRatio(NamedTuple):
    """The median of ``ratios``, and an interval that holds the true one."""

    ratios: list[float]
    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


def median_ratio(values: Sequence[float], bases: Sequence[float]) -> MedianRatio:
    """Of each value to the base measured beside it.

    Raises:
        ValueError: not one base for each value.
    """
    ratios = [value / base for value, base in zip(values, bases, strict=True)]
    return MedianRatio(ratios, statistics.median(ratios), *median_interval(ratios))


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Two of the values: the true median lies between them, whatever the values' distribution.

    The interval of the sign test (Conover, *Practical Nonparametric Statistics*, section 3.2): as
    many values are cut off at either end as fair coins would hardly put there. With fewer than
    ``FEWEST`` values nothing can be cut off, and the confidence in their range is lower than 0.95.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("no values")
    count, cut, unlikely = len(values), 0, 0.0
    while True:
        unlikely += math.comb(count, cut) / 2**count
        if unlikely > (1 - confidence) / 2:
            break
        cut += 1
    # The cut-th value from either end still belongs to the interval.
    ordered = sorted(values)
    return ordered[max(cut, 1) - 1], ordered[count - max(cut, 1)]


class Target(NamedTuple):
    """What a ratio should be: at most, or at least, ``bound``."""

    bound: float
    at_most: bool = True

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}"

    def verdict(self, ratio: MedianRatio, null: MedianRatio) -> str:
        """``met``, ``missed`` or ``not shown``.

        Met: all of the interval is on the good side, and all of the null's: otherwise the
        measurement could not have told. Missed: all of it is on the bad side, and clear of the
        null's. Of fewer ratios than ``FEWEST`` nothing is shown.
        """
        if len(ratio.ratios) < FEWEST:
            return "not shown"
        worst, best = (ratio.high, ratio.low) if self.at_most else (ratio.low, ratio.high)
        if self._holds(worst) and self._holds(null.high if self.at_most else null.low):
            return "met"
        apart = ratio.low > null.high or ratio.high < null.low
        return "missed" if apart and not self._holds(best) else "not shown"

    def _holds(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound
