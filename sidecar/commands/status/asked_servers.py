"""Asks the servers what they have, where no sidecar says it."""

from __future__ import annotations

from typing import Any

from sidecar.commands.running import with_known_listeners
from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.servers.connection.guarded_connection import NOTHING_SENT
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.sampling_method import sampler_of
from sidecar.servers.connection.server_errors import (
    ITS_WORDS,
    MissingRightError,
    ServerDownError,
    ServerRefusedError,
    WrongPasswordError,
)
from sidecar.state.sidecar_state import ObservedLatency, SidecarState

_WHY = {WrongPasswordError: "wrong password", MissingRightError: "missing right"}


def asked_servers(config: SidecarConfig, state: SidecarState) -> list[dict[str, Any]]:
    """Return what each server of a node says, or why it does not."""
    targets = {} if state.settled else state.targets_bytes
    servers = [
        _ask(server, state.latencies.get(server.name), targets.get(server.name))
        for server in with_known_listeners(config).servers
    ]
    _find_same(servers)
    return servers


def _ask(
    config: ServerConfig, latency: ObservedLatency | None, planned_bytes: int | None
) -> dict[str, Any]:
    server = RedisServer(config)
    try:
        reading = server.read()
    except (ServerDownError, ServerRefusedError) as error:
        why = "down" if isinstance(error, ServerDownError) else _WHY.get(type(error), "refuses")
        if NOTHING_SENT in str(error) and ITS_WORDS not in str(error):
            why = "not asked"  # it may well be up
        return {"name": config.name, "error": str(error), "error_kind": why}
    finally:
        server.close()
    prefix = reading.sampler_prefix
    return {
        "name": config.name,
        "error": None,
        "maxmemory_bytes": reading.maxmemory_bytes,
        "planned_bytes": planned_bytes,
        "used_memory_bytes": reading.counted_bytes,
        "rss_bytes": reading.rss_bytes,
        "sampler": sampler_of(reading),
        "sampling_endpoint": reading.config.get(f"{prefix}endpoint") if prefix else None,
        "maxmemory_policy": reading.maxmemory_policy,
        "keep_reason": reading.keep_reason(),
        "run_id": reading.run_id,
        "backend_latency": latency.__dict__ if latency else None,
        "configured_latency_seconds": config.backend_latency_seconds,
    }


def _find_same(servers: list[dict[str, Any]]) -> None:
    """A server that is reached by two names counts once."""
    names: dict[str, str] = {}
    for server in servers:
        if server["error"] is None:
            first = names.setdefault(server["run_id"], server["name"])
            if first != server["name"]:
                server["error"] = f"is the same server as {first}, or it lies about its run_id"
                server["error_kind"] = "twice"
