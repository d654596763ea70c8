"""Reads and checks documents that came from outside: JSON from S3, TOML from an operator.

Their authors may be mistaken, or mean harm. So depth, length, magnitude and count have bounds here,
for all documents alike, and what is within them can be computed with: no sum, product or
quotient of such numbers leaves the range of a float.
"""

from __future__ import annotations

import difflib
import math
import re
import reprlib
from collections.abc import Iterable, Iterator
from typing import Any

MAX_TEXT = 4096
MAX_SERVERS = 1024
MOST_NUMBER = 1e19
# A smaller number is read as 0.
LEAST_NUMBER = 1e-60
# What fits Redis' maxmemory.
MOST_INTEGER = (1 << 64) - 1
# Sums of sizes, and half as much again, stay within 64 bits.
MOST_BYTES = 1 << 61
_MOST_COMPARED = 100  # names, with one that is missing
_SHOWN_CHARACTERS = 100
_NAME = re.compile(r"[\w.-]{1,63}", re.ASCII)


class DocumentError(ValueError):
    """A document breaks its rules; the message names the document, the key and the value."""


class _Shortener(reprlib.Repr):
    """Never makes the whole text of a long value."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring = 3, _SHOWN_CHARACTERS

    def repr_int(self, number: int, level: int) -> str:  # noqa: ARG002
        bits = number.bit_length()
        return repr(number) if bits <= 128 else f"a whole number of {bits} bits"


_SHORTENER = _Shortener()


def shown(value: object) -> str:
    """Return a value for messages, cut if it is long."""
    text = _SHORTENER.repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _kind(value: object) -> str:
    kinds = {str: "a text", list: "a list", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number" if isinstance(value, int | float) else "another type")


class Fields:
    """Reads one table of a document: hands out each key once, checked, and refuses what is left
    over.

    ``source`` names the document in messages (a file or an S3 key), ``path`` the place in it.
    Every method raises ``DocumentError``.
    """

    def __init__(self, table: object, source: str, path: str = "") -> None:
        if not isinstance(table, dict):
            raise DocumentError(
                # The value is left out: a whole document may be somebody's secret.
                f"{source}: {path or 'the document'} must be a table, not {_kind(table)}"
            )
        self._table: dict[str, Any] = table
        self._known: set[str] = set()
        self.source = source
        self.path = path

    def where(self, key: str) -> str:
        """Return the full name of ``key``, for messages."""
        key = key if len(key) <= _SHOWN_CHARACTERS else f"{key[:_SHOWN_CHARACTERS]}..."
        # Who writes a document must not write lines of their own into a log.
        key = key if key.isprintable() else ascii(key)[1:-1]
        return f"{self.path}.{key}" if self.path else key

    def refuse(self, key: str, why: str) -> DocumentError:
        """Return the error to raise for the value of ``key``."""
        return DocumentError(f"{self.source}: {self.where(key)} {why}")

    def check_distinct(self, key: str, names: Iterable[str]) -> None:
        """Raises DocumentError if two of the servers' ``names``, which stand under ``key``, are
        the same."""
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise self.refuse(key, f"has two servers named {name!r}")
            seen.add(name)

    def value(self, key: str, default: object = ...) -> Any:
        """Return the raw value of ``key``; without a default it must be there."""
        self._known.add(key)
        if key in self._table:
            return self._table[key]
        if default is ...:
            unknown = [str(name) for name in self._table if name not in self._known]
            near = difflib.get_close_matches(
                key, [name[:_SHOWN_CHARACTERS] for name in unknown[:_MOST_COMPARED]], n=1
            )
            hint = f": is {near[0]!r} meant to be it?" if near else ""
            raise self.refuse(key, f"is missing{hint}")
        return default

    def has(self, key: str) -> bool:
        """Whether ``key`` is there and not null."""
        self._known.add(key)
        return self._table.get(key) is not None

    def names(self) -> list[str]:
        """Return all keys, where they are names and not known in advance."""
        if len(self._table) > MAX_SERVERS:
            raise DocumentError(
                f"{self.source}: {self.path or 'the document'} has {len(self._table)} keys, "
                f"more than {MAX_SERVERS}"
            )
        return [str(key) for key in self._table]

    def text(
        self,
        key: str,
        default: object = ...,
        choices: tuple[str, ...] = (),
        *,
        most: int = MAX_TEXT,
    ) -> str:
        """Return a non-empty string without control characters, one of ``choices`` if there are
        any."""
        value = self.value(key, default)
        if not isinstance(value, str) or not value:
            raise self.refuse(key, f"must be a non-empty string, not {shown(value)}")
        if choices and value not in choices:
            raise self.refuse(key, f"must be one of {', '.join(choices)}, not {shown(value)}")
        if len(value) > most:
            raise self.refuse(key, f"must have {most} characters at most, not {len(value)}")
        if not value.isprintable():
            raise self.refuse(key, f"must have printable characters only, not {shown(value)}")
        return value

    def boolean(self, key: str, default: object = ...) -> bool:
        """Read true or false."""
        value = self.value(key, default)
        if not isinstance(value, bool):
            raise self.refuse(key, f"must be true or false, not {shown(value)}")
        return value

    def number(
        self,
        key: str,
        default: object = ...,
        *,
        low: float = -MOST_NUMBER,
        high: float = MOST_NUMBER,
        above: float = -math.inf,
    ) -> float:
        """Return a finite number in [low, high], and greater than ``above``."""
        value = self.value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(key, f"must be a number, not {shown(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.refuse(key, f"must be a finite number, not {shown(value)}")
        high = min(high, MOST_NUMBER)
        if abs(value) < LEAST_NUMBER:
            value = 0
        if not low <= value <= high or value <= above:
            least = f"more than {above:g}" if above > -math.inf else f"at least {low:g}"
            raise self.refuse(key, f"must be {least} and at most {high:g}, not {self.given(key)}")
        return float(value)

    def optional_number(
        self,
        key: str,
        *,
        low: float = -MOST_NUMBER,
        high: float = MOST_NUMBER,
        above: float = -math.inf,
    ) -> float | None:
        """Return the same, or ``None`` where the key is absent or null."""
        return self.number(key, low=low, high=high, above=above) if self.has(key) else None

    def given(self, key: str) -> str:
        """Return the raw value, for messages."""
        return shown(self._table.get(key))

    def integer(
        self,
        key: str,
        default: object = ...,
        *,
        low: int = -MOST_INTEGER,
        high: int = MOST_INTEGER,
    ) -> int:
        """Return a whole number in [low, high]."""
        value = self.value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse(key, f"must be a whole number, not {shown(value)}")
        if value < low:
            raise self.refuse(key, f"must be at least {low}, not {shown(value)}")
        if value > high:
            raise self.refuse(key, f"must be at most {high}, not {shown(value)}")
        return value

    def numbers(self, key: str, *, most: int) -> list[float]:
        """Return a list of at most so many finite numbers."""
        value = self.value(key)
        if not isinstance(value, list):
            raise self.refuse(key, f"must be a list of numbers, not {shown(value)}")
        if len(value) > most:
            raise self.refuse(key, f"must have {most} numbers at most, not {len(value)}")
        for place, item in enumerate(value):
            # Not a number compares false, too.
            if (
                isinstance(item, bool)
                or not isinstance(item, int | float)
                or not -MOST_NUMBER <= item <= MOST_NUMBER
            ):
                raise self.refuse(
                    f"{key}[{place}]",
                    f"must be a finite number within ±{MOST_NUMBER:g}, not {shown(item)}",
                )
        return [float(item) if abs(item) >= LEAST_NUMBER else 0.0 for item in value]

    def table(self, key: str, default: object = ...) -> Fields:
        """Read a nested table."""
        return Fields(self.value(key, default), self.source, self.where(key))

    def tables(self, key: str, *, least: int = 1, most: int = MAX_SERVERS) -> Iterator[Fields]:
        """Read a list of tables."""
        value = self.value(key)
        if not isinstance(value, list) or len(value) < least:
            kind = "a non-empty list" if least else "a list"
            raise self.refuse(key, f"must be {kind} of tables, not {shown(value)}")
        if len(value) > most:
            raise self.refuse(key, f"must have {most} tables at most, not {len(value)}")
        for place, item in enumerate(value):
            yield Fields(item, self.source, f"{self.where(key)}[{_name_or(place, item)}]")

    def done(self) -> None:
        """Refuse any key that nobody asked for, and name the nearest known one."""
        for key in self._table:
            if key not in self._known:
                near = [one for one in sorted(self._known) if str(key) in one.split("_")]
                near = near or difflib.get_close_matches(
                    str(key)[:_SHOWN_CHARACTERS], self._known, n=1
                )
                hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
                raise self.refuse(str(key), f"is not a known key{hint}")


def _name_or(place: int, item: object) -> str:
    """Say what a table in a list is called in messages: people do not count their servers."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) and _NAME.fullmatch(name) else str(place)
