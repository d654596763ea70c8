"""Keeps what replicas hold, and those that were promoted, also while no sidecar ran."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.connection.unevictable import HEADROOM_RATIO, least_maxmemory_bytes
from sidecar.servers.sizes.queue_or_cache import remember_replicas
from sidecar.state.state_store import StateStore

# Memory that is needed for less than a minute goes back to those who gave it.
_LASTING_SECONDS = 60.0
_LOOK_SECONDS = 0.5  # while sizes move there are many looks a second


def follow_roles(store: StateStore, readings: Mapping[str, ServerReading]) -> None:
    """Remember who is a replica, and who was one. Who was promoted keeps what is planned for it, as
    it held that much: what it had as a replica before is no size to go back to."""
    remember_replicas(store, readings)
    now = store.now
    known = set(now.replicas)
    replicas = {name for name, one in readings.items() if one.ignores_maxmemory}
    found = replicas | (known - readings.keys())
    new = {name: now.targets_bytes.get(name, 0) for name in (known & readings.keys()) - replicas}
    promoted = {
        name: size
        for name, size in (now.promoted_bytes | new).items()
        # Once a plan gives it more it is a cache like any other.
        if name not in found and now.targets_bytes.get(name, size + 1) <= size
    }
    if found != known or promoted != now.promoted_bytes:
        with store.update() as state:
            # It includes what was on its way from the primary, in a client's buffer until then.
            state.room = state.room and state.room.keeping(
                {n: least_maxmemory_bytes(0, readings[n].counted_bytes) for n in new}
            )
            state.replicas = tuple(sorted(found))
            state.promoted_bytes = promoted
            before = state.control.before_plan_bytes
            has = {one: readings[one].maxmemory_bytes for one in new.keys() & before.keys()}
            state.control = replace(state.control, before_plan_bytes=before | has)


class LastingKeys:
    """Keeps what replicas have held for a while: a server says only a second later that what came
    is clients' buffers, and of names of channels never.

    Attributes:
        bytes: of each that has been one for a minute, the least in it, see ``held_bytes``.
    """

    def __init__(self) -> None:
        self.bytes: dict[str, int] = {}
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def take_readings(self, readings: Mapping[str, ServerReading]) -> None:
        """Take what servers said last."""
        held = held_by_replicas(readings)
        self._seen = {name: self._seen.get(name, deque()) for name in held}
        for name, size in held.items():
            seen, at_seconds = self._seen[name], readings[name].at_seconds
            if seen and at_seconds < seen[-1][0] + _LOOK_SECONDS:
                seen[-1] = seen[-1][0], min(size, seen[-1][1])
            else:
                seen.append((at_seconds, size))
            while len(seen) > 1 and seen[1][0] <= at_seconds - _LASTING_SECONDS:
                seen.popleft()
        self.bytes = {
            name: min(size for _, size in seen)
            for name, seen in self._seen.items()
            if seen[0][0] <= seen[-1][0] - _LASTING_SECONDS
        }


def held_by_replicas(readings: Mapping[str, ServerReading]) -> dict[str, int]:
    """Return what those hold that are replicas now, see ``held_bytes``."""
    return {name: held_bytes(one) for name, one in readings.items() if one.ignores_maxmemory}


def held_bytes(reading: ServerReading) -> int:
    """Return the ``maxmemory`` that a replica's keys need, whoever connects to it. Clients' buffers
    count for an eighth of the keys; more passes, as it does elsewhere."""
    keys_bytes = reading.counted_bytes - reading.clients_bytes
    stays_bytes = min(reading.counted_bytes, round((1 + HEADROOM_RATIO) * keys_bytes))
    return least_maxmemory_bytes(reading.maxmemory_bytes, stays_bytes)
