"""Room for the history's entries: of its own for each kind, so that no flood pushes out another."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

# Entries that are kept of each kind, and of each order that had an effect.
MOST = {"plan": 4000, "check": 2000}
MOST_OF_OTHERS = 500
# Plans of many servers are long.
MOST_BYTES = 16 << 20
# Of a page, unless one entry alone is longer.
MOST_PAGE_BYTES = 1 << 20
WITHOUT_EFFECT = "order without effect"


def room_of(entry: Mapping[str, Any]) -> str:
    """The name of the room that an entry is kept in."""
    if entry.get("had_effect") is False:
        return WITHOUT_EFFECT
    what = (entry.get("order") or {}).get("what")
    # Whoever edits the file makes no more rooms than there are orders.
    known = ("apply", "apply_from_now_on", "recommend", "pause", "resume", "rollback")
    return f"order to {what}" if what in known else str(entry["kind"])


class Rooms:
    """Entries as JSON texts, by their numbers, which rise. Not for two threads at once."""

    def __init__(self) -> None:
        self._rooms: dict[str, dict[int, bytes]] = {}
        self._bytes: dict[str, int] = {}
        self._last_number = 0

    def put(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Keep an entry, with its number, or in place of the one that has its number and time; the
        entry with its number."""
        name, given = room_of(entry), entry.get("number")
        room = self._rooms.setdefault(name, {})
        number = given if isinstance(given, int) else 0
        if number not in room:
            number = number if number > self._last_number else self._last_number + 1
            self._last_number = number
        numbered = {**entry, "number": number}
        text = json.dumps(numbered, separators=(",", ":")).encode()
        self._bytes[name] = self._bytes.get(name, 0) + len(text) - len(room.get(number, b""))
        room[number] = text
        most = MOST.get(name, MOST_OF_OTHERS)
        while len(room) > most or (self._bytes[name] > MOST_BYTES and len(room) > 1):
            self._bytes[name] -= len(room.pop(next(iter(room))))
        return numbered

    def __len__(self) -> int:
        return sum(map(len, self._rooms.values()))

    def has(self, number: int) -> bool:
        """Whether the entry of this number is still kept."""
        return any(number in room for room in self._rooms.values())

    def all(self) -> list[bytes]:
        """The oldest first."""
        entries = [entry for room in self._rooms.values() for entry in room.items()]
        return [text for _, text in sorted(entries)]

    def page(self, limit: int, before: int) -> list[bytes]:
        """The last ``limit`` entries whose numbers are below ``before``, the oldest first; fewer
        where they are long, but one if there is one."""
        found: list[tuple[int, bytes]] = []
        for room in self._rooms.values():
            entries = list(room.items())
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
