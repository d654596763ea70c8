"""That clients took work from a server is remembered when its counters begin anew."""

from __future__ import annotations

from dataclasses import replace

from sidecar.config.node import ServerConfig
from sidecar.servers.server_reading import ServerReading
from sidecar.state.state_store import StateStore


def with_remembered_work(
    reading: ServerReading, config: ServerConfig, store: StateStore
) -> ServerReading:
    """The reading, with what took work from the server before its counters began anew: a restart
    makes no cache of a queue.

    It is forgotten where the server has evicted keys, or the operator calls it a cache.
    """
    known = store.now.taking_commands.get(config.name, ())
    taking = () if config.cache or reading.evicted_keys else reading.taking_commands or known
    if taking != known:
        with store.update() as state:
            others = {name: w for name, w in state.taking_commands.items() if name != config.name}
            state.taking_commands = others | ({config.name: taking} if taking else {})
    return replace(reading, taking_commands=taking)
