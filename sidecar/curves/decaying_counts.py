"""Holds counts that fade, over several half-lives at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# After so many times the longest time between two plans, a count counts half; shape (m,).
HALF_LIVES_CYCLES = np.array([1 / 12, 1 / 6, 1.0, 6.0])
# The place of one such time.
CYCLE = 2
STEPS_A_CYCLE = 12


class HalfLife(NamedTuple):
    """Says how far back one looks, as places in ``HALF_LIVES_CYCLES``, or ``DAY`` or ``WEEK``. One
    place is for the rate of reads, which is known exactly. The other is for the shape of the curve,
    which takes many samples."""

    rate: int
    shape: int


# Places of rates that are expected as they were at this hour of yesterday, and of last week.
DAY, WEEK = len(HALF_LIVES_CYCLES), len(HALF_LIVES_CYCLES) + 1
RHYTHMS = (HalfLife(DAY, 3), HalfLife(WEEK, 3))
HALF_LIVES = (HalfLife(0, 0), HalfLife(1, 1), HalfLife(2, 2), HalfLife(0, 3), HalfLife(3, 3))


class Remembered:
    """Holds an array that is added to.

    Attributes:
        new: since the last step.
        last: of the last step.
        faded: what came before ``new``, shape (m, *shape).
    """

    def __init__(self, *shape: int) -> None:
        self.new = np.zeros(shape)
        self.last = np.zeros(shape)
        self.faded = np.zeros((len(HALF_LIVES_CYCLES), *shape))

    def step(self, cycles: float) -> None:
        """Close a step that took so long; what is added from now on is another's."""
        factors = 0.5 ** (cycles / HALF_LIVES_CYCLES)
        self.faded *= factors.reshape(-1, *[1] * self.new.ndim)
        self.faded += self.new
        self.last = self.new
        self.new = np.zeros_like(self.last)

    def by(self, length: int) -> FloatArray:
        """Return what a half-life holds now; shape as given."""
        return np.asarray(self.faded[length] + self.new)

    def forget(self) -> None:
        """Forget all that was counted."""
        for part in (self.new, self.last, self.faded):
            part[...] = 0.0

    def change(self, how: Callable[[FloatArray], FloatArray]) -> None:
        """Put ``how(array)`` in the place of each array of the shape."""
        self.new, self.last = how(self.new), how(self.last)
        self.faded = np.stack([how(row) for row in self.faded])
