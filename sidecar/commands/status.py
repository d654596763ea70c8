"""``spreds status CONFIG``: what each server has and does now, asked from the servers."""

from __future__ import annotations

import argparse
import json
from typing import Any

from sidecar.config.node import ServerConfig, load_config
from sidecar.servers.redis_server import RedisServer, ServerDownError, ServerRefusedError
from sidecar.servers.sizes_in_words import handed_over
from sidecar.state.sidecar_state import ObservedLatency, SidecarState
from sidecar.state.state_store import load_state
from solver_lambda.documents.units import format_size

_COLUMNS = ("server", "maxmemory", "used", "resident", "hit ratio", "sampler", "policy")


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = commands.add_parser("status", help="print what each server has and does now")
    parser.add_argument("config", metavar="CONFIG", help="the node's TOML file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print a table or JSON; 1 if a server is down or the sum exceeds M. Raises DocumentError."""
    config = load_config(options.config)
    state = load_state(config.state_file) if config.state_file else SidecarState()
    targets = {} if state.settled else state.targets_bytes
    servers = [
        _ask(server, state.latencies.get(server.name), targets.get(server.name))
        for server in config.servers
    ]
    _find_same(servers)
    up = [server for server in servers if server["error"] is None]
    total = sum(server["maxmemory_bytes"] for server in up)
    within = total <= config.memory.budget_bytes and all(s["maxmemory_bytes"] for s in up)
    if options.json:
        status = {
            "node": config.node,
            "budget_bytes": config.memory.budget_bytes,
            "total_maxmemory_bytes": total,
            "within_budget": within,
            "servers": servers,
        }
        print(json.dumps(status, indent=1))
    else:
        _print_table(servers)
        for server in up:
            planned, has = server["planned_bytes"], server["maxmemory_bytes"]
            if has and planned not in (None, has):
                sizes = f"planned {format_size(planned)}, has {format_size(has)}"
                print(f"{server['name']}: {sizes}: {handed_over(has, planned)}")
            if server["backend_latency"]:
                words = ObservedLatency(**server["backend_latency"]).words()
                print(f"{server['name']}'s backend: {words}")
        print(f"total {format_size(total)} of {format_size(config.memory.budget_bytes)}")
    return 0 if within and len(up) == len(servers) else 1


def _ask(
    config: ServerConfig, latency: ObservedLatency | None, planned_bytes: int | None
) -> dict[str, Any]:
    server = RedisServer(config)
    try:
        reading = server.read()
    except (ServerDownError, ServerRefusedError) as error:
        return {"name": config.name, "error": str(error)}
    finally:
        server.close()
    hits, misses = reading.keyspace_hits, reading.keyspace_misses
    prefix = reading.sampler_prefix
    return {
        "name": config.name,
        "error": None,
        "maxmemory_bytes": reading.maxmemory_bytes,
        "planned_bytes": planned_bytes,
        "used_memory_bytes": reading.counted_bytes,
        "rss_bytes": reading.rss_bytes,
        "hit_ratio": hits / (hits + misses) if hits + misses else None,
        "sampler": {"spreds-": "patch", "spreds.": "module"}.get(prefix or ""),
        "sampling_endpoint": reading.config[f"{prefix}endpoint"] if prefix else None,
        "maxmemory_policy": reading.maxmemory_policy,
        "run_id": reading.run_id,
        "backend_latency": latency.__dict__ if latency else None,
    }


def _find_same(servers: list[dict[str, Any]]) -> None:
    """A server that is reached by two names counts once."""
    names: dict[str, str] = {}
    for server in servers:
        if server["error"] is None:
            first = names.setdefault(server["run_id"], server["name"])
            if first != server["name"]:
                server["error"] = f"is the same server as {first}"


def _print_table(servers: list[dict[str, Any]]) -> None:
    rows = [_COLUMNS, *(_row(server) for server in servers)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        print(
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _row(server: dict[str, Any]) -> tuple[str, ...]:
    if server["error"] is not None:
        down = "" if "run_id" in server else "down"
        return (server["name"], down, "", "", "", "", server["error"])
    ratio, size = server["hit_ratio"], server["maxmemory_bytes"]
    return (
        server["name"],
        format_size(size) if size else "unlimited",
        format_size(server["used_memory_bytes"]),
        format_size(server["rss_bytes"]),
        "-" if ratio is None else f"{ratio:.4f}",
        server["sampler"] or "none",
        server["maxmemory_policy"],
    )
