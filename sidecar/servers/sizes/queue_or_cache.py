"""Whether a server is a queue or a cache is remembered when its counters begin anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sidecar.config.node import ServerConfig
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import StateStore


def taken_work(
    reading: ServerReading, config: ServerConfig, state: SidecarState
) -> tuple[str, ...]:
    """Return the commands by which clients take work from it; none where it is a cache."""
    if config.cache or config.name in state.caches:
        return ()
    return reading.taking_commands or state.taking_commands.get(config.name, ())


def remember_replicas(store: StateStore, readings: Mapping[str, ServerReading]) -> None:
    """A replica of a cache is one: it executes what the cache's clients took, and evicts nothing
    by itself, so that it would look like a queue once it is promoted."""
    now = store.now
    of_caches = {
        one.replication_id
        for name, one in readings.items()
        if one.role == "master" and name in now.caches
    }
    new = [
        name
        for name, one in readings.items()
        if one.role == "slave" and one.replication_id in of_caches and name not in now.caches
    ]
    if new:
        with store.update() as state:
            state.caches = (*state.caches, *new)


def with_remembered_work(
    reading: ServerReading, config: ServerConfig, store: StateStore
) -> ServerReading:
    """Return the reading, with what is known of it from before its counters began anew. A restart
    makes no cache of a queue, and no queue of a cache whose clients take an element. Nor does a
    stranger whose buffers made it evict a few keys.

    That it is a queue is forgotten where the operator calls it a cache.
    """
    name, now = config.name, store.now
    known, is_cache = now.taking_commands.get(name, ()), name in now.caches
    taking = taken_work(reading, config, now)
    if not taking and reading.evicted_keys and not is_cache:
        with store.update() as state:
            state.caches = (*state.caches, name)
    if taking != known:
        with store.update() as state:
            others = {one: w for one, w in state.taking_commands.items() if one != name}
            state.taking_commands = others | ({name: taking} if taking else {})
    return replace(reading, taking_commands=taking)
