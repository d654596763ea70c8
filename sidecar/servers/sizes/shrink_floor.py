"""Works out what a server can give that does not evict: what others made room for, and what a
replica has above what it uses, which is all that it takes.

``own_bytes``: ``SidecarState.own_bytes``; who is in it has, or had, what is not its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.connection.unevictable import least_maxmemory_bytes
from sidecar.state.sidecar_state import SidecarState


def can_shrink(
    reading: ServerReading, name: str, own_bytes: Mapping[str, int], to_bytes: float
) -> bool:
    """Whether it evicts, or what others gave for it can go back to them: all that it has fits."""
    return (
        reading.evicts
        or reading.ignores_maxmemory
        or (
            _is_lent(reading, name, own_bytes)
            and least_maxmemory_bytes(0, reading.counted_bytes) <= to_bytes
        )
    )


def sizes_without_passing_needs(
    state: SidecarState, readings: Mapping[str, ServerReading | None]
) -> dict[str, int]:
    """Return what would be planned if nobody had needed anything for a while: a plan goes on from
    there. It is empty where one that others made room for hangs or does not evict, so that it
    cannot give: a plan would divide what is not there. Who was promoted just now keeps what it got
    as a replica."""
    if state.room is None:
        return {}
    for name in state.room.needed_bytes:
        reading = readings.get(name)
        if reading is None or not (reading.evicts or reading.ignores_maxmemory):
            return {}
    promoted = {name for name in state.replicas if (r := readings.get(name)) and r.evicts}
    return {n: size for n, size in state.without_needs.items() if n not in promoted}


def reached_bytes(
    reading: ServerReading,
    name: str,
    own_bytes: Mapping[str, int],
    to_bytes: int,
    primary_bytes: int | None = None,
) -> int:
    """Return how far it is shrunk on the way to a size: of what others gave, it keeps what it has
    filled since that size was planned. ``primary_bytes``: see ``tell_primaries``."""
    if reading.evicts or not _is_lent(reading, name, own_bytes):
        return to_bytes
    return max(to_bytes, _least_bytes(reading, reading.counted_bytes, primary_bytes))


def least_size_bytes(
    reading: ServerReading,
    name: str,
    own_bytes: Mapping[str, int],
    primary_bytes: int | None = None,
) -> int | None:
    """Return the least that it works with, see ``least_maxmemory_bytes``; ``None`` if it cannot
    shrink."""
    if not reading.evicts and not _is_lent(reading, name, own_bytes):
        return None
    stays_bytes = reading.unevictable_bytes if reading.evicts else reading.counted_bytes
    return _least_bytes(reading, stays_bytes, primary_bytes)


def _least_bytes(reading: ServerReading, stays_bytes: int, primary_bytes: int | None) -> int:
    """A replica's headroom ends where its primary's memory does: otherwise each failover would make
    both of them larger. Which its primary is, any server may say: so it keeps what it holds."""
    least_bytes = least_maxmemory_bytes(reading.maxmemory_bytes, stays_bytes)
    if primary_bytes is None:
        return least_bytes
    return min(least_bytes, max(stays_bytes, primary_bytes))


def _is_lent(reading: ServerReading, name: str, own_bytes: Mapping[str, int]) -> bool:
    """Whether it has what others gave, and no operator has made of it what holds data; or its size
    is to be what it uses anyway."""
    if reading.ignores_maxmemory:
        return True
    is_a_store = reading.role == "slave" or reading.maxmemory_policy == "noeviction"
    return name in own_bytes and not is_a_store
