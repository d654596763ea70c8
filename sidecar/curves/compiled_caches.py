"""The caches of ``miniature_caches`` by the compiled library, many times as fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import CDLL

import numpy as np

from sidecar.curves.compiled_stack import installed_library
from sidecar.curves.miniature_caches import EvictionSettings, IntArray, MiniatureCaches
from sidecar.curves.object_groups import GROUPS
from sidecar.curves.references import Accesses


class CompiledCaches:
    """What ``MiniatureCaches`` are, but for random numbers; see ``kernel/miniature_caches.c``."""

    def __init__(self, cache_count: int, settings: EvictionSettings, found: CDLL) -> None:
        self._library = found
        self._cache_count = cache_count
        self._caches = found.spreds_caches_new(
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
        return int(self._library.spreds_caches_live(self._caches))

    def set_capacities(self, capacities: Sequence[float]) -> None:
        told = np.array(capacities, dtype=np.float64)
        self._library.spreds_caches_set_capacities(self._caches, told.ctypes.data)

    def add_weight(self, more: int) -> None:
        """As ``MiniatureCaches.add_weight``."""
        self._library.spreds_caches_add_weight(self._caches, more)

    def weight(self, place: int) -> int:
        """As ``MiniatureCaches.weight``."""
        return int(self._library.spreds_caches_weight(self._caches, place))

    def keep_only(self, wanted: Callable[[int], bool]) -> None:
        keys = np.empty(len(self), np.uint64)
        self._library.spreds_caches_list(self._caches, keys.ctypes.data)
        gone = np.array([key for key in keys.tolist() if not wanted(key)], dtype=np.uint64)
        self._library.spreds_caches_remove(self._caches, gone.ctypes.data, len(gone))

    def access(self, accesses: Accesses, default_weight: int, now_seconds: int) -> IntArray:
        """As ``MiniatureCaches.access``. Raises MemoryError."""
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


def new_caches(cache_count: int, settings: EvictionSettings) -> CompiledCaches | MiniatureCaches:
    """Empty caches without room: compiled ones where there is the library."""
    found = installed_library()
    if found is None:
        return MiniatureCaches(cache_count, settings)
    return CompiledCaches(cache_count, settings, found)
