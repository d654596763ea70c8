"""Simulates caches that nobody has: what they would hold had another plan been carried out."""

from __future__ import annotations

import numpy as np

from sidecar.half_lives.virtual_plans import UNITS, FloatArray, at_units, cost_of


class VirtualDivision:
    """Divides one node's memory as a plan would have, in units, shape (n,).

    A size says what a cache may hold, not what it holds. One that was cut and grows again misses
    what it gave up, until it has read that again; a plan that moves memory to and fro looks good
    in each single step, and is not. So a division remembers how much of its size is filled, and
    hands memory over as it is filled, as the actuator does.

    Attributes:
        planned: the sizes that are wanted now.
    """

    def __init__(self, filled: FloatArray) -> None:
        self.planned = self._filled = filled

    def step(self, miss_costs: FloatArray, fills: FloatArray) -> float:
        """Take a step. Returns what its misses cost, a second.

        Args:
            miss_costs: by server and units, shape (n, UNITS + 1).
            fills: units that misses fill in the step, shape (n, UNITS + 1).
        """
        before = self._filled
        grown = np.maximum(before, np.minimum(self.planned, before + at_units(before, fills)))
        spare = np.maximum(0.0, grown - self.planned)
        needed = grown.sum() - UNITS
        if needed > 0 and spare.any():
            grown -= spare * min(1.0, needed / spare.sum())
        self._filled = grown
        return cost_of((before + grown) / 2, miss_costs)
