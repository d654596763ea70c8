"""Anchoring: bend a curve so that it says, at the current size, what the server itself says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def anchored(miss_ratios: FloatArray, predicted: float, observed: float) -> FloatArray:
    """``miss_ratios`` scaled by ``observed / predicted``, and kept within [0, 1].

    ``predicted`` is the curve's miss ratio at the size at which the server had ``observed``.
    Nothing is done when either is 0, as a ratio would tell nothing.
    """
    if predicted <= 0 or observed <= 0:
        return miss_ratios
    return np.asarray(np.clip(miss_ratios * (observed / predicted), 0.0, 1.0))
