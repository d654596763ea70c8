"""Says what Redis' eviction, which looks at a few keys, makes of the curve of exact LRU.

``src/evict.c`` looks at ``maxmemory-samples`` keys (K) for each eviction, keeps the best candidates
in a pool and evicts the best of these. In the long run as many candidates leave the pool evicted as
come into it to stay, one in K: what is evicted comes, nearly evenly, from the K-th part of the
cache that is least recently used. Without a look at recency (``*-random``) K is 1. This is a mean
field of the rule; the tests compare it with the rule itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.kernel.library import library

FloatArray = npt.NDArray[np.float64]

PER_OCTAVE = 16
# Shape (k,): sizes of caches for which a curve is bent; 4.4 % from one to the next.
GRID_BYTES: FloatArray = np.rint(2.0 ** (7 + np.arange(37 * PER_OCTAVE + 1) / PER_OCTAVE))
# With more, what differs from exact LRU is finer than the grid.
MOST_SAMPLES = 64

# Survival is followed in steps of at most a sixteenth of a cache and a quarter of a K-th part, and
# until e^-8 is left.
_STEPS_PER_CACHE, _STEPS_PER_PART = 16, 4
_PARTS = 8


class SampledEviction:
    """To reads, a cache that evicts by samples is like one with exact LRU whose size varies.

    An object that is not read while others of d bytes are survives in a cache of C bytes with a
    probability S. It is 1 until the object is among the last K-th part, where each eviction may
    take it. d grows by every read of something older or new, of which evictions are only a part,
    mr(C) / mr_LRU(d); those before the object keep it from the last part for longer. So
    mr(C) = Σ w(r) mr_LRU(r C) with w = -ΔS, which needs mr(C) for S: solved by iteration.
    """

    def __init__(self, samples: int, miss_ratios: FloatArray, evicting: FloatArray) -> None:
        """Start from the curve of exact LRU at ``GRID_BYTES``. ``evicting`` tells how often a cache
        of each size was full; until then it evicts nothing. Both have shape (k,)."""
        steps = steps_of(samples)
        self._offsets = steps.offsets
        self._loss: tuple[float, FloatArray] | None = None
        exact, full = (np.ascontiguousarray(one, np.float64) for one in (miss_ratios, evicting))
        self._weights = np.empty((len(exact), len(steps.offsets)))
        if library().spreds_eviction_weights(
            *(exact.ctypes.data, full.ctypes.data, len(exact), samples, steps.width),
            *(steps.low.ctypes.data, steps.between.ctypes.data, len(steps.low)),
            *(-int(steps.offsets[0]), len(steps.offsets), self._weights.ctypes.data),
        ):
            raise ValueError(f"{len(steps.low)} steps are too many")

    def _around(self, rows: FloatArray) -> FloatArray:
        """Return each row's values at every size of the grid and the offsets from it, the row's
        ends going on; shape (n, k, offsets)."""
        low, high = -self._offsets[0], self._offsets[-1]
        padded = np.pad(rows, ((0, 0), (low, high)), mode="edge")
        return np.lib.stride_tricks.sliding_window_view(padded, len(self._offsets), axis=1)

    def bent(self, rows: FloatArray) -> FloatArray:
        """Return the misses of this eviction from those of exact LRU, both at ``GRID_BYTES``; shape
        (n, k)."""
        return np.asarray(np.einsum("nko,ko->nk", self._around(rows), self._weights))

    def lost(self, distances_bytes: FloatArray, size_bytes: float) -> FloatArray:
        """Return how probably reads at these stack distances miss in a cache of this size; shape as
        given."""
        if size_bytes <= 0:
            return np.ones(len(distances_bytes))
        first, values = self.loss(size_bytes)
        with np.errstate(divide="ignore"):
            relative = np.log2(distances_bytes / size_bytes) * PER_OCTAVE
        return np.asarray(np.interp(relative, first + np.arange(len(values)), values))

    def loss(self, size_bytes: float) -> tuple[float, FloatArray]:
        """Return the same as a table. Its first place is in ``PER_OCTAVE``-ths of a doubling of the
        distance from the size. Values are there, and at each whole step from it."""
        if self._loss is None or self._loss[0] != size_bytes:
            place = np.log2(size_bytes / GRID_BYTES[0]) * PER_OCTAVE if size_bytes > 0 else 0.0
            row = self._weights[int(np.clip(round(place), 0, len(GRID_BYTES) - 1))]
            # A cache of the varying size at offset o misses what lies deeper.
            self._loss = size_bytes, np.append(0.0, np.cumsum(row))
        return float(self._offsets[0] - 0.5), self._loss[1]


class EvictionSteps(NamedTuple):
    """Holds the steps by which an object's survival is followed.

    Attributes:
        width: of one, as a share of the cache.
        low: shape (steps,), the place in ``offsets`` of the last point of the grid below each one.
        between: shape (steps,), how far it lies towards the next point.
        offsets: of the points that stand for them, from the size of the cache.
    """

    width: float
    low: npt.NDArray[np.int64]
    between: FloatArray
    offsets: npt.NDArray[np.int64]


# A server says how many samples it takes.
@lru_cache(maxsize=16)
def steps_of(samples: int) -> EvictionSteps:
    """Return the steps for ``maxmemory-samples``."""
    per_part = max(_STEPS_PER_PART, _STEPS_PER_CACHE // samples)
    edges = 1 + (np.arange(per_part * _PARTS + 1) / per_part - 1) / samples
    middles = np.append((edges[1:] + edges[:-1]) / 2, edges[-1])
    places = np.log2(middles) * PER_OCTAVE
    low = np.floor(places).astype(np.int64)
    offsets = np.arange(min(int(low[0]), 0), int(low[-1]) + 2)
    return EvictionSteps(1 / (samples * per_part), low - offsets[0], places - low, offsets)
