"""Tells whether a server answers, and when it is asked again if it does not."""

from __future__ import annotations

import time

from sidecar.servers.back_off import BackOff
from sidecar.servers.connection.server_errors import (
    NobodyListensError,
    ServerDownError,
    ServerSilentError,
    WrongPasswordError,
)

# A server that is down is asked again soon: a question that is refused costs next to nothing, but
# where a stranger has its port, who listens is looked up each time: a sixth of a core at most. One
# that hangs finds all questions when it goes on; to wait for it costs nothing.
LEAST_RETRY_SECONDS = 0.05
RETRY_RATIO = 0.5
BUSY_RETRY_RATIO, LONGEST_BUSY_SECONDS = 5.0, 0.2
PASSWORD_RETRY_SECONDS = 10.0
# Longer than most restarts take.
GONE_SECONDS = 10.0


class Reachability:
    """Whether a server answers, and when it is asked again if it does not.

    Attributes:
        is_up: it answered when it was last asked.
        error: why it did not; ``None`` if it did.
        is_silent: it did not answer in time, and may still be there.
        is_gone: nobody but strangers has listened for it for a while: what it held is free.
    """

    def __init__(self) -> None:
        self.is_up = True
        self.error: str | None = None
        self.is_silent = False
        self._asked_at = self._retry_at = 0.0
        self._unread = BackOff()
        self._gone_at: float | None = None

    @property
    def is_gone(self) -> bool:
        return self._gone_at is not None and time.monotonic() - self._gone_at >= GONE_SECONDS

    @property
    def is_due(self) -> bool:
        """Whether it is to be asked now."""
        return self.is_up or time.monotonic() >= self._retry_at

    def ask(self) -> None:
        """Note that it is asked now."""
        self._asked_at = time.monotonic()

    def answer(self) -> bool:
        """Note that it answered; return whether it had not before."""
        is_back = not self.is_up
        self._unread.reset()
        self.is_up, self.error, self.is_silent = True, None, False
        self._gone_at = None
        return is_back

    def lose(self, error: Exception) -> bool:
        """Note that it did not answer, or not as it must; return whether it had before."""
        self.error, self.is_silent = str(error), isinstance(error, ServerSilentError)
        now = time.monotonic()
        if not isinstance(error, NobodyListensError):
            self._gone_at = None
        elif self._gone_at is None:
            self._gone_at = now
        took_seconds = now - self._asked_at
        busy_seconds = min(took_seconds, LONGEST_BUSY_SECONDS)
        pause_seconds = max(
            LEAST_RETRY_SECONDS, RETRY_RATIO * took_seconds, BUSY_RETRY_RATIO * busy_seconds
        )
        if not isinstance(error, ServerDownError):
            # It answers, so it is asked less and less often.
            pause_seconds = self._unread.fail()
        if isinstance(error, WrongPasswordError):  # which is read again from its file each time
            pause_seconds = min(pause_seconds, PASSWORD_RETRY_SECONDS)
        self._retry_at = now + pause_seconds
        was_up, self.is_up = self.is_up, False
        return was_up
