"""Finds servers that were started anew while no sidecar ran. What they have is of their own file,
and nobody has set it since: they get the planned size, as when a sidecar sees it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sidecar.servers.connection.server_reading import ServerReading
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import StateStore


def note_process(store: StateStore, name: str, reading: ServerReading) -> None:
    """Remember a server's process once it has the size that is planned for it."""
    state = store.now
    has_it = reading.maxmemory_bytes == state.targets_bytes.get(name)
    if has_it and state.run_ids.get(name) != reading.run_id:
        with store.update() as state:
            state.run_ids = state.run_ids | {name: reading.run_id}


def planned_for_restarted(
    state: SidecarState, readings: Mapping[str, ServerReading], fixed: Collection[str]
) -> dict[str, int]:
    """Return the planned sizes of those that may be given them, in bytes. On the way to a plan's
    sizes there is nothing to go back to: from what is found, the way goes on."""
    if not state.control.engaged or not state.settled:
        return {}
    return {
        name: state.targets_bytes[name]
        for name, reading in readings.items()
        if name in state.targets_bytes
        and name not in fixed
        and state.run_ids.get(name, reading.run_id) != reading.run_id
    }
