"""Which key a simulated server evicts next: by exact LRU, or by Redis' samples of it.

The buckets of a Redis hash table, which stay when the keys go (``src/dict.c``, Redis 7.0).

How Redis' cron finds keys whose TTL has passed (``src/expire.c``, Redis 7.0).
"""

from __future__ import annotations

import random
from bisect import insort
from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol

import numpy as np

BUCKET_BYTES = 8
_FIRST_BUCKETS = 4
# HASHTABLE_MAX_LOAD_FACTOR: fuller than this, a table grows even where that exceeds maxmemory.
_MOST_FILLED = 1.618
# HASHTABLE_MIN_FILL, percent: emptier than this, it shrinks.
_LEAST_FILLED_PERCENT = 10


class HashTable:
    """A power of two of buckets; both methods return by how many bytes it grew."""

    def __init__(self) -> None:
        self._buckets = 0
        self._moved_from = 0  # buckets of the table that the keys are still moved from

    def make_room(self, keys: int, spare_bytes: int) -> int:
        """Make room before a key is added to ``keys``; ``spare_bytes`` are left below maxmemory."""
        if keys < self._buckets or self._moved_from:
            return 0
        buckets = max(_FIRST_BUCKETS, 1 << keys.bit_length())
        if keys <= _MOST_FILLED * self._buckets and buckets * BUCKET_BYTES > spare_bytes:
            return 0
        return self._move_to(buckets)

    def look(self, keys: int) -> int:
        """Do as Redis' cron does: it moves the keys, and shrinks a table that is nearly empty."""
        freed, self._moved_from = self._moved_from, 0
        grown = 0
        if self._buckets > _FIRST_BUCKETS and 100 * keys < _LEAST_FILLED_PERCENT * self._buckets:
            grown = self._move_to(max(_FIRST_BUCKETS, 1 << max(0, keys - 1).bit_length()))
        return grown - freed * BUCKET_BYTES

    def _move_to(self, buckets: int) -> int:
        self._moved_from, self._buckets = self._buckets, buckets
        return buckets * BUCKET_BYTES


# ACTIVE_EXPIRE_CYCLE_KEYS_PER_LOOP and _ACCEPTABLE_STALE, the latter in percent.
_KEYS_A_LOOP = 20
_ACCEPTABLE_PERCENT = 10


class ExpiryCycle:
    """Looks at keys in the order of a hash table, and goes on where it ended.

    ``key_count`` is more than the greatest key.
    """

    def __init__(self, key_count: int, seed: int) -> None:
        self._order: list[int] = np.random.default_rng(seed).permutation(key_count).tolist()
        self._next = 0

    def run(self, expiries: Mapping[int, float], now: float) -> list[int]:
        """The dead keys that one run of the cron finds: it ends when a tenth of those that it last
        looked at, or less, were dead. ``expiries`` are the times when keys die."""
        dead: list[int] = []
        unseen = len(expiries)
        while unseen:
            looked_at = min(_KEYS_A_LOOP, unseen)
            found = [key for key in self._keys(expiries, looked_at) if expiries[key] <= now]
            dead += found
            unseen -= looked_at
            if 100 * len(found) <= _ACCEPTABLE_PERCENT * looked_at:
                break
        return dead

    def _keys(self, expiries: Mapping[int, float], count: int) -> list[int]:
        keys: list[int] = []
        while len(keys) < count:
            key = self._order[self._next]
            self._next = (self._next + 1) % len(self._order)
            if key in expiries:
                keys.append(key)
        return keys


# src/evict.c, EVPOOL_SIZE.
_POOL_KEYS = 16


class EvictionOrder(Protocol):
    """The keys that a server holds, and which of them goes next."""

    def __contains__(self, key: int) -> bool: ...
    def __len__(self) -> int: ...
    def touch(self, key: int, clock: int) -> None:
        """Note that a key was read or written at this time of the server's LRU clock."""

    def remove(self, key: int) -> None:
        """Forget a key that is held."""

    def pop(self) -> int:
        """Evict a key. Raises KeyError if none is held."""


class ExactLru:
    """Evicts the key that was not read for longest."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, key: int) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def touch(self, key: int, clock: int) -> None:  # noqa: ARG002
        self._held[key] = None
        self._held.move_to_end(key)

    def remove(self, key: int) -> None:
        del self._held[key]

    def pop(self) -> int:
        return self._held.popitem(last=False)[0]


class SampledLru:
    """Evicts as Redis does (``src/evict.c``): of some keys drawn at random the least recent ones
    wait in a pool, and the least recent of the pool goes. What is read while it waits goes as well.
    """

    def __init__(self, samples: int, seed: int) -> None:
        self._samples = samples
        self._draw = random.Random(seed).random
        self._keys: list[int] = []
        self._clocks: list[int] = []
        self._places: dict[int, int] = {}
        # Minus the clock, minus the draw's number, and the key; what goes next is last. Of two with
        # one clock that is the one which was drawn first.
        self._pool: list[tuple[int, int, int]] = []
        self._draws = 0

    def __contains__(self, key: int) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._keys)

    def touch(self, key: int, clock: int) -> None:
        place = self._places.get(key)
        if place is None:
            self._places[key] = len(self._keys)
            self._keys.append(key)
            self._clocks.append(clock)
        else:
            self._clocks[place] = clock

    def remove(self, key: int) -> None:
        place = self._places.pop(key)
        last, clock = self._keys.pop(), self._clocks.pop()
        if last != key:
            self._keys[place], self._clocks[place] = last, clock
            self._places[last] = place

    def pop(self) -> int:
        if not self._keys:
            raise KeyError("no key is held")
        pool = self._pool
        while True:
            for _ in range(self._samples):
                place = int(self._draw() * len(self._keys))
                self._draws += 1
                candidate = (-self._clocks[place], -self._draws, self._keys[place])
                if len(pool) < _POOL_KEYS:
                    insort(pool, candidate)
                elif candidate > pool[0]:
                    insort(pool, candidate)
                    del pool[0]
            while pool:
                *_, key = pool.pop()
                if key in self._places:
                    self.remove(key)
                    return key
