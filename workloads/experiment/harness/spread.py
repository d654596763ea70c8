"""A figure of several repetitions: median and spread."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence


def least_and_greatest(values: Sequence[float]) -> tuple[float, float, float]:
    """The least, the median and the greatest."""
    return min(values), statistics.median(values), max(values)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third; of one value, three times that."""
    if len(values) < 2:
        return (values[0],) * 3
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, statistics.median(values), third


def spread(values: Sequence[float], told: Callable[[float], str]) -> str:
    """Median, then the least and the greatest: ``1.2 ms (1.0 ms to 1.5 ms)``."""
    middle = told(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({told(min(values))} to {told(max(values))})"
