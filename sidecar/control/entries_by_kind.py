"""Keeps the history's entries by kind and by who gave them: none can push out all others."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

# Entries that are kept of each kind, and of each order that had an effect.
MOST = {"plan": 4000, "check": 2000}
MOST_OF_OTHERS = 500
# Plans of many servers are long.
MOST_BYTES = 16 << 20
# A page has at most so many, unless a single entry is longer.
MOST_PAGE_BYTES = 1 << 18
WITHOUT_EFFECT = "order without effect"
# The servers in words such as "weights changed: a 1 -> 2, b 2 -> 3; latency changed: c 1ms -> 2ms".
_CHANGED = re.compile(r"(?:changed:|,) (\S+) ")


def kind_of(entry: Mapping[str, Any]) -> str:
    """Return the kind by which an entry is kept."""
    if entry.get("had_effect") is False:
        return WITHOUT_EFFECT
    what = (entry.get("order") or {}).get("what")
    # An edited file makes no more kinds than there are orders.
    known = ("apply", "apply_from_now_on", "recommend", "pause", "resume", "rollback")
    return f"order to {what}" if what in known else str(entry["kind"])


def giver_of(entry: Mapping[str, Any]) -> str:
    """Return who gave the order of an entry, as the system or the token says. The name that he gave
    himself stands before it and is left out. So are the address and the number of a user without a
    name, of which he may have many. Sizes changed for the budget's sake have their reason, which
    names the servers whose clients may have brought it about. What a server did has the server, and
    so has a size that somebody set by hand there, and what changes how much its reads count."""
    if entry["kind"] == "budget":
        return str(entry["words"]).partition(":")[0]
    if entry["kind"] in ("server", "hand"):
        return str(entry.get("server"))
    if entry["kind"] == "yardstick":
        return " ".join(sorted(set(_CHANGED.findall(str(entry["words"])))))
    giver = str(entry.get("by", "")).rpartition(", as ")[2].partition(" at ")[0]
    return "users without a name" if giver.startswith("uid ") else giver


class _Kind:
    """Keeps entries of one kind, by who gave them. What goes is the oldest of whoever has the
    most."""

    def __init__(self) -> None:
        self.of_givers: dict[str, dict[int, bytes]] = {}
        self.count = 0
        self.bytes = 0

    def put(self, giver: str, number: int, text: bytes) -> None:
        own = self.of_givers.setdefault(giver, {})
        self.count += number not in own
        self.bytes += len(text) - len(own.get(number, b""))
        own[number] = text

    def drop_one(self) -> None:
        giver = max(self.of_givers, key=lambda one: len(self.of_givers[one]))
        own = self.of_givers[giver]
        self.bytes -= len(own.pop(next(iter(own))))
        self.count -= 1
        if not own:
            del self.of_givers[giver]


class EntriesByKind:
    """Keeps entries as JSON texts, by their numbers, which rise. Each kind has room of its own, so
    that no flood pushes out another. Two threads must not use it at once."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._last_number = 0

    def put(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Keep an entry, with its number, or in place of the one that has its number and time.
        Return the entry with its number."""
        name, giver, given = kind_of(entry), giver_of(entry), entry.get("number")
        kind = self._kinds.setdefault(name, _Kind())
        number = given if isinstance(given, int) else 0
        if number not in kind.of_givers.get(giver, ()):
            number = number if number > self._last_number else self._last_number + 1
            self._last_number = number
        numbered = {**entry, "number": number}
        kind.put(giver, number, json.dumps(numbered, separators=(",", ":")).encode())
        most = MOST.get(name, MOST_OF_OTHERS)
        while kind.count > most or (kind.bytes > MOST_BYTES and kind.count > 1):
            kind.drop_one()
        return numbered

    def _all(self) -> Iterator[dict[int, bytes]]:
        return (own for kind in self._kinds.values() for own in kind.of_givers.values())

    def __len__(self) -> int:
        return sum(kind.count for kind in self._kinds.values())

    def has(self, number: int) -> bool:
        """Whether the entry of this number is still kept."""
        return any(number in own for own in self._all())

    def all(self) -> list[bytes]:
        """Return all entries, the oldest first."""
        entries = [entry for own in self._all() for entry in own.items()]
        return [text for _, text in sorted(entries)]

    def page(self, limit: int, before: int) -> list[bytes]:
        """Return the last ``limit`` entries whose numbers are below ``before``, the oldest first;
        fewer where they are long, but one if there is one."""
        found: list[tuple[int, bytes]] = []
        for own in self._all():
            entries = list(own.items())
            end = bisect_left(entries, before, key=lambda entry: entry[0])
            found += entries[max(0, end - limit) : end]
        taken: list[bytes] = []
        size = 0
        for _, text in sorted(found, reverse=True)[:limit]:
            size += len(text)
            if taken and size > MOST_PAGE_BYTES:
                break
            taken.append(text)
        return taken[::-1]
