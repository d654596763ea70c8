"""One server is asked in a thread of its own."""

from __future__ import annotations

import time
from concurrent.futures import Future
from concurrent.futures import wait as wait_for

from sidecar.base.worker import NoThreadError, Worker
from sidecar.servers.connection.redis_server import TIMEOUT_SECONDS, RedisServer
from sidecar.servers.connection.server_errors import ServerSilentError
from sidecar.servers.connection.server_reading import ServerReading

# Answers that come later are taken when they come; meanwhile the others go on.
PATIENCE_SECONDS = 0.25
# A server that hangs is not asked on a new connection each second: it would find them all when it
# goes on. Its end, and its answer at last, are noticed at once.
ANSWER_SECONDS = 5.0


class BackgroundReading:
    """Asks what one server says, one question at a time.

    Attributes:
        asked_at: when it last was, of the monotonic clock.
        own_seconds: what the last answer took of our processor, without connecting.
    """

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._worker = Worker(f"reads {server.name}")
        self._answer: Future[ServerReading] | None = None
        self.asked_at = self.own_seconds = 0.0
        self._is_late = False

    @property
    def is_pending(self) -> bool:
        """Whether it was asked, and its answer was not taken: nothing else may be asked of it."""
        return self._answer is not None

    def begin(self) -> Future[ServerReading]:
        """Ask for a reading; not allowed while it ``is_pending``."""
        assert self._answer is None, "one question at a time"
        self.asked_at, self._is_late = time.monotonic(), False
        self.own_seconds = 0.0
        self._answer = self._worker.submit(self._read)
        return self._answer

    def _read(self) -> ServerReading:
        began = self._server.own_seconds
        try:
            reading = self._server.read(ANSWER_SECONDS)
            self._server.announce(reading.run_id)
            return reading
        finally:
            self.own_seconds = self._server.own_seconds - began

    def wait(self, seconds: float) -> None:
        """Wait until there is something to take, at most that long."""
        if self._answer is not None:
            wait_for([self._answer], seconds)

    def take(self) -> ServerReading | None:
        """Return the answer; ``None`` if there is none yet, or nothing was asked.

        Raises as ``RedisServer``, and once ``ServerSilentError`` for an answer that is late.
        """
        if self._answer is None:
            return None
        if self._answer.done():
            answer, self._answer = self._answer, None
            try:
                return answer.result()
            except NoThreadError as error:
                raise ServerSilentError(f"INFO: it was not asked: {error}") from error
        if not self._is_late and time.monotonic() - self.asked_at >= TIMEOUT_SECONDS:
            self._is_late = True
            raise ServerSilentError(f"INFO: no answer within {TIMEOUT_SECONDS:g} s")
        return None

    def close(self) -> None:
        """Ask nothing more; returns at once."""
        self._worker.close()
