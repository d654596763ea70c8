"""Keeps what was decided, by whom and why, and what came of it: one JSON object a line."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sidecar.base.private_files import make_own_folder
from sidecar.base.regular_file import open_regular
from sidecar.base.time_of_day import time_of_day
from sidecar.control.history_entry import read_entry

log = logging.getLogger(__name__)


# Entries that are kept of each kind, and of each order that had an effect.
MOST = {"plan": 4000, "check": 2000}
MOST_OF_OTHERS = 500
# Plans of many servers are long.
MOST_BYTES = 16 << 20
# A page has at most so many, unless a single entry is longer.
MOST_PAGE_BYTES = 1 << 20
WITHOUT_EFFECT = "order without effect"


def room_of(entry: Mapping[str, Any]) -> str:
    """Return the name of the room that an entry is kept in."""
    if entry.get("had_effect") is False:
        return WITHOUT_EFFECT
    what = (entry.get("order") or {}).get("what")
    # An edited file makes no more rooms than there are orders.
    known = ("apply", "apply_from_now_on", "recommend", "pause", "resume", "rollback")
    return f"order to {what}" if what in known else str(entry["kind"])


def giver_of(entry: Mapping[str, Any]) -> str:
    """Return who gave the order of an entry, as the system or the token says. The name that he gave
    himself stands before it and is left out. So are the address and the number of a user without a
    name, of which he may have many. Sizes changed for the budget's sake have their reason, which
    names the servers whose clients may have brought it about. What a server did has the server, and
    so has a size that somebody set by hand there."""
    if entry["kind"] == "budget":
        return str(entry["words"]).partition(":")[0]
    if entry["kind"] in ("server", "hand"):
        return str(entry.get("server"))
    giver = str(entry.get("by", "")).rpartition(", as ")[2].partition(" at ")[0]
    return "users without a name" if giver.startswith("uid ") else giver


class _Room:
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


class Rooms:
    """Keeps entries as JSON texts, by their numbers, which rise. Each kind has room of its own, so
    that no flood pushes out another. Two threads must not use it at once."""

    def __init__(self) -> None:
        self._rooms: dict[str, _Room] = {}
        self._last_number = 0

    def put(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Keep an entry, with its number, or in place of the one that has its number and time.
        Return the entry with its number."""
        name, giver, given = room_of(entry), giver_of(entry), entry.get("number")
        room = self._rooms.setdefault(name, _Room())
        number = given if isinstance(given, int) else 0
        if number not in room.of_givers.get(giver, ()):
            number = number if number > self._last_number else self._last_number + 1
            self._last_number = number
        numbered = {**entry, "number": number}
        room.put(giver, number, json.dumps(numbered, separators=(",", ":")).encode())
        most = MOST.get(name, MOST_OF_OTHERS)
        while room.count > most or (room.bytes > MOST_BYTES and room.count > 1):
            room.drop_one()
        return numbered

    def _all(self) -> Iterator[dict[int, bytes]]:
        return (own for room in self._rooms.values() for own in room.of_givers.values())

    def __len__(self) -> int:
        return sum(room.count for room in self._rooms.values())

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


# This is more than all rooms have, with lines that repeat one.
MOST_READ = 50_000
# A shorter file is not worth to be written anew.
LEAST_PRUNED = 500
# After this time an order that changes nothing is told as another one.
REPEAT_SECONDS = 300.0
_MOST_REPEATED = 100
MOST_AGE_SECONDS = 400 * 86_400.0
# A line that is longer was not written here.
MOST_LINE_BYTES = 1 << 20


def history_path(state_file: Path) -> Path:
    """Return where the history of the sidecar with this state lies."""
    return state_file.with_name(f"{state_file.name}.history")


def read_history(path: Path, limit: int = MOST_READ) -> list[dict[str, Any]]:
    """Return the last entries, the newest last; none if there is no file. Half a line, as a crash
    leaves it, is left out, and so is what somebody made of it that cannot be (see ``read_entry``).
    A line stands for an earlier one with its number, which it repeats with a higher count.

    Raises:
        OSError: it is there and cannot be read.
    """
    entries: dict[object, dict[str, Any]] = {}
    try:
        with open_regular(path) as file:
            while line := file.readline(MOST_LINE_BYTES):
                entry = read_entry(line)
                if entry is None:
                    continue
                has_number = "number" in entry
                key = (entry["number"], entry["at_seconds"]) if has_number else object()
                entries[key] = entry
                if len(entries) > limit:
                    del entries[next(iter(entries))]
    except FileNotFoundError:
        return []
    return list(entries.values())


class History:
    """Keeps entries by any thread, in memory only where there is no file. Old ones are dropped, by
    number of each kind (see ``Rooms``) and by age. They leave the file at a start, and when it has
    twice as many as are kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        # Entries unwritten since the last failure, and the time of the first one.
        self._unwritten, self._unwritten_since_seconds = 0, 0.0
        self._lines = 0
        self._rooms = Rooms()
        # Orders without effect, with their words, are kept to count them when they come again.
        self._repeated: dict[str, dict[str, Any]] = {}
        if path is None or not path.exists():
            return
        try:
            oldest = time.time() - MOST_AGE_SECONDS
            for entry in read_history(path):
                if entry["at_seconds"] >= oldest:
                    self._rooms.put(entry)
            self._prune(path)
        except OSError as error:
            log.warning("history %s cannot be used: %s", path, error.strerror)

    def add(self, kind: str, words: str, *, by: str = "spreds", **details: Any) -> dict[str, Any]:
        """Note that something was decided, with details that JSON can hold; the entry."""
        entry = {"at_seconds": time.time(), "kind": kind, "by": by, "words": words, **details}
        return self._add(entry)

    def amend(self, entry: dict[str, Any], words: str, **details: Any) -> dict[str, Any]:
        """Change an entry of which more is known by now; return it as it is then."""
        return self._add({**entry, "words": words, **details})

    def add_without_effect(self, words: str, *, by: str, order: dict[str, Any]) -> None:
        """Note an order that changed nothing: again and again within some minutes, it is counted
        in one entry."""
        now = time.time()
        key = json.dumps([words, order])
        last = self._repeated.pop(key, None)
        if last is not None and self._is_recent(last, now):
            entry = {**last, "times": last.get("times", 1) + 1, "last_at_seconds": now}
        else:
            entry = {"at_seconds": now, "kind": "order", "by": by, "words": words}
            entry |= {"order": order, "had_effect": False}
        self._repeated[key] = self._add(entry)
        while len(self._repeated) > _MOST_REPEATED:
            del self._repeated[next(iter(self._repeated))]

    def write_again(self) -> None:
        """Try what could not be written."""
        with self._lock:
            if self._path is not None and self._unwritten:
                with suppress(OSError):  # it was told when it began
                    self._write_later(self._path)

    def page(self, limit: int, before: int) -> list[bytes]:
        """See ``Rooms.page``."""
        with self._lock:
            return self._rooms.page(limit, before)

    def tail(self, limit: int) -> list[dict[str, Any]]:
        """Return the last entries, the newest last."""
        with self._lock:
            texts = self._rooms.all()
        return [json.loads(text) for text in texts[-limit:]] if limit > 0 else []

    def _is_recent(self, entry: dict[str, Any], now: float) -> bool:
        return now - entry["at_seconds"] < REPEAT_SECONDS and self._rooms.has(entry["number"])

    def _add(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Add an entry; return it with its number."""
        with self._lock:
            entry = self._rooms.put(entry)
            if self._path is not None:
                self._append(self._path, entry)
        return entry

    def _append(self, path: Path, entry: dict[str, Any]) -> None:
        try:
            make_own_folder(path.parent)
            if self._unwritten:
                self._write_later(path)
                return
            with path.open("ab") as file:
                os.fchmod(file.fileno(), 0o600)  # also of one that an older version made
                file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
            self._lines += 1
            if self._lines >= 2 * max(len(self._rooms), LEAST_PRUNED):
                self._prune(path)
        except OSError as error:
            if not self._unwritten:
                log.warning("history %s cannot be written: %s", path, error.strerror or error)
                self._unwritten_since_seconds = entry["at_seconds"]
            self._unwritten += 1

    def _write_later(self, path: Path) -> None:
        """Write all that is kept, as the file may end with half a line, and that there was a gap.
        Raises OSError."""
        self._write_kept(path)
        since, now = self._unwritten_since_seconds, time.time()
        words = (
            f"{self._unwritten} entries could not be written from {time_of_day(since)} to "
            f"{time_of_day(now)}; those still in memory were written now"
        )
        self._unwritten = 0
        log.info("history %s: %s", path, words)
        gap = {"at_seconds": now, "kind": "gap", "by": "spreds", "words": words}
        self._append(path, self._rooms.put(gap))

    def _prune(self, path: Path) -> None:
        with open_regular(path) as file:
            self._lines = sum(1 for _ in file)
        if self._lines == len(self._rooms):
            return
        self._write_kept(path)

    def _write_kept(self, path: Path) -> None:
        # Imported here: the command that only reads does without.
        from sidecar.storage.store import write_whole

        write_whole(path, b"".join(text + b"\n" for text in self._rooms.all()))
        self._lines = len(self._rooms)


def sizes_since(had_bytes: Mapping[str, int], wanted_bytes: Mapping[str, int]) -> dict[str, Any]:
    """Return an entry's sizes, by server, if others are wanted now than before."""
    if wanted_bytes == had_bytes:
        return {}
    return {"sizes_before_bytes": had_bytes, "sizes_bytes": wanted_bytes}
