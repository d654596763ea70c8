"""Replicas that were promoted, also while no sidecar ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sidecar.servers.server_reading import ServerReading
from sidecar.state.state_store import StateStore


def follow_roles(store: StateStore, readings: Mapping[str, ServerReading]) -> None:
    """Remember who is a replica. Who was one and is none any more keeps what it has: that it needs
    less of it now is no reason to give it back, nor is what it had as a replica a size to go back
    to."""
    known = set(store.now.replicas)
    replicas = {name for name, one in readings.items() if one.ignores_maxmemory}
    promoted = (known & readings.keys()) - replicas
    room = store.now.room
    has_grown = room is not None and any(
        room.before_bytes.get(one) != room.made_bytes.get(one) for one in promoted
    )
    found = replicas | (known - readings.keys())
    if found != known or has_grown:
        with store.update() as state:
            state.replicas = tuple(sorted(found))
            state.room = None if has_grown else state.room
            before = state.control.before_plan_bytes
            now = {one: readings[one].maxmemory_bytes for one in promoted & before.keys()}
            state.control = replace(state.control, before_plan_bytes=before | now)
