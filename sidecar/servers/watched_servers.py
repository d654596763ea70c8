"""Has the servers as they were last seen."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from sidecar.servers.connection.reading_window import ReadingWindow
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.server_watch import ServerWatch
from sidecar.servers.sizes.shrink_guard import Sizes
from sidecar.state.node_lock import NodeLockedError


def claim_ownership(watches: Mapping[str, ServerWatch]) -> None:
    """Look whether another sidecar controls any of the servers; changes nothing on them. They are
    asked side by side, as some may hang, and then claimed in the file's order. If two say that they
    are the same process, the first one is ours, and the other one is left alone.

    One that is taken is left alone, and looked at again. Where all are, there is nothing to do.

    Raises:
        NodeLockedError: another sidecar controls all servers.
    """
    with ThreadPoolExecutor(len(watches)) as pool:
        answers = {name: pool.submit(watch.contact.meet) for name, watch in watches.items()}
    taken = {
        name: watches[name].contact.claim(run_id) if (run_id := answer.result()) else None
        for name, answer in answers.items()
    }
    if all(taken.values()):
        raise NodeLockedError("; ".join(f"server {name}: {who}" for name, who in taken.items()))


class WatchedServers:
    """Tells what their watches say; any thread may ask."""

    def __init__(self, watches: Mapping[str, ServerWatch]) -> None:
        self._watches, self._lock = watches, threading.RLock()

    def claim(self) -> None:
        """Let no other sidecar control them. Raises NodeLockedError."""
        with self._lock:
            claim_ownership(self._watches)

    def contest(self, sizes_bytes: Sizes) -> None:
        """Have what these have put back."""
        for name, size_bytes in sizes_bytes.items():
            self._watches[name].contest(size_bytes)

    def windows(self) -> dict[str, ReadingWindow]:
        """Return what was read since the last call."""
        with self._lock:
            return {name: watch.take_window() for name, watch in self._watches.items()}

    def errors(self) -> dict[str, str]:
        """Say why servers do not answer."""
        return {name: w.contact.error for name, w in self._watches.items() if w.contact.error}

    def unknown(self) -> list[str]:
        """Return who may be there, and was never read."""
        return [n for n, w in self._watches.items() if not (w.last or w.contact.is_down)]

    def taken(self) -> dict[str, str]:
        """Return who is controlled by another sidecar, and by which one."""
        return {n: w.contact.taken_by for n, w in self._watches.items() if w.contact.taken_by}

    def refused(self) -> dict[str, str]:
        """Say why the last size that was tried was not taken."""
        known = self._watches.items()
        return {n: w.refusal.reason for n, w in known if w.last and w.refusal.reason}

    def last_seen(self) -> dict[str, ServerReading]:
        """Return what those last said whose processes are there, as far as is known."""
        return {n: last for n, w in self._watches.items() if (last := w.last_seen) is not None}

    def run_ids(self) -> dict[str, str]:
        """Return the run ids of the servers' processes."""
        with self._lock:
            return {name: watch.run_id for name, watch in self._watches.items() if watch.run_id}
