"""Simulates Redis' own eviction in miniature, for policies that are not stack algorithms.

Caches of several sizes, each scaled down by the sampling rate R, see the sampled accesses only.
Source: Waldspurger, Saemundsson, Ahmad, Park, *Cache Modeling and Optimization using Miniature
Simulations*, USENIX ATC'17.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sidecar.curves.decaying_counts import Remembered
from sidecar.curves.miniature_caches import EvictionSettings, MiniatureCaches
from sidecar.curves.object_groups import GROUPS
from sidecar.curves.references import Accesses

FloatArray = npt.NDArray[np.float64]


class MiniatureSimulation:
    """Simulates the misses of a server's policy at several sizes.

    Attributes:
        sizes_bytes: shape (k,), memory of the keys (no baseline), increasing.
        misses: shape (GROUPS, k), estimates of all misses; divide by the true number of reads.
    """

    def __init__(self, sizes_bytes: FloatArray, settings: EvictionSettings) -> None:
        self.sizes_bytes = sizes_bytes
        self.settings = settings
        self.misses = Remembered(GROUPS, len(sizes_bytes))
        self._window_misses = np.zeros(len(sizes_bytes))
        self._caches = MiniatureCaches(len(sizes_bytes), settings)
        self._rate, self._pinned_bytes = 0.0, 0.0

    def __len__(self) -> int:
        """Count the objects that any of its caches knows."""
        return len(self._caches)

    def set_rate(self, rate: float, pinned_bytes: float = 0.0) -> None:
        """Set R: each cache holds R times what its size leaves beside ``pinned_bytes`` of keys that
        are never evicted."""
        left = np.maximum(0.0, self.sizes_bytes - pinned_bytes)
        self._caches.set_capacities((left * rate).tolist())
        self._rate, self._pinned_bytes = rate, pinned_bytes

    @property
    def depths_bytes(self) -> FloatArray:
        """Return where its misses stand on a curve, shape (k,): at ``sizes_bytes``, but for one.
        The least cache with room for all keys misses no more often than one that they just fill.
        There a curve ends in a bend, which a straight line between two sizes would cut."""
        depths = self.sizes_bytes.copy()
        weight = self._caches.weight(len(depths) - 1)
        if weight and self._rate:
            all_bytes = weight / self._rate + self._pinned_bytes
            place = int(np.searchsorted(depths, all_bytes))
            if place < len(depths):
                depths[place] = all_bytes
        return depths

    def add_weight(self, more: int) -> None:
        """Make each object ``more`` bytes heavier (lighter, if negative)."""
        self._caches.add_weight(more)

    def keep_only(self, wanted: Callable[[int], bool]) -> None:
        """Remove all objects but the wanted ones, from every cache."""
        self._caches.keep_only(wanted)

    def access(
        self, accesses: Accesses, default_weight: int, now_seconds: int, rate: float
    ) -> None:
        """Take accesses in order."""
        new = self._caches.access(accesses, default_weight, now_seconds) / rate
        self.misses.new += new
        self._window_misses += new.sum(axis=0)

    def take_window(self, depth_bytes: float = 0.0) -> float:
        """Return the misses since the last call, of a server with room for so many bytes of
        keys."""
        window, self._window_misses = self._window_misses, np.zeros(len(self.sizes_bytes))
        return float(np.interp(depth_bytes, self.depths_bytes, window))


def simulated_sizes(budget_bytes: int) -> FloatArray:
    """Return the caches' sizes in bytes: from 1/256 of the budget up to it, each a tenth below the
    next."""
    return np.geomspace(1 / 256, 1, 48) * budget_bytes
