"""The miss ratio of an LRU cache under independent draws, without playing them.

Che, Tung and Wang, *Hierarchical Web Caching Systems* (IEEE JSAC 20(7), 2002): a cache of s objects
holds about those that were asked for in the last T requests, where T is such that s different ones
were. So a hundred million keys need no hundred million requests.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# Ranks up to here stand for themselves; further ones are taken together, by ratio.
_SINGLE_RANKS = 10_000
_GROUPS = 20_000


class ZipfLaw:
    """Key k = 0, 1 ... has probability ~ 1 / (k + 1)^skew.

    Attributes:
        key_count: of all keys.
    """

    def __init__(self, key_count: int, skew: float) -> None:
        self.key_count = key_count
        self._skew = skew
        single = min(key_count, _SINGLE_RANKS)
        edges = np.unique(np.rint(np.geomspace(single + 1, key_count + 1, _GROUPS)))
        firsts = np.concatenate([np.arange(1, single + 1), edges[:-1]])
        ends = np.concatenate([np.arange(2, single + 2), edges[1:]])
        self._counts = ends - firsts
        # Within a group of neighbours the middle one stands for all.
        weights = ((firsts + ends - 1) / 2) ** -skew
        self._total = float(weights @ self._counts)
        self._probabilities = weights / self._total

    def probabilities(self, keys: npt.NDArray[np.int64]) -> FloatArray:
        """Of some keys, shape as given."""
        return np.asarray((keys + 1.0) ** -self._skew / self._total)

    def different(self, requests: float) -> float:
        """Keys that so many requests ask for, on average."""
        return float(self._counts @ -np.expm1(-self._probabilities * requests))

    def window(self, objects: float) -> float:
        """T: requests in which so many different keys are asked for."""
        low, high = 0.0, 1.0
        while self.different(high) < objects:
            if high > 1e18:
                return np.inf
            high *= 2
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.different(middle) < objects else (low, middle)
        return high

    def miss_ratios(self, objects: FloatArray, after: float) -> FloatArray:
        """What caches of so many objects miss of the next request, when ``after`` requests have
        come since they were empty; shape as ``objects``."""
        mass = self._probabilities * self._counts
        return np.array(
            [mass @ np.exp(-self._probabilities * min(self.window(one), after)) for one in objects]
        )
