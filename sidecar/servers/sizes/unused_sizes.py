"""Finds what is left over: memory that servers do not use and that no plan can take from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sidecar.config.node import ServerConfig
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.needed_shares import half_share_bytes
from sidecar.servers.sizes.primaries import primaries_of
from sidecar.servers.sizes.promotions import held_bytes
from sidecar.state.room_made import CLEARLY_LESS
from sidecar.state.state_store import StateStore


def _still_own(
    store: StateStore, readings: Mapping[str, ServerReading], targets_bytes: Mapping[str, int]
) -> dict[str, int]:
    """Return what is their own of servers that are not back there yet."""
    has = {name: reading.maxmemory_bytes for name, reading in readings.items()}
    own = {
        name: size
        for name, size in store.now.own_bytes.items()
        if name in targets_bytes and size < max(targets_bytes[name], has.get(name, size + 1))
    }
    if own != store.now.own_bytes:
        with store.update() as state:
            state.own_bytes = own
    return own


def _taking_over(
    holds_bytes: Mapping[str, int],
    readings: Mapping[str, ServerReading],
    targets_bytes: Mapping[str, int],
) -> dict[str, int]:
    """Return what replicas hold, or up to half of an equal share of what is planned for their
    primary. It may fail in a moment, also after a client has emptied it and its replica. A server
    that does not answer may be it."""
    half_bytes = half_share_bytes(len(targets_bytes), sum(targets_bytes.values()))
    found, unread = primaries_of(readings), targets_bytes.keys() - readings.keys()
    planned = {
        name: max((targets_bytes.get(one, 0) for one in found.get(name, unread)), default=0)
        for name in holds_bytes
    }
    return {name: max(size, min(half_bytes, planned[name])) for name, size in holds_bytes.items()}


def sizes_with_unused_shared(
    store: StateStore,
    servers: Sequence[ServerConfig],
    readings: Mapping[str, ServerReading],
    targets_bytes: Mapping[str, int],
    beside_bytes: Mapping[str, int],
    least_bytes: Mapping[str, int],
    squeezed: Collection[str],
) -> dict[str, int] | None:
    """Return sizes in which unused memory is lent; ``None`` if there is none to lend. One that
    evicts no more has its own size again, where more was planned. A replica, or who was one, has
    what it uses, if that is clearly less. One of a server of this node keeps what it would take
    over, up to half of an equal share. The others share the rest. Who keeps its size, or needs
    room, neither gives nor gets; nor does who was a replica and has evicted since (``squeezed``)
    give anything. ``servers`` have minima that fit."""
    replicas, room = {*store.now.replicas}, store.now.room
    needed = room.needed_bytes if room and not room.is_returned else {}
    if not store.now.own_bytes and not replicas and not store.now.promoted_bytes:
        return None
    may_give = (readings.keys() & least_bytes.keys()) - beside_bytes.keys() - needed.keys()
    own = _still_own(store, readings, targets_bytes)
    sizes = {
        name: size
        for name in own.keys() & may_give
        if not readings[name].evicts
        and (size := max(own[name], least_bytes[name])) < targets_bytes[name]
    }
    minima_bytes = {server.name: server.minimum_bytes for server in servers}
    used_bytes = {name: least_bytes[name] for name in replicas & may_give}
    holds = _taking_over(used_bytes, readings, targets_bytes)
    # It fills again what was its own: whoever emptied or squeezed it may be gone in a moment.
    share_bytes = sum(targets_bytes.values()) // len(targets_bytes)
    for name in store.now.promoted_bytes.keys() & may_give - set(squeezed):
        holds[name] = max(held_bytes(readings[name]), own.get(name, share_bytes))
    sizes |= {
        name: size
        for name, held in holds.items()
        # Below its minimum it would be brought back to that, again and again.
        if (size := max(held, minima_bytes[name])) < CLEARLY_LESS * targets_bytes[name]
    }
    apart = sizes.keys() | beside_bytes.keys() | needed.keys()
    others = {name: size for name, size in targets_bytes.items() if name not in apart}
    if not sizes or not others:
        return None
    freed = sum(targets_bytes[name] - size for name, size in sizes.items())
    for name, size in others.items():
        sizes[name] = size + freed * size // sum(others.values())
    # It would have more than leaves the others half of an equal share each.
    return {name: targets_bytes[name] for name in needed if name in targets_bytes} | sizes
