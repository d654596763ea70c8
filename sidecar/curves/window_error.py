"""How far off the last predictions were, in the windows that they were made for."""

from __future__ import annotations

import numpy as np

from sidecar.curves.curve_points import FloatArray
from solver_lambda.documents.curve import MissRatioCurve

# What a window tells counts half after so many more.
_HALF_LIFE_WINDOWS = 2.0
# With fewer sampled reads a window tells nothing.
_FEWEST_SAMPLES = 100
# Taken for the error of a window before the first, of miss ratios.
_FIRST_ERROR = 0.05


class WindowError:
    """Of one server: a mean square that fades.

    A curve is made of what was read, and used for what will be read. How much the two differ is
    seen when the next window is over: by how far its own curve, over the sizes that a plan may go
    to, lies from what had been predicted, beyond what its few samples explain.
    """

    def __init__(self) -> None:
        self._predicted: MissRatioCurve | None = None
        self._square, self._weight = _FIRST_ERROR**2, 1.0

    @property
    def ratio(self) -> float:
        """Root of the mean square, of miss ratios."""
        return float(np.sqrt(self._square / self._weight))

    @property
    def sums(self) -> tuple[float, float]:
        """What it knows of windows that are over; may be set."""
        return self._square, self._weight

    @sums.setter
    def sums(self, sums: tuple[float, float]) -> None:
        self._square, self._weight = sums

    def predict(self, curve: MissRatioCurve) -> None:
        """What is said of the window that begins."""
        self._predicted = curve

    def compare(self, sizes_bytes: FloatArray, miss_ratios: FloatArray, samples: float) -> None:
        """Take the curve of the window that is over, shapes (k,), by so many sampled reads."""
        if self._predicted is None or samples < _FEWEST_SAMPLES or not len(sizes_bytes):
            return
        errors = self._predicted.miss_ratio(sizes_bytes) - miss_ratios
        chance = miss_ratios * (1 - miss_ratios) / samples
        square = max(0.0, float(np.mean(errors**2 - chance)))
        fade = 0.5 ** (1 / _HALF_LIFE_WINDOWS)
        self._square, self._weight = self._square * fade + square, self._weight * fade + 1
