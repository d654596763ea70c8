"""What a server can give that others made room for, also when it does not evict any more."""

from __future__ import annotations

from sidecar.servers.server_reading import ServerReading
from sidecar.servers.unevictable import least_maxmemory_bytes
from sidecar.state.room_made import RoomMade


def can_shrink(reading: ServerReading, name: str, room: RoomMade | None, to_bytes: float) -> bool:
    """Whether it evicts, or what others gave for it can go back to them: all that it has fits."""
    return reading.evicts or (
        _is_for(name, room) and least_maxmemory_bytes(0, reading.counted_bytes) <= to_bytes
    )


def reached_bytes(reading: ServerReading, name: str, room: RoomMade | None, to_bytes: int) -> int:
    """Where it is brought on the way to a size: of what others gave, it keeps what it has filled
    since that size was planned."""
    if reading.evicts or not _is_for(name, room):
        return to_bytes
    return max(to_bytes, least_maxmemory_bytes(reading.maxmemory_bytes, reading.counted_bytes))


def least_size_bytes(reading: ServerReading, name: str, room: RoomMade | None) -> int | None:
    """The least that it works with, see ``least_maxmemory_bytes``; ``None`` if it cannot shrink."""
    if not reading.evicts and not _is_for(name, room):
        return None
    stays_bytes = reading.unevictable_bytes if reading.evicts else reading.counted_bytes
    return least_maxmemory_bytes(reading.maxmemory_bytes, stays_bytes)


def _is_for(name: str, room: RoomMade | None) -> bool:
    return room is not None and name in room.needed_bytes
