"""Watches the servers' cgroups while the sidecar runs: the kernel ends who takes more than they
have."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from sidecar.config.node import SidecarConfig
from sidecar.preflight.cgroups import check_cgroups
from sidecar.preflight.endpoint import server_process

# Some milliseconds for each server.
LOOK_SECONDS = 60.0


class CgroupWatch:
    """Watches the cgroups of one sidecar's servers."""

    def __init__(self) -> None:
        self._looked: tuple[SidecarConfig, Mapping[str, int]] | None = None
        self._looked_at = 0.0
        self._found: list[str] = []

    def problems(self, config: SidecarConfig, process_ids: Mapping[str, int]) -> list[str]:
        """Return a sentence for each problem, as ``check --connect`` has it. The kernel is asked
        once a minute, and where a process or the configuration is another one. 0: the process is
        not known."""
        asked, now = (config, process_ids), time.monotonic()
        if asked != self._looked or now - self._looked_at >= LOOK_SECONDS:
            self._looked, self._looked_at = asked, now
            processes = {
                name: Path(f"/proc/{number}")
                for name, number in process_ids.items()
                if number and server_process(name, number)
            }
            self._found = [
                f"{found.where}: {found.what}; remedy: {found.remedy}"
                for found in check_cgroups(config.memory, config.servers, processes)
                if found.level == "problem"
            ]
        return self._found
