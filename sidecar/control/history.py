"""What was decided, by whom and why, and what came of it: one JSON object a line."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from sidecar.control.history_entry import read_entry

log = logging.getLogger(__name__)

MOST_ENTRIES = 10_000
MOST_AGE_SECONDS = 400 * 86_400.0
# A line that is longer was not written here.
MOST_LINE_BYTES = 1 << 20


def history_path(state_file: Path) -> Path:
    """Where the history of the sidecar with this state lies."""
    return state_file.with_name(f"{state_file.name}.history")


def read_history(path: Path, limit: int = MOST_ENTRIES) -> list[dict[str, Any]]:
    """The last entries, the newest last; none if there is no file. Half a line, as a crash leaves
    it, is left out, and so is what somebody made of it that cannot be (see ``read_entry``).

    Raises:
        OSError: it is there and cannot be read.
    """
    entries: deque[dict[str, Any]] = deque(maxlen=limit)
    try:
        with path.open("rb") as file:
            while line := file.readline(MOST_LINE_BYTES):
                entry = read_entry(line)
                if entry is not None:
                    entries.append(entry)
    except FileNotFoundError:
        return []
    return list(entries)


class History:
    """Entries by any thread; in memory only where there is no file. Old ones are dropped, by number
    and by age: from the file at a start, and when it has twice as many as are kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._failed = False
        self._lines = 0
        self._entries: deque[dict[str, Any]] = deque(maxlen=MOST_ENTRIES)
        if path is None or not path.exists():
            return
        try:
            self._entries.extend(read_history(path))
            self._prune(path)
        except OSError as error:
            log.warning("history %s cannot be used: %s", path, error.strerror)

    def add(self, kind: str, words: str, *, by: str = "spreds", **details: Any) -> None:
        """Note that something was decided, with details that JSON can hold."""
        entry = {"at_seconds": time.time(), "kind": kind, "by": by, "words": words, **details}
        with self._lock:
            self._entries.append(entry)
            if self._path is not None:
                self._append(self._path, entry)

    def tail(self, limit: int) -> list[dict[str, Any]]:
        """The last entries, the newest last."""
        with self._lock:
            return list(self._entries)[-limit:] if limit > 0 else []

    def last(self, kind: str) -> dict[str, Any] | None:
        """The last entry of a kind, if there is one."""
        with self._lock:
            return next((e for e in reversed(self._entries) if e["kind"] == kind), None)

    def _append(self, path: Path, entry: dict[str, Any]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                os.fchmod(file.fileno(), 0o600)  # also of one that an older version made
                file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
            self._lines += 1
            if self._lines >= 2 * MOST_ENTRIES:
                self._prune(path)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("history %s cannot be written: %s", path, error.strerror)
            self._failed = True

    def _prune(self, path: Path) -> None:
        oldest = time.time() - MOST_AGE_SECONDS
        kept = [entry for entry in self._entries if entry["at_seconds"] >= oldest]
        with path.open("rb") as file:
            self._lines = sum(1 for _ in file)
        if self._lines == len(kept):
            return
        self._entries = deque(kept, MOST_ENTRIES)
        text = "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in kept)
        # Imported here: the command that only reads does without.
        from sidecar.storage.store import write_whole

        write_whole(path, text.encode())
        self._lines = len(kept)
