"""What the readings of a server between two observations said, in bytes."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.servers.server_reading import ServerReading


@dataclass
class ReadingWindow:
    """Clients' buffers come and go within seconds, and a single reading may show any of it.

    Attributes:
        unevictable_bytes: the most that no eviction would have freed.
        lasting_bytes: the least of it.
    """

    readings: int = 0
    unevictable_bytes: int = 0
    lasting_bytes: int = 0
    _sum_bytes: int = 0
    _most_bytes: int = 0

    def add(self, reading: ServerReading) -> None:
        """Take one reading."""
        unevictable_bytes = reading.unevictable_bytes
        self.lasting_bytes = min(self.lasting_bytes or unevictable_bytes, unevictable_bytes)
        self.readings += 1
        self.unevictable_bytes = max(self.unevictable_bytes, unevictable_bytes)
        self._sum_bytes += reading.baseline_bytes
        self._most_bytes = max(self._most_bytes, reading.baseline_bytes)

    @property
    def usual_baseline_bytes(self) -> int:
        """Mean; there must be a reading."""
        return round(self._sum_bytes / self.readings)

    @property
    def baseline_swing_bytes(self) -> int:
        """How far it went above the mean."""
        return self._most_bytes - self.usual_baseline_bytes
