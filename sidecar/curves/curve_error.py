"""Tells how far off a curve may be, within the sizes that a plan may go to."""

from __future__ import annotations

import math

import numpy as np

from sidecar.curves.curve_points import FloatArray
from sidecar.curves.miss_ratio_histogram import EDGES_BYTES, MissRatioHistogram
from sidecar.curves.read_counts import ReadCounts

# A plan is expected not to go below this share of the present size.
_LEAST_SHARE = 0.1
# The model is off by so much of what it changes for loops that hardly fit, its worst case. For
# other loads it is off by far less.
_MODEL_SHARE = 0.25
# Sizes that vary by chance are off by less than this share in their sum.
_LITTLE_GROWTH = 0.05
# Only a curve of which nothing is known has an error of 1.
_MOST_ERROR = 0.99


def least_depth_bytes(depth_bytes: float, budget_bytes: int) -> float:
    """Return the least that a plan is expected to go to from ``depth_bytes``, the present size."""
    # Somebody may have set a maxmemory far above the budget.
    return min(_LEAST_SHARE * depth_bytes, budget_bytes)


def stated_error(
    counts: ReadCounts,
    length: int,
    curve: tuple[FloatArray, FloatArray],
    drift_ratio: float,
    *,
    depth_bytes: float,
    budget_bytes: int,
    swing_bytes: int,
    first_share: float,
) -> float:
    """Return the error that is expected in the next window, of the ``curve`` by the memory
    ``length`` (depths in bytes and miss ratios, shapes (k,)). It combines the errors of sampling
    and of windows before, a part of what the eviction model changes, and what growing values do. Or
    it is the drift, if that is more. The rest is as in ``sampling_error`` and ``growth_error``."""
    exact = None if counts.simulation else counts.histogram.miss_ratios(length)
    sampled = sampling_error(
        counts.histogram,
        exact,
        depth_bytes=depth_bytes,
        budget_bytes=budget_bytes,
        swing_bytes=swing_bytes,
    )
    least_bytes = least_depth_bytes(depth_bytes, budget_bytes)
    bending = counts.bending(least_bytes, budget_bytes)
    grown = growth_error(*curve, first_share, least_bytes, budget_bytes)
    together = math.hypot(sampled, counts.window_error.ratio, _MODEL_SHARE * bending, grown)
    return min(_MOST_ERROR, max(together, abs(drift_ratio)))


def sampling_error(
    histogram: MissRatioHistogram,
    miss_ratios: FloatArray | None,
    *,
    depth_bytes: float,
    budget_bytes: int,
    swing_bytes: int,
) -> float:
    """Return the greatest standard error between a part of ``depth_bytes``, the present size, and
    M.

    Or return half of a change of the curve ``miss_ratios``, shape of ``EDGES_BYTES``, if that is
    more: the change if keys have ``swing_bytes`` less at times than it says.
    """
    least_bytes = least_depth_bytes(depth_bytes, budget_bytes)
    first, last = np.searchsorted(EDGES_BYTES, [least_bytes, budget_bytes])
    first = min(int(first), len(EDGES_BYTES) - 1)  # of a server that may have more than 16 TiB
    swing = 0.0
    if swing_bytes and miss_ratios is not None:
        less = np.interp(np.maximum(EDGES_BYTES - swing_bytes, 0), EDGES_BYTES, miss_ratios)
        swing = float((less - miss_ratios)[first : last + 1].max()) / 2
    return max(swing, float(histogram.standard_errors()[first : last + 1].max()))


def growth_error(
    depths_bytes: FloatArray,
    miss_ratios: FloatArray,
    first_share: float,
    least_bytes: float,
    most_bytes: float,
) -> float:
    """Return by how much growing objects may falsify a curve between two depths. They weighed
    ``first_share`` of what they weigh when the server came to hold them. ``depths_bytes`` and
    ``miss_ratios`` have shape (k,).

    The curve gives each object the weight that it has in the server's own size. In a smaller cache
    values begin anew before they have grown so much. In a larger one they grow on, by about as much
    again, it is assumed. So the curve is off by as much as it changes if all depths are multiplied
    so.
    """
    if abs(1 - first_share) <= _LITTLE_GROWTH:
        return 0.0
    within = (depths_bytes >= least_bytes) & (depths_bytes <= most_bytes)
    changes = [
        np.interp(depths_bytes * factor, depths_bytes, miss_ratios) - miss_ratios
        for factor in (first_share, 1 / first_share)
    ]
    return float(np.abs(changes)[:, within].max(initial=0.0))
