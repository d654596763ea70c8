"""Knows which servers gave memory to others for a while, and have to fill it again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sidecar.curves.served_reads import FULL_RATIO
from sidecar.servers.connection.server_reading import ServerReading


class RoomGivers:
    """Knows who on one node lost keys as it made room for others, and misses them until it is full.

    No plan is to blame for what such a server misses, nor is one that comes next.

    Attributes:
        refilling: servers that have what is planned for them again, or are on the way there, and
            hold less than before; for a cycle at most, as loads change.
    """

    def __init__(self) -> None:
        self.refilling: set[str] = set()
        self._used_bytes: dict[str, int] = {}
        self._lost: dict[str, tuple[int, float]] = {}

    def take_readings(
        self,
        readings: Mapping[str, ServerReading | None],
        giving: Collection[str],
        targets_bytes: Mapping[str, int],
        cycle_seconds: float,
    ) -> None:
        """Look who gives and who fills again. ``giving``: those that have other sizes for now."""
        for name, reading in readings.items():
            if reading is None:
                continue
            used_bytes, at_seconds = reading.counted_bytes, reading.at_seconds
            if name in giving:
                held_bytes, _ = self._lost.get(name, (self._used_bytes.get(name, used_bytes), 0.0))
                self._lost[name] = held_bytes, at_seconds
                continue
            self._used_bytes[name] = used_bytes
            held_bytes, gave_at_seconds = self._lost.get(name, (0, 0.0))
            held_bytes = min(held_bytes, targets_bytes.get(name, held_bytes))
            is_over = at_seconds > gave_at_seconds + cycle_seconds
            if is_over or used_bytes >= FULL_RATIO * held_bytes:
                self._lost.pop(name, None)
        self.refilling = self._lost.keys() - set(giving)
