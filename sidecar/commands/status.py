"""``spreds status FILE``: what each server has now, asked from the servers, and what the sidecar
says of itself and its plans."""

from __future__ import annotations

import argparse
import json
from typing import Any

from sidecar.commands.arguments import add_command, add_verbose
from sidecar.commands.running import client_despite, status_of, with_known_listeners
from sidecar.commands.status_short import print_short
from sidecar.commands.status_words import print_status
from sidecar.config.node import ServerConfig, load_config
from sidecar.control.client import SidecarNotRunningError, SidecarSilentError
from sidecar.servers.redis_server import RedisServer
from sidecar.servers.server_errors import (
    MissingRightError,
    ServerDownError,
    ServerRefusedError,
    WrongPasswordError,
)
from sidecar.servers.way_of_sampling import sampler_of
from sidecar.state.sidecar_state import ObservedLatency, SidecarState
from sidecar.state.state_store import load_state
from solver_lambda.documents.reader import DocumentError

_WHY = {WrongPasswordError: "wrong password", MissingRightError: "missing right"}


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = add_command(
        commands, "status", "print what each server has and does now, and what the sidecar does"
    )
    add_verbose(parser, "also loops, samples, resident memory, and what each server's size is for")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print tables or JSON; 1 if the sidecar, a server, or the cloud or service that plans does not
    answer, an address of ``[operators]`` cannot be bound, the sum exceeds M, or something
    stands still.

    Raises:
        DocumentError: the node's file is refused, and no sidecar goes on with it as it was.
    """
    try:
        config = load_config(options.config)
    except DocumentError as error:
        _print(_as_told(client_despite(options.config, error).status()), options)
        return 1
    config = with_known_listeners(config)
    state = load_state(config.state_file) if config.state_file else SidecarState()
    targets = {} if state.settled else state.targets_bytes
    told: dict[str, Any] | None = None
    silent = None
    try:
        told = status_of(config)
    except SidecarSilentError as error:
        silent = error
    servers = [
        _ask(server, state.latencies.get(server.name), targets.get(server.name))
        for server in config.servers
    ]
    _find_same(servers)
    # A share of the machine is known to the sidecar only.
    budget_bytes = told["budget"]["bytes"] if told else config.memory.budget_bytes
    status = _status(config.node, servers, budget_bytes, told, silent)
    _print(status, options)
    within, up = status["within_budget"], _up(servers)
    planned_for = told is not None and told["controller"]["silence"] is None
    is_served = told is not None and not told.get("not_served")
    goes_on = told is not None and not told.get("stands_still")
    is_well = within and len(up) == len(servers) and planned_for and is_served and goes_on
    return 0 if is_well else 1


def _up(servers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [server for server in servers if server["error"] is None]


def _status(
    node: str,
    servers: list[dict[str, Any]],
    budget_bytes: int,
    told: dict[str, Any] | None,
    silent: SidecarSilentError | None = None,
) -> dict[str, Any]:
    """What is printed, as JSON has it."""
    limits = [server["maxmemory_bytes"] for server in _up(servers)]
    return {
        "node": node,
        "running": None
        if silent and not isinstance(silent, SidecarNotRunningError)
        else not silent,
        "silent": str(silent) if silent else None,
        "budget_bytes": budget_bytes,
        "total_maxmemory_bytes": sum(limits),
        "within_budget": sum(limits) <= budget_bytes and all(limits),
        "servers": servers,
        "sidecar": told,
    }


def _print(status: dict[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps(status, indent=1))
    elif options.verbose:
        print_status(status)
    else:
        print_short(status)


def _as_told(told: dict[str, Any]) -> dict[str, Any]:
    """The same, where only the sidecar knows of servers."""
    servers = [
        {
            "name": one["name"],
            "error": one["error"],
            "error_kind": "down",
            "maxmemory_bytes": one["maxmemory_bytes"],
            "planned_bytes": one["target_bytes"],
            "used_memory_bytes": one["used_bytes"],
            "rss_bytes": one["rss_bytes"],
            "sampler": one["sampler"],
            "sampling_endpoint": None,
            "maxmemory_policy": one["policy"],
            "keep_reason": one["keep_reason"],
            "backend_latency": None,
            "configured_latency_seconds": None,
        }
        for one in told["servers"]
    ]
    return _status(told["node"], servers, told["budget"]["bytes"], told)


def _ask(
    config: ServerConfig, latency: ObservedLatency | None, planned_bytes: int | None
) -> dict[str, Any]:
    server = RedisServer(config)
    try:
        reading = server.read()
    except (ServerDownError, ServerRefusedError) as error:
        why = "down" if isinstance(error, ServerDownError) else _WHY.get(type(error), "refuses")
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
