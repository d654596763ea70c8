"""Simulates small caches that evict as Redis' LFU does.

The eviction is that of ``src/evict.c`` in Redis 7.0: a few random keys are looked at, the best
candidates stay in a pool of 16, the pool's best is evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidecar.curves.object_groups import GROUPS
from sidecar.curves.references import Accesses
from sidecar.kernel.library import library
from sidecar.servers.connection.server_reading import ServerReading

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EvictionSettings:
    """Holds a server's ``maxmemory-samples`` and the two settings of LFU."""

    samples: int = 5
    lfu_log_factor: int = 10
    lfu_decay_time_minutes: int = 1

    @classmethod
    def of(cls, reading: ServerReading) -> EvictionSettings:
        """Return those that are in force."""
        return cls(
            reading.maxmemory_samples, reading.lfu_log_factor, reading.lfu_decay_time_minutes
        )


class MiniatureCaches:
    """Simulates caches of several sizes that see one stream of accesses, at first without room; see
    ``kernel/miniature_caches.c``."""

    def __init__(self, cache_count: int, settings: EvictionSettings) -> None:
        self._library = library()
        self._cache_count = cache_count
        self._caches = self._library.spreds_caches_new(
            cache_count,
            settings.samples,
            settings.lfu_log_factor,
            settings.lfu_decay_time_minutes,
        )
        if not self._caches:
            raise MemoryError("not enough memory for miniature caches")

    def __del__(self) -> None:
        if getattr(self, "_caches", None):
            self._library.spreds_caches_free(self._caches)

    def __len__(self) -> int:
        """Count the objects that any of them knows."""
        return int(self._library.spreds_caches_live(self._caches))

    def set_capacities(self, capacities: Sequence[float]) -> None:
        """Set each cache's capacity, in the weights' unit; at any time."""
        told = np.array(capacities, dtype=np.float64)
        self._library.spreds_caches_set_capacities(self._caches, told.ctypes.data)

    def add_weight(self, more: int) -> None:
        """Make each object, in every cache, ``more`` heavier (lighter, if negative), but 1 at
        least; where that is too much, objects leave with the next accesses."""
        self._library.spreds_caches_add_weight(self._caches, more)

    def weight(self, place: int) -> int:
        """Return the weight of what the cache at this place holds."""
        return int(self._library.spreds_caches_weight(self._caches, place))

    def keep_only(self, wanted: Callable[[int], bool]) -> None:
        """Remove all objects but the wanted ones, from every cache."""
        keys = np.empty(len(self), np.uint64)
        self._library.spreds_caches_list(self._caches, keys.ctypes.data)
        gone = np.array([key for key in keys.tolist() if not wanted(key)], dtype=np.uint64)
        self._library.spreds_caches_remove(self._caches, gone.ctypes.data, len(gone))

    def access(self, accesses: Accesses, default_weight: int, now_seconds: int) -> IntArray:
        """Take accesses in order. Raises MemoryError.

        Returns:
            Misses of each group of objects in each cache, shape (GROUPS, caches).
        """
        keys = np.ascontiguousarray(accesses.keys, np.uint64)
        operations = np.ascontiguousarray(accesses.operations, np.uint8)
        weights = np.ascontiguousarray(accesses.weights, np.int64)
        misses = np.zeros((GROUPS, self._cache_count), np.int64)
        if self._library.spreds_caches_access(
            self._caches,
            *(keys.ctypes.data, operations.ctypes.data, weights.ctypes.data, len(keys)),
            *(default_weight, now_seconds // 60, misses.ctypes.data),
        ):
            raise MemoryError("not enough memory for miniature caches")
        return misses
