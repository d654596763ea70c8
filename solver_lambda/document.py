"""Checked reading of documents that came from outside: JSON from S3, TOML from an operator."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterator
from typing import Any


class DocumentError(ValueError):
    """A document breaks its rules; the message names the document, the key and the value."""


class Fields:
    """One table of a document: hands out each key once, checked, and refuses what is left over.

    ``source`` names the document in messages (a file or an S3 key), ``path`` the place in it.
    Every method raises ``DocumentError``.
    """

    def __init__(self, table: object, source: str, path: str = "") -> None:
        if not isinstance(table, dict):
            raise DocumentError(
                f"{source}: {path or 'the document'} must be a table, not {table!r}"
            )
        self._table: dict[str, Any] = table
        self._known: set[str] = set()
        self.source = source
        self.path = path

    def where(self, key: str) -> str:
        """Full name of ``key``, for messages."""
        return f"{self.path}.{key}" if self.path else key

    def refuse(self, key: str, why: str) -> DocumentError:
        """The error to raise for the value of ``key``."""
        return DocumentError(f"{self.source}: {self.where(key)} {why}")

    def value(self, key: str, default: object = ...) -> Any:
        """The raw value of ``key``; without a default it must be there."""
        self._known.add(key)
        if key in self._table:
            return self._table[key]
        if default is ...:
            raise self.refuse(key, "is missing")
        return default

    def has(self, key: str) -> bool:
        """Whether ``key`` is there and not null."""
        self._known.add(key)
        return self._table.get(key) is not None

    def text(self, key: str, default: object = ..., choices: tuple[str, ...] = ()) -> str:
        """A non-empty string, one of ``choices`` if there are any."""
        value = self.value(key, default)
        if not isinstance(value, str) or not value:
            raise self.refuse(key, f"must be a non-empty string, not {value!r}")
        if choices and value not in choices:
            raise self.refuse(key, f"must be one of {', '.join(choices)}, not {value!r}")
        return value

    def boolean(self, key: str, default: object = ...) -> bool:
        """True or false."""
        value = self.value(key, default)
        if not isinstance(value, bool):
            raise self.refuse(key, f"must be true or false, not {value!r}")
        return value

    def number(
        self,
        key: str,
        default: object = ...,
        *,
        low: float = -math.inf,
        high: float = math.inf,
        above: float = -math.inf,
    ) -> float:
        """A finite number in [low, high], and greater than ``above``."""
        value = self.value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(key, f"must be a number, not {value!r}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.refuse(key, f"must be a finite number, not {value!r}")
        if not low <= number <= high or number <= above:
            least = f"more than {above:g}" if above > -math.inf else f"at least {low:g}"
            most = f" and at most {high:g}" if high < math.inf else ""
            raise self.refuse(key, f"must be {least}{most}, not {value!r}")
        return number

    def integer(
        self, key: str, default: object = ..., *, low: int | None = None, high: int | None = None
    ) -> int:
        """A whole number in [low, high]."""
        value = self.value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse(key, f"must be a whole number, not {value!r}")
        if low is not None and value < low:
            raise self.refuse(key, f"must be at least {low}, not {value!r}")
        if high is not None and value > high:
            raise self.refuse(key, f"must be at most {high}, not {value!r}")
        return value

    def numbers(self, key: str) -> list[float]:
        """A list of finite numbers."""
        value = self.value(key)
        if not isinstance(value, list):
            raise self.refuse(key, f"must be a list of numbers, not {value!r}")
        for place, item in enumerate(value):
            if (
                isinstance(item, bool)
                or not isinstance(item, int | float)
                or (isinstance(item, float) and not math.isfinite(item))
            ):
                raise self.refuse(f"{key}[{place}]", f"must be a finite number, not {item!r}")
        return value

    def table(self, key: str, default: object = ...) -> Fields:
        """A nested table."""
        return Fields(self.value(key, default), self.source, self.where(key))

    def tables(self, key: str) -> Iterator[Fields]:
        """A non-empty list of tables."""
        value = self.value(key)
        if not isinstance(value, list) or not value:
            raise self.refuse(key, f"must be a non-empty list of tables, not {value!r}")
        for place, item in enumerate(value):
            yield Fields(item, self.source, f"{self.where(key)}[{place}]")

    def done(self) -> None:
        """Refuse any key that nobody asked for, and name the nearest known one."""
        for key in self._table:
            if key not in self._known:
                near = difflib.get_close_matches(str(key), self._known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise self.refuse(str(key), f"is not a known key{hint}")


def parse_json(text: bytes | str, source: str, max_bytes: int) -> Fields:
    """The top table of a JSON document.

    Raises:
        DocumentError: larger than ``max_bytes``, not JSON, or not an object.
    """
    if len(text) > max_bytes:
        raise DocumentError(f"{source}: {len(text)} bytes, more than the {max_bytes} allowed")
    try:
        return Fields(json.loads(text), source)
    except (ValueError, RecursionError) as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(f"{source}: not a JSON document: {error}") from error


def check_kind(fields: Fields, kind: str, version: int) -> None:
    """Refuse a document of another kind or version."""
    fields.text("kind", choices=(kind,))
    if fields.integer("version") != version:
        raise fields.refuse("version", f"must be {version}, not {fields.value('version')!r}")
