"""Bounds how often something may be done for somebody, so that a flood hides and holds up
nothing."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

# Whoever asks, by name; the users of a machine are few, and so are the tokens.
_MOST_KNOWN = 1000


class RateLimit:
    """Has a bucket for each who asks: ``burst`` times at once, and once more each ``seconds`` after
    that. Any thread may call."""

    def __init__(
        self, burst: int, seconds: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.burst = burst
        self.seconds = seconds
        self._now = now
        self._lock = threading.Lock()
        self._full_at: dict[str, float] = {}

    def wait_seconds(self, by: str) -> int:
        """Take one from the bucket. If there is none, take nothing and return in how many seconds
        there is one."""
        now = self._now()
        with self._lock:
            full_at = max(now, self._full_at.pop(by, now))
            wait = full_at - now - (self.burst - 1) * self.seconds
            if wait <= 1e-9:
                full_at += self.seconds
            self._full_at[by] = full_at
            while len(self._full_at) > _MOST_KNOWN:
                del self._full_at[next(iter(self._full_at))]
        return max(0, math.ceil(wait - 1e-9))
