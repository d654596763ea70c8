"""Reads whole numbers in what a server says of itself, which may be anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solver_lambda.documents.reader import MOST_BYTES, shown

_MOST_DIGITS = 20


class Figures:
    """Reads the figures that can be done without; ``odd`` gathers the names of those that must."""

    def __init__(self, table: Mapping[str, Any], odd: set[str]) -> None:
        self._table = table
        self._odd = odd

    def get(self, key: str, default: int = 0, most: int = MOST_BYTES) -> int:
        """Return the figure, or the default if there is none, or one that makes no sense; as one
        does that is above ``most``."""
        if key not in self._table:
            return default
        try:
            if (figure := number_of(self._table, key)) <= most:
                return figure
        except ValueError:
            pass
        self._odd.add(key)
        return default


def figure_of(table: Mapping[str, Any], key: str, default: int = 0) -> int:
    """Return a figure, or the default if there is none, or one that makes no sense."""
    return Figures(table, set()).get(key, default)


def number_of(table: Mapping[str, Any], key: str) -> int:
    """Return a whole number. Raises ValueError if there is none, or it is no number of a server.
    One that is greater than any memory is taken for as much as documents may have."""
    text = str(table.get(key))
    # More digits than 64 bits have are no number of a server.
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise ValueError(f"the server's {key} is {shown(text)}, not a whole number")
    return min(int(text), MOST_BYTES)


def keys_of(info: Mapping[str, Any], odd: set[str]) -> tuple[int, int, float]:
    """Count all databases' keys, those with a TTL, and the mean seconds that these have left."""
    keys = with_ttl = ttl_sum = 0
    for name, value in info.items():
        if name.startswith("db") and isinstance(value, Mapping):
            database = Figures(value, odd)
            here = database.get("keys")
            expire = min(here, database.get("expires"))
            keys, with_ttl = keys + here, with_ttl + expire
            ttl_sum += expire * database.get("avg_ttl")
    return keys, with_ttl, ttl_sum / with_ttl / 1000 if with_ttl else 0.0
