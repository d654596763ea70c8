"""Tells which servers of the node are replicas of others of it, as Redis' replication ids say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, TypeVar

from sidecar.servers.connection.server_reading import ServerReading

T = TypeVar("T")


class _Watch(Protocol):
    primary_bytes: int | None

    @property
    def last(self) -> ServerReading | None: ...


def tell_primaries(watches: Collection[_Watch]) -> None:
    """Tell each replica, as ``primary_bytes``, how much its primary may hold, or holds. It counts
    if it has a ``maxmemory`` and is of this node; of several that say so, the most. No replica has
    much more for long. All others get ``None``."""
    found = {watch: last for watch in watches if (last := watch.last) is not None}
    primaries = primaries_of(found)
    for watch in watches:
        sizes = [
            max(last.maxmemory_bytes, last.counted_bytes)
            for primary in primaries.get(watch, ())
            if (last := found[primary]).maxmemory_bytes
        ]
        watch.primary_bytes = max(sizes, default=None)


def primaries_of(readings: Mapping[T, ServerReading]) -> dict[T, list[T]]:
    """Return each replica's primary, or several, as any server may say that it is."""
    ids: dict[str, list[T]] = {}
    for name, one in readings.items():
        if one.role == "master" and one.replication_id:
            ids.setdefault(one.replication_id, []).append(name)
    return {
        name: ids[one.replication_id]
        for name, one in readings.items()
        if one.ignores_maxmemory and one.replication_id in ids
    }
