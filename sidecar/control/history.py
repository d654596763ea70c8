"""Keeps what was decided, by whom and why, and what came of it: one JSON object a line."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sidecar.base.private_files import make_own_folder
from sidecar.base.regular_file import open_regular
from sidecar.base.time_of_day import time_of_day
from sidecar.control.entries_by_kind import EntriesByKind
from sidecar.control.history_entry import read_entry

log = logging.getLogger(__name__)


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
    number of each kind (see ``EntriesByKind``) and by age. They leave the file at a start, and when
    it has twice as many as are kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        # Entries unwritten since the last failure, and the time of the first one.
        self._unwritten, self._unwritten_since_seconds = 0, 0.0
        self._lines = 0
        self._rooms = EntriesByKind()
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
        """See ``EntriesByKind.page``."""
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
