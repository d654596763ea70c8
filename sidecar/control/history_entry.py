"""Reads an entry of the history: whoever edited the file, its values have their types."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from solver_lambda.documents.reader import MOST_NUMBER

KINDS = (
    *("start", "stop", "reload", "plan", "check", "order", "hand"),
    *("rollback", "budget", "yardstick", "server", "gap"),
)
# The year 9999: later ones cannot be told.
MOST_UNIX_SECONDS = 253_402_300_799.0


def read_entry(line: bytes) -> dict[str, Any] | None:
    """Read the entry of a line, without what has the wrong type. ``None`` if what each entry of its
    kind has is wrong or missing."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    read = {key: value for key, value in entry.items() if _is_right(key, value)}
    if any(key not in read for key in ("at_seconds", "kind", "words")):
        return None
    # Whoever asks what a plan changed wants to know which plan.
    if read["kind"] == "plan" and read.get("carried_out") and "cycle" not in read:
        return None
    return read


def _is_right(key: str, value: object) -> bool:
    return _RULES.get(key, _is_sound)(value)


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half a character, which cannot be printed
        return False
    return True


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Not a number compares false.
    return is_number and -MOST_NUMBER <= value <= MOST_NUMBER  # type: ignore[operator]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and _is_number(value) and value >= 0


def _is_time(value: object) -> bool:
    return _is_number(value) and 0 <= value <= MOST_UNIX_SECONDS  # type: ignore[operator]


def _table_of(rule: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: (
        isinstance(value, dict) and all(map(_is_text, value)) and all(map(rule, value.values()))
    )


def _is_sound(value: object) -> bool:
    """Whether JSON can say again what a key has that later versions may have."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


_RULES: dict[str, Callable[[object], bool]] = {
    "at_seconds": _is_time,
    "kind": lambda value: value in KINDS,
    "by": _is_text,
    "words": _is_text,
    "number": _is_count,
    "times": _is_count,
    "last_at_seconds": _is_time,
    "had_effect": lambda value: isinstance(value, bool),
    "cycle": _is_count,
    "decision": _is_text,
    "carried_out": lambda value: isinstance(value, bool),
    "reason": _is_text,
    "reasons": _table_of(_is_text),
    "sizes_before_bytes": _table_of(_is_count),
    "sizes_bytes": _table_of(_is_count),
    "server": _is_text,
    "verdict": _is_text,
    "order": lambda value: isinstance(value, dict) and _is_sound(value),
    **dict.fromkeys(
        (
            "predicted_gain_ratio",
            "mean_access_time_before_seconds",
            "mean_access_time_seconds",
            "predicted_seconds",
            "observed_seconds",
            "without_seconds",
            "error_seconds",
            "predicted_ratio",
            "realised_ratio",
        ),
        lambda value: value is None or _is_number(value),
    ),
}
