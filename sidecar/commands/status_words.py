"""``spreds status`` for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.plan_words import next_observation_time, plan_in_short
from sidecar.commands.printing import (
    about,
    age_words,
    print_table,
    print_wrapped,
    ratio_or,
    size_or,
)
from sidecar.commands.state_words import state_words
from sidecar.commands.status_facts import is_on_its_way, is_to_change, with_the_plan
from sidecar.servers.sizes_in_words import handed_over
from sidecar.state.sidecar_state import ObservedLatency
from solver_lambda.documents.server_settings import SERVER_SETTINGS
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import reason_words, time_words, without_backend

# Of two tables, for one would be too wide for a terminal.
_OF_MEMORY = (
    "server",
    "maxmemory",
    "planned",
    "recommended",
    "used",
    "resident",
    "sampler",
    "policy",
)
_OF_READS = (
    "server",
    "hits, last window",
    "expected",
    "with the plan",
    "hits since start",
    "reads/s",
)
# So many misses are filled where all is as it should be.
_FILLED_RATIO = 0.9
# What a process takes for itself cannot be told from fragmentation.
_PURPOSES = {"fragmentation": "programs and fragmentation"}


def print_status(status: dict[str, Any]) -> None:
    """As ``spreds status --json`` has it."""
    told = status["sidecar"]
    if told is None:
        print_wrapped(status["silent"])
    else:
        _print_sidecar(told)
    print()
    by_name = {server["name"]: server for server in told["servers"]} if told else {}
    servers = status["servers"]
    rows = [_memory_row(one, by_name.get(one["name"], {})) for one in servers]
    print_table([_OF_MEMORY, *rows], wraps=True)
    print()
    rows = [_reads_row(one, by_name.get(one["name"], {}), told) for one in servers]
    if any(any(row[1:]) for row in rows):
        print_table([_OF_READS, *rows], wraps=True)
        print()
    for server in servers:
        for line in _notes(server, by_name.get(server["name"], {}), told):
            print_wrapped(f"{server['name']}: {line}", indent="  ")
    print_wrapped(_total(status, told), indent="  ")
    if told and told["pause"] and status["total_maxmemory_bytes"] > status["budget_bytes"]:
        print_wrapped(
            "that is too much, and nothing is set while SPREDS pauses: `spreds resume FILE` ends "
            "that, or lower a maxmemory yourself",
            indent="  ",
        )


def _print_sidecar(told: dict[str, Any]) -> None:
    now = told["now_seconds"]
    first, *more = state_words(told)
    print_wrapped(f"node {told['node']}: {first}")
    for words in more:
        print_wrapped(words)
    print(
        f"sidecar {told['spreds_version']}, process {told['pid']}, up for "
        f"{about(now - told['started_at_seconds'])}; {_lag(told)}"
    )
    samples = told["samples"]
    print_wrapped(
        f"samples: {samples['received']:,} received, {samples['since_observation']:,} of "
        f"{samples['wanted']:,} for the next observation, which comes by "
        f"{next_observation_time(told)} in any case; {samples['lost_batches']:,} batches lost",
        indent="  ",
    )
    print_wrapped(f"last plan: {plan_in_short(told)}", indent="  ")
    for words in _gains(told):
        print_wrapped(words, indent="  ")
    for problem in told["problems"]:
        print_wrapped(f"problem: {problem}", indent="  ")


def _gains(told: dict[str, Any]) -> Iterator[str]:
    """What came of plans, and what would come of those that are only recommended."""
    gain = told.get("installed_gain")
    if measured := told.get("measured_access_time_seconds"):
        before = gain and gain.get("measured_before_seconds")
        was = f"; before SPREDS kept sizes it was {time_words(before)}" if before else ""
        if others := ", ".join(told.get("unmeasured") or ()):
            was = f", without {others} (not read in it, or the latency is not known){was}"
        yield f"mean access time, measured in the last window: {time_words(measured)}{was}"
    if told["last_check"]:
        yield f"last outcome: {told['last_check']['words']}"
    if gain and gain["ratio"] is not None:
        yield (
            "against the sizes that SPREDS found, the mean access time has been "
            f"{_shorter(gain['ratio'])} since {time_of_day(gain['since_seconds'])}, by the curves: "
            "what moves, restarts and refused writes cost is not in it"
        )
    would = told["recommended_gain"]
    # Once sizes are set, plans count from those that are wanted, and this would not.
    may_say = any(map(is_to_change, told["servers"])) and not told["sets_sizes"]
    if would and would["ratio"] is not None and may_say:
        yield (
            f"had the recommended sizes been in force for the last "
            f"{about(told['now_seconds'] - would['since_seconds'])}, the mean access time would "
            f"have been {_shorter(would['ratio'])}, against those in force and without moving"
        )


def _shorter(ratio: float) -> str:
    """By what share of itself a time is less."""
    text = f"{100 * abs(ratio):.2f} %"
    return "the same" if text == "0.00 %" else f"{text} {'shorter' if ratio > 0 else 'longer'}"


def _lag(told: dict[str, Any]) -> str:
    now = told["now_seconds"]
    turns = {"main loop": told["loop_at_seconds"], "actuator": told["actuator_at_seconds"]}
    return ", ".join(
        f"{name} has not turned yet" if at is None else f"{name} turned {age_words(now - at)}"
        for name, at in turns.items()
    )


def _memory_row(server: dict[str, Any], told: dict[str, Any]) -> tuple[str, ...]:
    if server["error"] is not None:
        return (server["name"], server["error_kind"], *[""] * (len(_OF_MEMORY) - 2))
    size = server["maxmemory_bytes"]
    planned = None if told.get("held") else told.get("target_bytes", server["planned_bytes"])
    recommended = told.get("recommended_bytes")
    return (
        server["name"],
        format_size(size) if size else "unlimited",
        size_or(planned if planned != size else None),
        size_or(recommended if recommended not in (size, planned) else None),
        format_size(server["used_memory_bytes"]),
        format_size(server["rss_bytes"]),
        server["sampler"] or "none",
        server["maxmemory_policy"],
    )


def _reads_row(
    server: dict[str, Any], told: dict[str, Any], status: dict[str, Any] | None
) -> tuple[str, ...]:
    if server["error"] is not None:
        return (server["name"], *[""] * (len(_OF_READS) - 1))
    reads = told.get("reads_per_second")
    return (
        server["name"],
        ratio_or(told.get("hit_ratio")),
        _expected(told, status),
        ratio_or(with_the_plan(told, status["last_plan"] if status else None, "hit_ratio")),
        ratio_or(server["lifetime_hit_ratio"], "-"),
        "" if reads is None else f"{reads:,.1f}",
    )


def _expected(server: dict[str, Any], status: dict[str, Any] | None) -> str:
    """On its way, a server does not have the size of which that is."""
    if status is None or not server.get("curve") or server["predicted_hit_ratio"] is None:
        return ""
    at = f" at {format_size(server['target_bytes'])}" if is_on_its_way(server, status) else ""
    return f"{ratio_or(server['predicted_hit_ratio'])}{at}"


def _notes(
    server: dict[str, Any], told: dict[str, Any], status: dict[str, Any] | None
) -> list[str]:
    if server["error"] is not None:
        return [server["error"]]
    notes = []
    held = told.get("held")
    planned, has = server["planned_bytes"], server["maxmemory_bytes"]
    if has and planned not in (None, has) and not held:
        notes.append(f"planned {format_size(planned)}, {_way_words(has, planned, told, status)}")
    kept = told.get("keep_reason") or server["keep_reason"]
    if kept and not held:
        notes.append(f"cannot be given another size now, because {reason_words(kept)}")
    if held:
        notes.append(
            f"keeps {format_size(held['bytes'])}, which somebody set by hand at "
            f"{time_of_day(held['at_seconds'])}: `spreds resume FILE {server['name']}` ends that"
        )
    never_gives = (kept or "").startswith("no_eviction")
    waits = told.get("up") and told["backend_latency_seconds"] is None and not never_gives
    if waits and server["configured_latency_seconds"] is None:
        notes.append(
            "backend: its latency is neither configured nor measured yet, so it gives no memory: "
            "set backend_latency"
        )
    elif (said := server["backend_latency"]) and not waits and _is_worth_telling(said):
        notes.append(f"backend: {ObservedLatency(**said).words()}")
    if told.get("settings_by"):
        notes.append(settings_words(told))
    if told.get("settings_refused"):
        notes.append(f"what its team set is not in force: {told['settings_refused']}")
    if told.get("last_change"):
        change = told["last_change"]
        words = without_backend(reason_words(change["words"]))
        notes.append(f"changed at {time_of_day(change['at_seconds'])}: {words}")
    return notes


def _is_worth_telling(latency: dict[str, Any]) -> bool:
    """Whether it is not simply as configured."""
    fill_ratio = latency["fill_ratio"]
    is_unfilled = fill_ratio is not None and fill_ratio < _FILLED_RATIO
    return bool(is_unfilled or latency["backend_latency_source"] != "configured")


def _way_words(has: int, planned: int, told: dict[str, Any], status: dict[str, Any] | None) -> str:
    """What a server that has another size than the planned one waits for."""
    words = f"has {format_size(has)}"
    if status is None or is_on_its_way(told, status):
        return f"{words}: {handed_over(has, planned)}"
    return f"{words}: nothing is set while SPREDS {'pauses' if status['pause'] else 'only watches'}"


def settings_words(told: dict[str, Any]) -> str:
    """What its team set."""
    values = told.get("team_settings") or {}
    written = (
        f"{setting.option} {setting.in_words(values[setting.name])}"
        for setting in SERVER_SETTINGS
        if setting.name in values
    )
    return (
        f"{', '.join(written) or 'nothing'}: by its team (signed {told['settings_by']}, version "
        f"{told['settings_version']})"
    )


def _total(status: dict[str, Any], told: dict[str, Any] | None) -> str:
    text = (
        f"total {format_size(status['total_maxmemory_bytes'])} of "
        f"{format_size(status['budget_bytes'])}"
    )
    away = [server["name"] for server in status["servers"] if server["error"] is not None]
    if away:
        text += f" without {', '.join(away)}"
    if told is None:
        return text
    kept = [
        size
        for one in told["servers"]
        if one["name"] in away and (size := one.get("counted_bytes") or one["target_bytes"])
    ]
    if kept:
        text += f", for which {format_size(sum(kept))} are kept"
    budget = told["budget"]
    text += f" (memory.budget {budget['configured']}"
    if budget["source"] == "rss":
        text += f", which resident memory lowered to {format_size(budget['bytes'])}"
    text += f"); used {size_or(budget['used_bytes'], '?')}"
    text += f", resident {size_or(budget['rss_bytes'], '?')}"
    if budget["rss_budget_bytes"] is not None:
        text += f" of {format_size(budget['rss_budget_bytes'])}"
    kept_free = [
        f"{_PURPOSES.get(purpose, purpose)} {format_size(size)}"
        for purpose, size in (budget["headroom_bytes"] or {}).items()
        if size
    ]
    if not kept_free:
        return text
    if budget["rss_budget_bytes"] is None:
        return f"{text}; on top of maxmemory come, and are not held: {', '.join(kept_free)}"
    return f"{text}; of resident memory are set aside for {', '.join(kept_free)}"
