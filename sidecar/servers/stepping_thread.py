"""Makes one step after the other in a thread, and hurries where there is something to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class SteppingThread:
    """Does step after step until ``hurry``.

    Args:
        step: raises what ends the thread; ``check`` raises it again.
        pause_seconds: how long to wait after a step.
        may_wake: asked every ``look_seconds`` in a pause whether to end it.

    Attributes:
        stopping: set by ``hurry``.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        pause_seconds: Callable[[], float],
        may_wake: Callable[[], bool],
        look_seconds: float,
    ) -> None:
        self._step = step
        self._pause_seconds = pause_seconds
        self._may_wake = may_wake
        self._look_seconds = look_seconds
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._failure: Exception | None = None
        self.stopping = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Do not wait before the next step."""
        self._wake.set()

    def hurry(self) -> None:
        """Begin to stop; returns at once."""
        self.stopping.set()
        self._wake.set()

    def join(self, seconds: float) -> bool:
        """Whether it has ended within that time, or had never begun."""
        if self._thread.ident is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raise what ended it, if anything did."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._wake.clear()
                self._step()
                self._wait(self._pause_seconds())
        except Exception as error:  # noqa: BLE001 - passed on: the sidecar must not go on without
            self._failure = error

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._wake.wait(min(left, self._look_seconds)) or self._may_wake():
                return
