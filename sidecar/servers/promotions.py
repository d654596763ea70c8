"""Replicas that were promoted, also while no sidecar ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sidecar.servers.server_reading import ServerReading
from sidecar.servers.unevictable import least_maxmemory_bytes
from sidecar.state.room_made import RoomMade
from sidecar.state.state_store import StateStore


def follow_roles(store: StateStore, readings: Mapping[str, ServerReading]) -> None:
    """Remember who is a replica. Who was one and is none any more keeps what it holds: that it
    needs less of it now is no reason to give it back, nor is what it had as a replica a size to go
    back to."""
    known = set(store.now.replicas)
    replicas = {name for name, one in readings.items() if one.ignores_maxmemory}
    promoted = (known & readings.keys()) - replicas
    room = store.now.room
    if room is not None and any(
        room.before_bytes.get(one) != room.made_bytes.get(one) for one in promoted
    ):
        room = room.with_promoted({one: _held_bytes(readings[one]) for one in promoted})
    if room is not None and (followed_again := replicas.intersection(room.promoted)):
        stay = tuple(one for one in room.promoted if one not in followed_again)
        room = replace(room, promoted=stay)
    found = replicas | (known - readings.keys())
    if found != known or room != store.now.room:
        with store.update() as state:
            state.replicas = tuple(sorted(found))
            state.room = room
            before = state.control.before_plan_bytes
            now = {one: readings[one].maxmemory_bytes for one in promoted & before.keys()}
            state.control = replace(state.control, before_plan_bytes=before | now)


def held_by_promoted(
    room: RoomMade | None, readings: Mapping[str, ServerReading]
) -> dict[str, int]:
    """What those hold, with headroom, that got room as replicas and were promoted since. One that
    does not answer holds what is planned for it, as far as anybody knows."""
    if room is None:
        return {}
    return {
        name: _held_bytes(readings[name]) if name in readings else room.made_bytes[name]
        for name in room.promoted
        if name in room.made_bytes
    }


def _held_bytes(reading: ServerReading) -> int:
    return least_maxmemory_bytes(reading.maxmemory_bytes, reading.counted_bytes)
