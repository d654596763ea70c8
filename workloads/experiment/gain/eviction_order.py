"""Which key a simulated server evicts next: by exact LRU, or by Redis' samples of it."""

from __future__ import annotations

import random
from bisect import insort
from collections import OrderedDict
from typing import Protocol

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
