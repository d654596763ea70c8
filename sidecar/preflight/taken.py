"""Whether another sidecar of this machine controls a server already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sidecar.config.node import SidecarConfig
from sidecar.preflight.finding import Finding
from sidecar.servers.server_lock import holder_of
from sidecar.servers.server_reading import ServerReading
from sidecar.state.node_lock import lock_paths


def check_taken(
    config: SidecarConfig, readings: Mapping[str, ServerReading], running: bool
) -> Iterator[Finding]:
    """Looks at the servers' locks and takes none. ``running``: a sidecar with this configuration
    does, and may hold them."""
    ours = _own_processes(config) if running else set()
    for name, reading in readings.items():
        holder = holder_of(reading.run_id)
        if holder is not None and str(holder) not in ours:
            yield Finding(
                "problem",
                name,
                f"is controlled by another sidecar, the process {holder}",
                "end that one, or leave the server out of one of the two files: they would undo "
                "each other's sizes",
            )


def _own_processes(config: SidecarConfig) -> set[str]:
    paths = [path for path in lock_paths(config).values() if path.exists()]
    return {path.read_text(errors="replace").strip() for path in paths}
