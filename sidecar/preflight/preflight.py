"""All that ``spreds check --connect`` looks at."""

from __future__ import annotations

from pathlib import Path

from sidecar.config.links import links
from sidecar.config.node import SidecarConfig
from sidecar.preflight.cgroups import check_cgroups
from sidecar.preflight.cloud import check_cloud
from sidecar.preflight.endpoint import (
    check_endpoint,
    check_taken_by,
    check_way_for,
    server_process,
)
from sidecar.preflight.files import check_files
from sidecar.preflight.finding import Finding
from sidecar.preflight.listeners import check_listen
from sidecar.preflight.machine import check_machine, check_sums
from sidecar.preflight.servers import check_servers, check_taken, tcp_backlog
from sidecar.preflight.service import check_service
from sidecar.servers.server_reading import ServerReading
from sidecar.state.node_lock import is_locked, lock_paths, locked_by


def preflight(config: SidecarConfig) -> list[Finding]:
    """What was found, in the order of servers, addresses and machine."""
    readings: dict[str, ServerReading] = {}
    findings = list(check_servers(config, readings))
    process = process_of(config) if is_locked(config) else None
    findings += [*check_taken(config, readings, process is not None), *check_sums(config, readings)]
    findings += check_files(config)
    findings += check_listen(config.operators.listen, process)
    findings += [
        Finding("advice" if link.is_open else "ok", f"link {link.name}", link.how)
        for link in links(config)
    ]
    findings += check_service(config.controller)
    findings += check_cloud(config.node, config.controller)
    endpoint = config.sampling.endpoint
    findings += check_endpoint(endpoint, process)
    processes: dict[str, Path] = {}
    for name, reading in readings.items():
        findings += check_taken_by(name, reading, endpoint)
        server = server_process(name, reading.process_id) if reading.process_id else None
        if server is not None:
            processes[name] = Path(f"/proc/{reading.process_id}")
        if server is None or reading.is_looked_at:  # which sends nothing
            continue
        if (obstacle := check_way_for(server, endpoint, config.sampling.group)) is not None:
            findings.append(obstacle)
    findings += check_cgroups(config.memory, config.servers, processes)
    on_tcp = [
        tcp_backlog(readings[server.name])
        for server in config.servers
        if server.name in readings and not server.url.startswith("unix:")
    ]
    findings += check_machine(
        config.memory.budget_bytes,
        max(on_tcp, default=None),
        share=str(config.memory.budget) if config.memory.budget_share is not None else "",
        servers=list(readings.values()),
    )
    return findings


def process_of(config: SidecarConfig) -> int:
    """Of the sidecar that runs with this configuration; 0: its lock cannot be read."""
    try:
        text = locked_by(next(iter(lock_paths(config).values())))
    except OSError:
        return 0
    return int(text or 0)
