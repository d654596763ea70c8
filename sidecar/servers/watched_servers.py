"""The servers as they were last seen."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from sidecar.servers.ownership import claim_ownership
from sidecar.servers.reading_window import ReadingWindow
from sidecar.servers.server_reading import ServerReading
from sidecar.servers.server_watch import ServerWatch
from sidecar.servers.shrink_guard import Sizes


class WatchedServers:
    """What their watches say; any thread may ask."""

    def __init__(self, watches: Mapping[str, ServerWatch]) -> None:
        self._watches, self._lock = watches, threading.RLock()

    def claim(self) -> None:
        """Let no other sidecar control them. Raises NodeLockedError."""
        with self._lock:
            claim_ownership(self._watches)

    def contest(self, sizes_bytes: Sizes) -> None:
        """What these have is to be put back."""
        for name, size_bytes in sizes_bytes.items():
            self._watches[name].contest(size_bytes)

    def windows(self) -> dict[str, ReadingWindow]:
        """What was read since the last call."""
        with self._lock:
            return {name: watch.take_window() for name, watch in self._watches.items()}

    def errors(self) -> dict[str, str]:
        """Why servers do not answer."""
        return {name: w.contact.error for name, w in self._watches.items() if w.contact.error}

    def unknown(self) -> list[str]:
        """Who may be there, and was never read."""
        return [n for n, w in self._watches.items() if not (w.last or w.contact.is_down)]

    def taken(self) -> dict[str, str]:
        """Who is controlled by another sidecar, and by which one."""
        return {n: w.contact.taken_by for n, w in self._watches.items() if w.contact.taken_by}

    def refused(self) -> dict[str, str]:
        """Why the last size that was tried was not taken."""
        known = self._watches.items()
        return {n: w.refusal.reason for n, w in known if w.last and w.refusal.reason}

    def last_seen(self) -> dict[str, ServerReading]:
        """What those last said whose processes are there, as far as is known."""
        return {n: last for n, w in self._watches.items() if (last := w.last_seen) is not None}

    def run_ids(self) -> dict[str, str]:
        """Of the servers' processes."""
        with self._lock:
            return {name: watch.run_id for name, watch in self._watches.items() if watch.run_id}
