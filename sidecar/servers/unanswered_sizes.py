"""Keeps sizes that were sent to a server which did not answer: they may still come into force."""

from __future__ import annotations

import time
from collections.abc import Callable

# A network that was away sends again what it had taken, also of a connection that was given up.
LATE_SECONDS = 120.0


class UnansweredSizes:
    """Keeps sizes that were sent to one server, which did not answer: they may still come into
    force.

    ``now``: seconds, of a clock that does not jump."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sent_at: dict[object, float] = {}

    def add(self, size_bytes: object) -> None:
        """Note that it was sent just now, and nobody said what came of it."""
        now = self._now()
        recent = {size: at for size, at in self._sent_at.items() if now - at < LATE_SECONDS}
        self._sent_at = {**recent, size_bytes: now}

    def has(self, size_bytes: int) -> bool:
        """Whether a server that has this size now may have it from us."""
        sent_at = self._sent_at.get(size_bytes)
        return sent_at is not None and self._now() - sent_at < LATE_SECONDS
