"""``spreds status`` for people in short: one table, and what is the same for all said once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sidecar.commands.plan_words import refusals_words
from sidecar.commands.printing import print_table, print_wrapped, ratio_or, size_or
from sidecar.commands.state_words import state_words
from sidecar.commands.status_facts import planned_bytes
from sidecar.commands.status_gains import gains
from sidecar.commands.status_total import print_total
from sidecar.commands.status_words import (
    is_unfilled,
    kept_words,
    lag_words,
    last_plan_words,
    minimum_words,
    refused_words,
    samples_words,
    waits_words,
)
from sidecar.servers.server_errors import outage_words
from sidecar.state.sidecar_state import ObservedLatency
from solver_lambda.documents.units import format_size

# A loop or an observation that is later than that is told.
_LATE_SECONDS = 10.0
_PERCENT = re.compile(r"\d+(?:\.\d+)?%")


def print_short(status: dict[str, Any]) -> None:
    """As ``spreds status --json`` has it."""
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
    """Planned sizes where servers do not have them, and otherwise what is recommended."""
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
    """What neither the table nor a problem says."""
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
    """What several servers have in common, apart from percentages, in one line."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, note in notes:
        alike.setdefault(_PERCENT.sub("%", note), []).append((name, note))
    for same in alike.values():
        names = ", ".join(name for name, _ in same)
        if len(same) == count > 1:
            names = "all servers"
        yield f"{names}: {_with_ranges([note for _, note in same])}"


def _with_ranges(notes: Sequence[str]) -> str:
    """The first, with from where to where its percentages are."""
    columns = zip(*(_PERCENT.findall(note) for note in notes), strict=True)
    ordered = (sorted(column, key=lambda text: float(text[:-1])) for column in columns)
    ranges = (one[0] if one[0] == one[-1] else f"{one[0]} to {one[-1]}" for one in ordered)
    return _PERCENT.sub(lambda _: next(ranges), notes[0])
