"""Whether plans are carried out now, for people: mode, pause and wait."""

from __future__ import annotations

from typing import Any

from sidecar.base.time_of_day import time_of_day


def state_words(told: dict[str, Any]) -> list[str]:
    """Say a pause first, as nothing else counts in it; then the mode, and what plans wait for."""
    return [words for words in (pause_words(told), mode_words(told), wait_words(told)) if words]


def mode_words(told: dict[str, Any]) -> str:
    """Return the mode and who set it."""
    words = "plans are carried out"
    if told["mode"] == "recommend":
        kept = ", but for what was ordered" if told["sets_sizes"] else "; nothing is set"
        words = f"no plans are carried out{kept}"
    order = told["mode_by"]
    return f"mode {told['mode']}: {words} ({_by(order) if order else 'as configured'})"


def pause_words(told: dict[str, Any]) -> str:
    """Say who paused, and until when; empty without a pause."""
    pause = told["pause"]
    if not pause:
        return ""
    until = pause["until_seconds"]
    end = "until `spreds resume`" if until is None else f"until {time_of_day(until)}"
    return f"paused {end}: nothing is set ({_by(pause)})"


def wait_words(told: dict[str, Any]) -> str:
    """Say what plans wait for; empty unless a plan that failed keeps others from being carried
    out."""
    wait = told["wait"]
    if not wait:
        return ""
    return f"no plan is carried out until {time_of_day(wait['until_seconds'])}: {wait['why']}"


def _by(order: dict[str, Any]) -> str:
    why = f": {order['why']}" if order.get("why") else ""
    return f"by {order['by']} at {time_of_day(order['at_seconds'])}{why}"
