"""The memory that a server cannot free by eviction, and the least ``maxmemory`` that it works with.

Below it every write fails, as under ``noeviction``.
"""

from __future__ import annotations

from dataclasses import dataclass

# Above what cannot be evicted: room for some keys, and for clients' buffers to grow.
HEADROOM_BYTES = 256 << 10
HEADROOM_RATIO = 1 / 8


def is_too_small(maxmemory_bytes: float, unevictable_bytes: float) -> bool:
    """Whether no key can be kept in it. 0 is unlimited."""
    return 0 < maxmemory_bytes <= unevictable_bytes


def least_maxmemory_bytes(maxmemory_bytes: float, unevictable_bytes: float) -> int:
    """How far a server may be shrunk: with headroom, but no more than it works with now.

    One that is too small, or unlimited (0), needs the headroom too.
    """
    headroom = max(HEADROOM_BYTES, HEADROOM_RATIO * unevictable_bytes)
    wanted = round(unevictable_bytes + headroom)
    if not maxmemory_bytes or is_too_small(maxmemory_bytes, unevictable_bytes):
        return wanted
    return round(min(wanted, maxmemory_bytes))


@dataclass
class Window:
    """What the readings between two observations said, in bytes.

    Clients' buffers come and go within seconds, and a single reading may show any of it.
    """

    readings: int = 0
    unevictable_bytes: int = 0
    _sum_bytes: int = 0
    _most_bytes: int = 0

    def add(self, baseline_bytes: int, unevictable_bytes: int) -> None:
        """Take one reading."""
        self.readings += 1
        self.unevictable_bytes = max(self.unevictable_bytes, unevictable_bytes)
        self._sum_bytes += baseline_bytes
        self._most_bytes = max(self._most_bytes, baseline_bytes)

    @property
    def usual_baseline_bytes(self) -> int:
        """Mean; there must be a reading."""
        return round(self._sum_bytes / self.readings)

    @property
    def baseline_swing_bytes(self) -> int:
        """How far it went above the mean."""
        return self._most_bytes - self.usual_baseline_bytes
