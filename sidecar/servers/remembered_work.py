"""That clients took work from a server is remembered when its counters begin anew."""

from __future__ import annotations

from dataclasses import replace

from sidecar.config.node import ServerConfig
from sidecar.servers.server_reading import ServerReading
from sidecar.state.state_store import StateStore


def with_remembered_work(
    reading: ServerReading, config: ServerConfig, store: StateStore
) -> ServerReading:
    """The reading, with what took work from the server before its counters began anew: neither a
    restart makes a cache of a queue, nor a stranger whose buffers had it evict a few keys.

    It is forgotten where the operator calls it a cache.
    """
    known = store.now.taking_commands.get(config.name, ())
    taking = () if config.cache else reading.taking_commands or known
    if taking != known:
        with store.update() as state:
            others = {name: w for name, w in state.taking_commands.items() if name != config.name}
            state.taking_commands = others | ({config.name: taking} if taking else {})
    return replace(reading, taking_commands=taking)
