"""Says what a server's curve tells, beside what the server measured."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from solver_lambda.documents.units import format_size

# Below it a cache is not full.
_FILLED_RATIO = 0.9


def hit_ratio_at(curve: Mapping[str, Sequence[float]], size_bytes: float) -> float:
    """Return a curve's hit ratio: between its points on the straight line, beyond them as at the
    nearest."""
    sizes, misses = curve["sizes_bytes"], curve["miss_ratios"]
    place = bisect_right(sizes, size_bytes)
    if place == 0 or place == len(sizes):
        return 1.0 - misses[min(place, len(misses) - 1)]
    left, right = sizes[place - 1], sizes[place]
    share = (size_bytes - left) / (right - left)
    return 1.0 - (misses[place - 1] + share * (misses[place] - misses[place - 1]))


def apart_words(server: Mapping[str, Any]) -> str | None:
    """Say that the curve and what the server measured differ by more than the curve's error.
    ``None``: they do not, or one is not known."""
    curve, size, measured = server["curve"], server["maxmemory_bytes"], server["hit_ratio"]
    if not curve or not size or measured is None:
        return None
    by_curve, error = hit_ratio_at(curve, size), server["curve_error_ratio"]
    if abs(by_curve - measured) <= error:
        return None
    why = "why is not known; the load may be another one since, or the window too short to tell"
    used = server["used_bytes"]
    if measured > by_curve:
        why = (
            "at first, and after a change of the load, a curve takes the first read of a key for a "
            "miss; if neither is so, why is not known"
        )
    if measured < by_curve and used is not None and used < _FILLED_RATIO * size:
        why = f"it has filled only {format_size(used)} of {format_size(size)} so far"
    return (
        f"By its curve {server['name']} would hit {by_curve:.1%} with what it has, and "
        f"{measured:.1%} was measured in the last window, farther apart than the curve's error of "
        f"{100 * error:.1f} points: {why}."
    )
