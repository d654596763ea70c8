"""Makes growing pauses between attempts at what a server refuses."""

from __future__ import annotations

import time

FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 300.0


class BackOff:
    """Makes pauses of ``first_seconds``, twice that, and so on, at most ``last_seconds``, until it
    is ``reset``; those of this module where none are said."""

    def __init__(
        self, first_seconds: float | None = None, last_seconds: float | None = None
    ) -> None:
        self._first_seconds = first_seconds or FIRST_PAUSE_SECONDS
        self._last_seconds = last_seconds or LAST_PAUSE_SECONDS
        self._pause_seconds = 0.0
        self._until = 0.0

    def fail(self) -> float:
        """Begin the next pause and return its length in seconds."""
        longer_seconds = 2 * self._pause_seconds or self._first_seconds
        self._pause_seconds = min(longer_seconds, self._last_seconds)
        self._until = time.monotonic() + self._pause_seconds
        return self._pause_seconds

    @property
    def is_over(self) -> bool:
        """Whether there may be another attempt."""
        return time.monotonic() >= self._until

    def reset(self) -> None:
        """Take note of success: the next failure is a first one again."""
        self._pause_seconds = self._until = 0.0
