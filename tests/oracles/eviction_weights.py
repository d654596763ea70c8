"""What ``spreds_eviction_weights`` does, in numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sidecar.curves.sampled_eviction import steps_of

FloatArray = npt.NDArray[np.float64]

ROUNDS, CONVERGED_RATIO = 40, 1e-4


def eviction_weights(samples: int, miss_ratios: FloatArray, evicting: FloatArray) -> FloatArray:
    """Return the weights of the curve's values around each size; shape (k, offsets)."""
    steps = steps_of(samples)
    rows = np.arange(len(steps.low))
    spread = np.zeros((len(rows), len(steps.offsets)))
    spread[rows, steps.low] = 1 - steps.between
    spread[rows, steps.low + 1] = steps.between
    padded = np.pad(miss_ratios, (-steps.offsets[0], steps.offsets[-1]), mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(padded, len(steps.offsets))
    beyond = around @ spread.T
    exact = np.where(steps.offsets == 0, 1.0, 0.0)
    weights = np.tile(exact, (len(miss_ratios), 1))
    for size in np.flatnonzero((beyond[:, 0] > beyond[:, -1]) & (evicting > 0)):
        ratio = miss_ratios[size]
        for _ in range(ROUNDS):
            lost = _lost(beyond[size], ratio, samples, steps.width)
            before, ratio = ratio, float(lost @ beyond[size])
            if abs(ratio - before) < CONVERGED_RATIO:
                break
        weights[size] = lost @ spread
    share = evicting[:, None]
    return np.asarray(share * weights + (1 - share) * exact)


def _lost(beyond: FloatArray, ratio: float, samples: int, width: float) -> FloatArray:
    """Return the share of the objects that is lost in each step."""
    behind, surviving = 1 / samples, 1.0
    lost = np.empty(len(beyond))
    for step in range(len(beyond) - 1):
        evictions = ratio / max(beyond[step], 1e-12)
        left = surviving * np.exp(-samples * width * evictions)
        lost[step] = surviving - left
        surviving = left
        behind = max(0.0, behind - width * (1 - evictions + samples * behind * evictions))
    lost[-1] = surviving
    return lost
