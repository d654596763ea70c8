"""Whether a text has the form of a plan: its keys, and the kinds of their values.

By ``AdaptationPlan`` it would take 12 s for 100,000 of them. Numbers are checked in
``new_documents.sql``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from solver_lambda.documents.keys import SERVER_PATTERN

# No control characters, neither as they are nor escaped.
_TEXT = (
    r'"(?:[^"\\\x00-\x1f]'
    r'|\\["\\/]|\\u(?:00[2-7a-fA-F]|0[1-9a-fA-F][0-9a-fA-F]|[1-9a-fA-F][0-9a-fA-F]{2})[0-9a-fA-F])+"'
)
_WHOLE = "(?:0|[1-9][0-9]*)"
_NUMBER = rf"-?{_WHOLE}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"


def _any(choices: Iterable[str]) -> str:
    return f"(?:{'|'.join(choices)})"


def _optional(value: str) -> str:
    return _any(("null", value))


def _table(keys: dict[str, str]) -> str:
    """``keys``: names, with blanks between, by what their values look like."""
    pairs = _any(rf'"{_any(names.split())}"\s*:\s*{value}' for value, names in keys.items())
    return rf"\{{\s*{pairs}(?:\s*,\s*{pairs})*\s*\}}"


def _list(item: str) -> str:
    return rf"\[\s*(?:{item}(?:\s*,\s*{item})*\s*)?\]"


_SERVER = _table(
    {
        f'"{SERVER_PATTERN.pattern}"': "name",
        _TEXT: "reason",
        _optional(_TEXT): "settings_version",
        _WHOLE: "maxmemory_before_bytes maxmemory_bytes",
        _optional(_WHOLE): "installed_bytes",
        _optional(_NUMBER): "hit_ratio_before hit_ratio eat_before_seconds eat_seconds "
        "marginal_gain_seconds_per_mebibyte weight request_rate_per_second eat_installed_seconds",
    }
)
_WHAT_IF = _table({_WHOLE: "budget_bytes", _NUMBER: "mean_access_time_seconds"})
_PLAN = _table(
    {
        _TEXT: "kind node method decision reason",
        _WHOLE: "version cycle budget_bytes run_memory_bytes",
        _NUMBER: "observation_made_at_seconds made_at_seconds optimality_gap run_seconds",
        _optional(_NUMBER): "mean_access_time_before_seconds mean_access_time_seconds "
        "window_seconds",
        _list(_SERVER): "servers",
        _optional(_list(_WHAT_IF)): "what_if",
    }
)
_FORM = re.compile(rf"\s*{_PLAN}\s*".encode())
_OF_NUMBERS = b"0123456789+-"


class PlanForms:
    """Most plans of a fleet are alike but for their numbers, so a text is looked at once for all
    that are: what is left without digits and signs has been seen."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def has(self, text: bytes) -> bool:
        """Whether a text has the form, if it is JSON at all."""
        rest = hash(text.translate(None, _OF_NUMBERS))
        if rest in self._seen:
            return True
        if not _FORM.fullmatch(text):
            return False
        self._seen.add(rest)
        return True
