"""Which servers of the node are replicas of others of it, as Redis' replication ids say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sidecar.servers.server_reading import ServerReading


class _Watch(Protocol):
    primary_bytes: int | None

    @property
    def last(self) -> ServerReading | None: ...


def tell_primaries(watches: Iterable[_Watch]) -> None:
    """Tell each replica's ``primary_bytes``: of its primary, if that has a ``maxmemory`` and is of
    this node, as much as it may hold, or holds; of several that say so, the most. No replica has
    much more for long. ``None`` to all others."""
    found = [(watch, watch.last) for watch in watches]
    sizes: dict[str, int] = {}
    for _, last in found:
        if last is not None and last.role == "master" and last.maxmemory_bytes:
            size = max(last.maxmemory_bytes, last.counted_bytes)
            sizes[last.replication_id] = max(size, sizes.get(last.replication_id, 0))
    for watch, last in found:
        is_replica = last is not None and last.ignores_maxmemory and last.replication_id
        watch.primary_bytes = sizes.get(last.replication_id) if last and is_replica else None
