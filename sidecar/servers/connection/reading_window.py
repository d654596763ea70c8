"""Keeps what the readings of a server between two observations said, in bytes."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from sidecar.servers.connection.server_reading import ServerReading

# Of a server's size.
_MOST_BUFFERS_RATIO = 1 / 8


@dataclass
class ReadingWindow:
    """Clients' buffers come and go within seconds, and a single reading may show any of it.

    Attributes:
        unevictable_bytes: the most that no eviction would have freed.
        lasting_bytes: the least of it.
        least_used_bytes, most_used_bytes: that the server used of its ``maxmemory``, or above it.
    """

    readings: int = 0
    unevictable_bytes: int = 0
    lasting_bytes: int = 0
    least_used_bytes: int = 0
    most_used_bytes: int = 0
    _sum_bytes: int = 0
    _most_bytes: int = 0
    _least_bytes: int = 0
    _room_bytes: int = 0

    def add(self, reading: ServerReading) -> None:
        """Take one reading."""
        unevictable_bytes = reading.unevictable_bytes
        self.lasting_bytes = min(self.lasting_bytes or unevictable_bytes, unevictable_bytes)
        used_bytes = reading.counted_bytes
        self.least_used_bytes = min(self.least_used_bytes or used_bytes, used_bytes)
        self.most_used_bytes = max(self.most_used_bytes, used_bytes)
        self._least_bytes = min(self._least_bytes or reading.baseline_bytes, reading.baseline_bytes)
        self._room_bytes = round(_MOST_BUFFERS_RATIO * reading.size_bytes)
        self.readings += 1
        self.unevictable_bytes = max(self.unevictable_bytes, unevictable_bytes)
        self._sum_bytes += reading.baseline_bytes
        self._most_bytes = max(self._most_bytes, reading.baseline_bytes)

    @property
    def usual_baseline_bytes(self) -> int:
        """Return the mean, but no more than a part of its size above the least: clients' buffers
        come and go, and no memory is planned for many of them. There must be a reading."""
        return min(round(self._sum_bytes / self.readings), self._least_bytes + self._room_bytes)

    @property
    def baseline_swing_bytes(self) -> int:
        """Return how far it went above the mean, but no more than twice as far as the mean is above
        the least. What comes for a moment, whatever it is, changes little of a window's misses."""
        mean_bytes = round(self._sum_bytes / self.readings)
        most_bytes = 2 * (mean_bytes - self._least_bytes)
        return min(self._most_bytes - self.usual_baseline_bytes, most_bytes)


class LastingNeeds:
    """Keeps what no eviction freed for a whole cycle, by server. After an early plan a window may
    be a small part of one, and what a client held in it is no lasting need."""

    def __init__(self, cycle_seconds: float) -> None:
        self._cycle_seconds = cycle_seconds
        self._least: dict[str, deque[tuple[float, int]]] = {}

    def over(self, name: str, window_bytes: int) -> int:
        """Return the least of ``window_bytes``, of a window that ends now, and of those that ended
        within a cycle before."""
        least, now = self._least.setdefault(name, deque()), time.monotonic()
        least.append((now, window_bytes))
        while least[0][0] < now - self._cycle_seconds:
            least.popleft()
        return min(size for _, size in least)
