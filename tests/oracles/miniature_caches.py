"""The caches of ``sidecar/curves/miniature_caches.py`` in Python; other random numbers."""

from __future__ import annotations

import random
from bisect import insort_left
from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np

from sidecar.curves.miniature_caches import EvictionSettings, IntArray
from sidecar.curves.object_groups import GROUPS
from sidecar.curves.references import Accesses
from sidecar.samples.wire_format import Operation
from tests.oracles.object_groups import group_of

_IDLE = itemgetter(0)
_POOL_SIZE = 16
_LFU_FIRST_COUNT = 5
_LFU_MOST = 255
_READ_HIT = int(Operation.READ_HIT)
_READ_MISS = int(Operation.READ_MISS)
_WRITE = int(Operation.WRITE)
_EVICTION = int(Operation.EVICTION)


class _Entry:
    __slots__ = ("count", "place", "touched", "weight")

    def __init__(self, weight: int, count: int, touched: int, place: int) -> None:
        self.weight = weight
        self.count = count
        self.touched = touched
        self.place = place


class MiniatureCache:
    """One small cache, evicting as Redis does.

    Attributes:
        capacity: in the weights' unit; may be changed at any time.
        used: sum of the weights.
    """

    def __init__(self, capacity: float, settings: EvictionSettings, seed: int = 0) -> None:
        self.capacity = capacity
        self.used = 0
        self._settings = settings
        self._entries: dict[int, _Entry] = {}
        self._keys: list[int] = []
        self._pool: list[tuple[int, int]] = []  # (idle, key), the best to evict last
        self._random = random.Random(seed)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: int) -> bool:
        return key in self._entries

    def touch(self, key: int, now_seconds: int) -> bool:
        """Access ``key``; False if it is not here."""
        entry = self._entries.get(key)
        if entry is None:
            return False
        minute = now_seconds // 60
        count = self._decayed(entry, minute)
        beyond = count - _LFU_FIRST_COUNT
        if count < _LFU_MOST and (
            beyond <= 0 or self._random.random() * (beyond * self._settings.lfu_log_factor + 1) < 1
        ):
            count += 1
        entry.count, entry.touched = count, minute
        return True

    def put(self, key: int, weight: int, now_seconds: int) -> None:
        """Set ``key`` to ``weight``, and evict until everything fits; not what never does, so that
        each eviction was paid for by one that was put in."""
        if weight > self.capacity:
            self.remove(key)
            return
        entry = self._entries.get(key)
        if entry is None:
            place = len(self._keys)
            self._entries[key] = _Entry(weight, _LFU_FIRST_COUNT, now_seconds // 60, place)
            self._keys.append(key)
            self.used += weight
        else:
            self.used += weight - entry.weight
            entry.weight = weight
        self.fit(now_seconds)

    def fit(self, now_seconds: int) -> None:
        """Evict what is too much."""
        while self.used > self.capacity and self._keys:
            self._evict(now_seconds)

    def remove(self, key: int) -> None:
        """Take ``key`` out, if it is here."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.used -= entry.weight
            last = self._keys.pop()
            if last != key:
                self._keys[entry.place] = last
                self._entries[last].place = entry.place

    def add_weight(self, more: int) -> None:
        """Make each object ``more`` heavier (lighter, if negative), but 1 at least; where that is
        too much, objects leave with the next accesses."""
        for entry in self._entries.values():
            entry.weight = max(1, entry.weight + more)
        self.used = sum(entry.weight for entry in self._entries.values())

    def _decayed(self, entry: _Entry, minute: int) -> int:
        period = self._settings.lfu_decay_time_minutes
        return max(0, entry.count - (minute - entry.touched) // period) if period else entry.count

    def _idle(self, entry: _Entry, now_seconds: int) -> int:
        return _LFU_MOST - self._decayed(entry, now_seconds // 60)

    def _evict(self, now_seconds: int) -> None:
        pool, keys, entries = self._pool, self._keys, self._entries
        while True:
            # evictionPoolPopulate(): keys on one streak of hash buckets, as good as random.
            for _ in range(min(self._settings.samples, len(keys))):
                key = keys[int(self._random.random() * len(keys))]
                idle = self._idle(entries[key], now_seconds)
                full = len(pool) >= _POOL_SIZE
                if (full and idle <= pool[0][0]) or any(key == other for _, other in pool):
                    continue
                # Before its equals: of those, Redis evicts the one that it has known longest.
                insort_left(pool, (idle, key), key=_IDLE)
                if full:
                    del pool[0]
            while pool:
                _, key = pool.pop()
                if key in entries:
                    self.remove(key)
                    return


class MiniatureCaches:
    """Caches of several sizes that see one stream of accesses. ``capacities``: of each, in the
    weights' unit; may be changed at any time."""

    def __init__(self, cache_count: int, settings: EvictionSettings) -> None:
        self._caches = [MiniatureCache(0.0, settings, seed) for seed in range(cache_count)]
        self._weights: dict[int, int] = {}
        self._missed: set[int] = set()

    def __len__(self) -> int:
        """Objects that any of them knows."""
        return len(self._weights)

    def set_capacities(self, capacities: Sequence[float]) -> None:
        for cache, capacity in zip(self._caches, capacities, strict=True):
            cache.capacity = capacity

    def add_weight(self, more: int) -> None:
        """Make each object, in every cache, ``more`` heavier, as ``MiniatureCache.add_weight``."""
        self._weights = {key: max(1, weight + more) for key, weight in self._weights.items()}
        for cache in self._caches:
            cache.add_weight(more)

    def weight(self, place: int) -> int:
        """Return the weight of what the cache at this place holds."""
        return self._caches[place].used

    def keep_only(self, wanted: Callable[[int], bool]) -> None:
        """Remove all objects but the wanted ones, from every cache."""
        self._missed = set(filter(wanted, self._missed))
        self._remove([key for key in self._weights if not wanted(key)])

    def _remove(self, keys: list[int]) -> None:
        for key in keys:
            self._weights.pop(key, None)
            for cache in self._caches:
                cache.remove(key)

    def access(self, accesses: Accesses, default_weight: int, now_seconds: int) -> IntArray:
        """Take accesses in order.

        Returns:
            Misses of each group of objects in each cache, shape (GROUPS, caches).
        """
        for cache in self._caches:
            cache.fit(now_seconds)
        misses = [[0] * len(self._caches) for _ in range(GROUPS)]
        places = list(enumerate(self._caches))
        for key, operation, known_weight in zip(
            accesses.keys.tolist(),
            accesses.operations.tolist(),
            accesses.weights.tolist(),
            strict=True,
        ):
            if operation > _WRITE:
                if operation < _EVICTION:
                    self._remove([key])
                continue
            weight = known_weight or self._weights.get(key, default_weight)
            if operation == _WRITE:
                self._weights[key] = weight
                # The write that follows a miss is not an access of its own where there was a hit.
                is_fill = key in self._missed
                self._missed.discard(key)
                for cache in self._caches:
                    if not (key in cache if is_fill else cache.touch(key, now_seconds)):
                        cache.put(key, weight, now_seconds)
                continue
            if operation == _READ_HIT:
                self._weights[key] = weight
            else:
                self._missed.add(key)
            row = misses[group_of(key)]
            for place, cache in places:
                if not cache.touch(key, now_seconds):
                    row[place] += 1
                    if operation == _READ_HIT:
                        cache.put(key, weight, now_seconds)
        return np.array(misses)
