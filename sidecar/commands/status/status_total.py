"""Prints the last line of ``spreds status``: the sum of sizes against the budget."""

from __future__ import annotations

from typing import Any

from sidecar.commands.printing import print_wrapped, size_or
from solver_lambda.documents.units import format_size

# A process' own memory cannot be told from fragmentation.
_PURPOSES = {"fragmentation": "programs and fragmentation"}


def print_total(status: dict[str, Any], *, is_verbose: bool) -> None:
    """Print the sum of sizes, and what to do where a pause keeps it above the budget."""
    told = status["sidecar"]
    print_wrapped(_total(status, told, is_verbose), indent="  ")
    if told and told["pause"] and status["total_maxmemory_bytes"] > status["budget_bytes"]:
        print_wrapped(
            "that is too much, and nothing is set while SPREDS pauses: `spreds resume FILE` ends "
            "that, or lower a maxmemory yourself",
            indent="  ",
        )


def _total(status: dict[str, Any], told: dict[str, Any] | None, is_verbose: bool) -> str:
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
    lowered = ""
    if budget["source"] == "rss":
        lowered = f", which resident memory lowered to {format_size(budget['bytes'])}"
    if lowered or is_verbose:
        text += f" (memory.budget {budget['configured']}{lowered})"
    text += f"; used {size_or(budget['used_bytes'], '?')}"
    if not is_verbose:
        return text
    text += f", resident {size_or(budget['rss_bytes'], '?')}"
    if budget["rss_budget_bytes"] is not None:
        text += f" of {format_size(budget['rss_budget_bytes'])}"
    if hanging := budget.get("rss_as_last_told"):
        text += f" ({', '.join(hanging)} as of the last answer)"
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
