"""Whether the sidecar lives, and whether it can do its work: for probes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solver_lambda.documents.units import format_duration

# A turn of a loop takes a second at most, and one more for each server that hangs.
LONGEST_TURN_SECONDS = 30.0
LONGEST_SERVER_SECONDS = 1.0
LOOPS = ("loop", "actuator")


def why_not_live(status: Mapping[str, Any]) -> str | None:
    """Return ``None`` while both loops have turned lately; a loop that has not turned yet has as
    much time from the start on."""
    longest_seconds = LONGEST_TURN_SECONDS + LONGEST_SERVER_SECONDS * len(status["servers"])
    for loop in LOOPS:
        last_seconds = status[f"{loop}_at_seconds"] or status["started_at_seconds"]
        age_seconds = status["now_seconds"] - last_seconds
        if age_seconds > longest_seconds:
            name = "main" if loop == "loop" else loop
            return f"the {name} loop has not turned for {format_duration(round(age_seconds))}"
    return None


def why_not_ready(status: Mapping[str, Any]) -> str | None:
    """Return ``None`` once samples can come, the servers were asked, and one of them answers, as
    long as it lives."""
    if (status["loop_at_seconds"] or 0) <= status["started_at_seconds"]:
        return "the main loop, which receives samples, has not begun"
    if status["actuator_at_seconds"] is None:
        return "the servers have not been asked yet"
    if not any(server["up"] for server in status["servers"]):
        return "no server answers"
    return why_not_live(status)
