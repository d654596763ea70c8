"""Reads that are to be counted elsewhere than the stack says."""

from __future__ import annotations

import math

import numpy as np

from sidecar.curves.lifetimes import Moves


class Corrections:
    """What expiries change in the distances of one batch's reads.

    A read at distance d is a hit from size d upward; but where the copy has expired it is a miss
    again. In a histogram that is summed from above, a hit in sizes [a, b) is a count at a, one
    taken away at b, and one at infinity.

    Attributes:
        added, removed: lists of (size in bytes, object id).
    """

    def __init__(self) -> None:
        self.added: list[tuple[float, int]] = []
        self.removed: list[tuple[float, int]] = []

    def replace(self, key: int, distance: float, hits: list[tuple[float, float]]) -> None:
        """A read that counts as a hit from ``distance`` upward is one in the intervals ``hits``."""
        if hits == [(distance, math.inf)]:
            return
        self.removed.append((distance, key))
        for start, end in hits:
            self.added.append((start, key))
            if end < math.inf:
                self.removed.append((end, key))
        if not hits or hits[-1][1] < math.inf:
            self.added.append((math.inf, key))

    def moves(self) -> tuple[Moves, Moves]:
        """Return where reads are to be counted, and where they are not to be counted any more."""
        return _moves(self.added), _moves(self.removed)


def _moves(pairs: list[tuple[float, int]]) -> Moves:
    sizes = np.array([size for size, _ in pairs], np.float64)
    return sizes, np.array([key for _, key in pairs], np.uint64)
