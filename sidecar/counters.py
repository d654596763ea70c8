"""Counts of what happened, by name; any thread may add to them."""

from __future__ import annotations

import threading
from collections import Counter


class Counters:
    """A ``Counter`` that threads share."""

    def __init__(self) -> None:
        # A signal's handler may count while its own thread does.
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1) -> None:
        with self._lock:
            self._counts[name] += amount

    def __getitem__(self, name: str) -> int:
        with self._lock:
            return self._counts[name]

    def snapshot(self) -> dict[str, int]:
        """A copy, in the order of names."""
        with self._lock:
            return dict(sorted(self._counts.items()))
