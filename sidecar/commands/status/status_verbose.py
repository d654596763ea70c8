"""Prints ``spreds status --verbose``, and has the words that it shares with the short one."""

from __future__ import annotations

import re
from typing import Any, cast

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.plan.plan_words import (
    next_observation_time,
    on_their_way,
    plan_in_short,
    refusals_words,
)
from sidecar.commands.printing import (
    about,
    age_words,
    print_table,
    print_wrapped,
    ratio_or,
    size_or,
)
from sidecar.commands.size_predicates import is_on_its_way, planned_bytes, with_the_plan
from sidecar.commands.state_words import state_words
from sidecar.commands.status.status_gains import gains, is_told_beside
from sidecar.commands.status.status_total import print_total
from sidecar.servers.sizes.sizes_in_words import handed_over
from sidecar.state.sidecar_state import ObservedLatency
from solver_lambda.documents.server_settings import SERVER_SETTINGS
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import reason_words, without_backend

# There are two tables, for one would be too wide for a terminal.
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
    "reads/s",
)
# Of a gain, what stands in a line of its own.
_FROM_TO = re.compile(r" from [\d.]+ ms to [\d.]+ ms,")
# So many misses are filled if all is as it should be.
_FILLED_RATIO = 0.9


def print_status(status: dict[str, Any]) -> None:
    """Print all of a status, which is as ``spreds status --json`` has it."""
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
    print_total(status, is_verbose=True)


def _print_sidecar(told: dict[str, Any]) -> None:
    first, *more = state_words(told)
    print_wrapped(f"node {told['node']}: {first}")
    for problem in told["problems"]:
        print_wrapped(f"problem: {problem}", indent="  ")
    for words in more:
        print_wrapped(words)
    print(lag_words(told))
    print_wrapped(samples_words(told), indent="  ")
    print_wrapped(f"last plan: {last_plan_words(told, is_verbose=True)}", indent="  ")
    for words in refusals_words(told, is_verbose=True):
        print_wrapped(words, indent="  ")
    for words in gains(told, is_verbose=True):
        print_wrapped(words, indent="  ")


def samples_words(told: dict[str, Any]) -> str:
    """Say how many samples came, and when the next observation does."""
    samples = told["samples"]
    return (
        f"samples: {samples['received']:,} received, {samples['since_observation']:,} of "
        f"{samples['wanted']:,} for the next observation, which comes by "
        f"{next_observation_time(told)} in any case; {samples['lost_batches']:,} batches lost"
    )


def last_plan_words(told: dict[str, Any], *, is_verbose: bool) -> str:
    """Return the last plan; after a restart also that the one from before goes on."""
    plan = told["last_plan"]
    if plan is not None:
        if not is_verbose:  # how far curves are known is long, and ``spreds plan`` has it
            reason = plan["reason"]
            if is_told_beside(told):
                reason = _FROM_TO.sub("", reason)
            plan = {**plan, "known_words": None, "reason": reason}
        return plan_in_short({**told, "last_plan": plan})
    if not told["sets_sizes"] or told["pause"]:
        return plan_in_short(told)
    under_way = ", ".join(on_their_way(told))
    goes_on = "the sizes from before are kept"
    if under_way:
        goes_on = f"servers are still on the way to the sizes from before ({under_way})"
    due = next_observation_time(told)
    return f"none since the sidecar started; {goes_on}; the next observation is due by {due}"


def lag_words(told: dict[str, Any], least_seconds: float = 0.0) -> str:
    """Return the process and how long ago its loops turned; empty if none is later than that."""
    now, up_seconds = told["now_seconds"], told["now_seconds"] - told["started_at_seconds"]
    turns = {"main loop": told["loop_at_seconds"], "actuator": told["actuator_at_seconds"]}
    ages = [up_seconds if at is None else now - at for at in turns.values()]
    if max(ages) < least_seconds:
        return ""
    lag = ", ".join(
        f"{name} has not turned yet" if at is None else f"{name} turned {age_words(now - at)}"
        for name, at in turns.items()
    )
    return (
        f"sidecar {told['spreds_version']}, process {told['pid']}, up for {about(up_seconds)}; "
        f"{lag}"
    )


def _memory_row(server: dict[str, Any], told: dict[str, Any]) -> tuple[str, ...]:
    if server["error"] is not None:
        return (server["name"], server["error_kind"], *[""] * (len(_OF_MEMORY) - 2))
    size = server["maxmemory_bytes"]
    planned = planned_bytes(server, told)
    recommended = told.get("recommended_bytes")
    return (
        server["name"],
        format_size(size) if size else "unlimited",
        size_or(planned),
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
        "" if reads == 0 else ratio_or(told.get("hit_ratio")),
        _expected(told, status),
        ratio_or(with_the_plan(told, status["last_plan"] if status else None, "hit_ratio")),
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
    notes += kept_words(server, told, status)
    notes += minimum_words(told)
    if held:
        notes.append(
            f"keeps {format_size(held['bytes'])}, which somebody set by hand at "
            f"{time_of_day(held['at_seconds'])}: `spreds resume FILE {server['name']}` ends that"
        )
    waits = waits_words(server, told)
    if waits:
        notes.append(waits)
    elif (said := server["backend_latency"]) and _is_worth_telling(said):
        notes.append(f"backend: {ObservedLatency(**said).words()}")
    if told.get("settings_by"):
        notes.append(settings_words(told))
    notes += refused_words(told)
    if (cost := told.get("look_cost_ratio")) is not None:
        notes.append(f"looked at from outside, which takes it {cost:.1%} of a core")
    if told.get("last_change"):
        change = told["last_change"]
        words = without_backend(reason_words(change["words"]))
        notes.append(f"changed at {time_of_day(change['at_seconds'])}: {words}")
    return notes


def kept_words(
    server: dict[str, Any], told: dict[str, Any], status: dict[str, Any] | None
) -> list[str]:
    """Say why no plan gives a server another size, and that one from before goes on."""
    kept = _keep_reason(server, told)
    # A problem above has it of one without a sampler.
    if not kept or told.get("held") or (told.get("up") and kept.startswith("no_sampler:")):
        return []
    why = reason_words(kept) + (" (at the last observation)" if "%" in kept else "")
    if status is None or not told or not is_on_its_way(told, status):
        return [f"cannot be given another size now, because {why}"]
    change = told["last_change"]
    since = f"the one from {time_of_day(change['at_seconds'])}" if change else "the one before"
    return [f"no new plan changes its size yet, because {why}; {since} goes on"]


def _keep_reason(server: dict[str, Any], told: dict[str, Any]) -> str | None:
    # The sidecar remembers more of a server than that says by itself.
    said = told if told.get("up") else server
    return cast("str | None", said["keep_reason"])


def minimum_words(told: dict[str, Any]) -> list[str]:
    """Return a minimum that was raised since the last plan."""
    planned, least = told.get("target_bytes"), told.get("minimum_bytes")
    if not planned or not least or planned >= least or told.get("held"):
        return []
    return [f"its minimum is {format_size(least)} now: the next plan keeps to it"]


def waits_words(server: dict[str, Any], told: dict[str, Any]) -> str:
    """Say what a server without a known latency needs; empty if it waits for none."""
    kept = _keep_reason(server, told) or ""
    # Until the first observation after a start, what was on file.
    observed = (server["backend_latency"] or {}).get("backend_latency_seconds")
    is_known = told.get("backend_latency_seconds") or server["configured_latency_seconds"]
    if not told.get("up") or is_known is not None or observed or kept.startswith("no_eviction"):
        return ""
    return (
        "backend: its latency is neither configured nor measured yet, so it gives no memory: set "
        "backend_latency"
    )


def refused_words(told: dict[str, Any]) -> list[str]:
    """Say what a team set in vain."""
    refused = told.get("settings_refused")
    return [f"what its team set last is not in force: {refused}"] if refused else []


def is_unfilled(latency: dict[str, Any]) -> bool:
    """Whether more misses than usual are never filled."""
    return latency["fill_ratio"] is not None and latency["fill_ratio"] < _FILLED_RATIO


def _is_worth_telling(latency: dict[str, Any]) -> bool:
    """Whether it is not simply as configured."""
    return is_unfilled(latency) or latency["backend_latency_source"] != "configured"


def _way_words(has: int, planned: int, told: dict[str, Any], status: dict[str, Any] | None) -> str:
    """Say what a server that has another size than the planned one waits for."""
    words = f"has {format_size(has)}"
    if status is None:
        return f"{words}: nothing is set while no sidecar runs"
    if is_on_its_way(told, status):
        return f"{words}: {handed_over(has, planned)}"
    return f"{words}: nothing is set while SPREDS {'pauses' if status['pause'] else 'only watches'}"


def settings_words(told: dict[str, Any]) -> str:
    """Say what a server's team set."""
    values = told.get("team_settings") or {}
    written = (
        f"{setting.option} {setting.in_words(values[setting.name])}"
        for setting in SERVER_SETTINGS
        if setting.name in values
    )
    return (
        f"{', '.join(written) or 'nothing'}: by its team (signed {told['settings_by']}, version "
        f"{told['settings_version']}; as of the last observation)"
    )
