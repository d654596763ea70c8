"""When objects expire of which the server will not tell."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

_SPARE_ENTRIES = 256


class DueExpiries:
    """Keeps a heap of times. Of each object only the newest entry counts; what is stale stays until
    its time, or until there are twice as many entries as objects can be due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, float]] = []
        # Of each object that has one, and it stands in the heap.
        self._newest: dict[int, tuple[float, int, float]] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, at: float, key: int, expires_at: float) -> None:
        """The copies of an object that expire at ``expires_at`` are taken out at ``at``."""
        newest = self._newest.get(key)
        if newest is None or newest[2] != expires_at:
            self._newest[key] = (at, key, expires_at)
            heapq.heappush(self._heap, self._newest[key])

    def limit(self, objects: int, is_live: Callable[[int, float], bool]) -> None:
        """Drop what is stale where there is too much of it for so many objects with copies."""
        if len(self._heap) > 2 * objects + _SPARE_ENTRIES:
            self.drop_stale(is_live)

    def drop_stale(self, is_live: Callable[[int, float], bool]) -> None:
        """Forget what does not count, and what is not live: an object, and when it expires."""
        self._newest = {key: entry for key, entry in self._newest.items() if is_live(key, entry[2])}
        self._heap = list(self._newest.values())
        heapq.heapify(self._heap)

    def pop_until(self, now_seconds: float) -> Iterator[tuple[int, float]]:
        """Objects whose time has come, and when they expire."""
        while self._heap and self._heap[0][0] <= now_seconds:
            entry = heapq.heappop(self._heap)
            if self._newest.get(entry[1]) == entry:
                del self._newest[entry[1]]
                yield entry[1], entry[2]
