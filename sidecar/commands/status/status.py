"""``spreds status FILE`` says what each server has now, as the sidecar has it, and what the sidecar
says of itself and its plans. Where none runs, the servers are asked."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sidecar.commands.arguments import add_command, add_verbose
from sidecar.commands.plan.plan_words import refusals_words
from sidecar.commands.printing import print_table, print_wrapped, ratio_or, size_or
from sidecar.commands.running import client_despite, status_of
from sidecar.commands.size_predicates import planned_bytes
from sidecar.commands.state_words import state_words
from sidecar.commands.status.status_gains import gains
from sidecar.commands.status.status_total import print_total
from sidecar.commands.status.status_verbose import (
    is_unfilled,
    kept_words,
    lag_words,
    last_plan_words,
    minimum_words,
    print_status,
    refused_words,
    samples_words,
    waits_words,
)
from sidecar.config.node import SidecarConfig, load_config
from sidecar.control.client import SidecarNotRunningError, SidecarSilentError
from sidecar.servers.connection.outage_words import outage_words
from sidecar.state.sidecar_state import ObservedLatency, SidecarState
from sidecar.state.state_store import load_state
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size

# `spreds status` for people in short: one table, and what is the same for all said once.

# A loop or an observation that is later than that is told.
_LATE_SECONDS = 10.0
_PERCENT = re.compile(r"\d+(?:\.\d+)?%")


def print_short(status: dict[str, Any]) -> None:
    """Print in short a status, which is as ``spreds status --json`` has it."""
    told = status["sidecar"]
    if told is None:
        print_wrapped(status["silent"])
    else:
        for words in _head(told):
            print_wrapped(words, indent="  ")
    print()
    by_name = {server["name"]: server for server in told["servers"]} if told else {}
    both = [(one, by_name.get(one["name"], {})) for one in status["servers"]]
    print_table(_table(both), wraps=True)
    print()
    problems = told["problems"] if told else []
    notes = [
        (server["name"], note)
        for server, one in both
        for note in _notes(server, one, told, problems)
    ]
    for line in _once(notes, len(both)):
        print_wrapped(line, indent="  ")
    print_total(status, is_verbose=False)


def _head(told: dict[str, Any]) -> Iterator[str]:
    first, *more = state_words(told)
    yield f"node {told['node']}: {first}"
    yield from (f"problem: {problem}" for problem in told["problems"])
    yield from more
    if words := lag_words(told, _LATE_SECONDS):
        yield words
    due = told["next_observation_at_seconds"]
    if due is not None and told["now_seconds"] > due + _LATE_SECONDS:
        yield samples_words(told)
    elif told["last_plan"] is None:
        yield f"samples: {told['samples']['received']:,} received so far"
    yield f"last plan: {last_plan_words(told, is_verbose=False)}"
    yield from refusals_words(told, is_verbose=False)
    yield from gains(told, is_verbose=False)


def _table(both: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[tuple[str, ...]]:
    """Return the table: planned sizes where servers do not have them, and otherwise what is
    recommended."""
    planned = {server["name"]: planned_bytes(server, told) for server, told in both}
    which = "planned"
    if not any(planned.values()):
        which = "recommended"
        planned = {server["name"]: told.get("recommended_bytes") for server, told in both}
    head = ("server", "maxmemory", which, "used", "hits, last window", "expected", "reads/s")
    return [head, *(_row(server, told, planned[server["name"]]) for server, told in both)]


def _row(server: dict[str, Any], told: dict[str, Any], planned: int | None) -> tuple[str, ...]:
    if server["error"] is not None:
        return (server["name"], server["error_kind"], "", "", "", "", "")
    size, reads = server["maxmemory_bytes"], told.get("reads_per_second")
    expected = told["predicted_hit_ratio"] if told.get("curve") else None
    return (
        server["name"],
        format_size(size) if size else "unlimited",
        size_or(planned if planned != size else None),
        format_size(server["used_memory_bytes"]),
        "" if reads == 0 else ratio_or(told.get("hit_ratio")),
        ratio_or(expected),
        "" if reads is None else f"{reads:,.1f}",
    )


def _notes(
    server: dict[str, Any],
    told: dict[str, Any],
    status: dict[str, Any] | None,
    problems: Iterable[str],
) -> Iterator[str]:
    """Say what neither the table nor a problem says."""
    if server["error"] is not None:
        if server["error_kind"] == "twice":
            yield server["error"]
        elif not any(one.startswith(f"{server['name']} cannot be ") for one in problems):
            yield outage_words(server["error"])
        return
    yield from kept_words(server, told, status)
    yield from minimum_words(told)
    if words := waits_words(server, told):
        yield words
    elif (said := server["backend_latency"]) and is_unfilled(said):
        yield f"backend: {ObservedLatency(**said).words()}"
    yield from refused_words(told)


def _once(notes: Sequence[tuple[str, str]], count: int) -> Iterator[str]:
    """Say what several servers have in common, apart from percentages, in one line."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, note in notes:
        alike.setdefault(_PERCENT.sub("%", note), []).append((name, note))
    for same in alike.values():
        names = ", ".join(name for name, _ in same)
        if len(same) == count > 1:
            names = "all servers"
        yield f"{names}: {_with_ranges([note for _, note in same])}"


def _with_ranges(notes: Sequence[str]) -> str:
    """Return the first, with from where to where its percentages are."""
    columns = zip(*(_PERCENT.findall(note) for note in notes), strict=True)
    ordered = (sorted(column, key=lambda text: float(text[:-1])) for column in columns)
    ranges = (one[0] if one[0] == one[-1] else f"{one[0]} to {one[-1]}" for one in ordered)
    return _PERCENT.sub(lambda _: next(ranges), notes[0])


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = add_command(
        commands, "status", "print what each server has and does now, and what the sidecar does"
    )
    add_verbose(parser, "also loops, samples, resident memory, and what each server's size is for")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print tables or JSON. Returns 1 if the sidecar, a server, or the cloud or service that plans
    does not answer. It also returns 1 if an address of ``[operators]`` cannot be bound, the sum
    exceeds M, or something stands still.

    Raises:
        DocumentError: the node's file is refused, and no sidecar goes on with it as it was.
    """
    try:
        config = load_config(options.config)
    except DocumentError as error:
        _print(_as_told(client_despite(options.config, error).status()), options)
        return 1
    told: dict[str, Any] | None = None
    silent = None
    try:
        told = status_of(config)
    except SidecarSilentError as error:
        silent = error
    state = load_state(config.state_file) if config.state_file else SidecarState()
    servers = _as_the_sidecar_has_them(config, state, told) if told and _goes_on(told) else None
    if servers is None:
        from sidecar.commands.status.asked_servers import asked_servers

        servers = asked_servers(config, state)
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


def _goes_on(told: dict[str, Any]) -> bool:
    """Whether the sidecar has looked at the servers just now: then its word is as good as theirs,
    and a crowd that has all connections of a server does not keep us from it."""
    at_seconds = told["actuator_at_seconds"]
    return at_seconds is not None and told["now_seconds"] - at_seconds < _LATE_SECONDS


def _as_the_sidecar_has_them(
    config: SidecarConfig, state: SidecarState, told: dict[str, Any]
) -> list[dict[str, Any]] | None:
    """Return what the sidecar says of the file's servers; ``None``: it has others."""
    found = {one["name"]: one for one in _told_servers(told)}
    if found.keys() != {server.name for server in config.servers}:
        return None
    for server in config.servers:
        latency = state.latencies.get(server.name)
        found[server.name] |= {
            "backend_latency": latency.__dict__ if latency else None,
            "configured_latency_seconds": server.backend_latency_seconds,
        }
    return [found[server.name] for server in config.servers]


def _up(servers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [server for server in servers if server["error"] is None]


def _status(
    node: str,
    servers: list[dict[str, Any]],
    budget_bytes: int,
    told: dict[str, Any] | None,
    silent: SidecarSilentError | None = None,
) -> dict[str, Any]:
    """Return what is printed, as JSON has it."""
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
    """Return the same, where only the sidecar knows of servers."""
    return _status(told["node"], _told_servers(told), told["budget"]["bytes"], told)


def _told_servers(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the sidecar says of its servers."""
    return [
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
