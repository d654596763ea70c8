"""Only watches servers: what they have is what is wanted."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.intermediate_sizes import IntermediateSizes
from sidecar.state.state_store import StateStore

# The use of a server without a limit changes all the time. It is noted when it changed by so much.
_CHANGED_RATIO = 0.05


def sizes_as_found(
    readings: Mapping[str, ServerReading], noted_bytes: Mapping[str, int]
) -> dict[str, int]:
    """Return ``maxmemory``, or what is used without one; as ``noted_bytes`` where nobody
    answers."""
    sizes = dict(noted_bytes)
    for name, reading in readings.items():
        apart = abs(reading.size_bytes - sizes[name])
        if reading.maxmemory_bytes or apart > _CHANGED_RATIO * sizes[name]:
            sizes[name] = reading.size_bytes
    return sizes


def want_what_is_found(
    readings: Mapping[str, ServerReading], store: StateStore, intermediate_sizes: IntermediateSizes
) -> None:
    """Take the sizes that are found for what is wanted, unless sizes are held."""
    if not store.now.control.engaged:
        with store.update() as state:
            state.targets_bytes = sizes_as_found(readings, state.targets_bytes)
        intermediate_sizes.begin(store.now.targets_bytes)
