"""Lets a stage wait. Waits end at once when the command is told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

LOOK_SECONDS = 0.02
_stop = threading.Event()


class StoppedError(Exception):
    """Nothing more is played: tear down what there is."""


def stop_waiting() -> None:
    """From now on every wait raises, in all threads: Ctrl-C reaches the main thread alone."""
    _stop.set()


def wait_again() -> None:
    """Allow waiting again: a new table begins."""
    _stop.clear()


def pause(seconds: float) -> None:
    """Let time go by. Raises StoppedError."""
    if _stop.wait(seconds):
        raise StoppedError("told to stop")


def wait_for(condition: Callable[[], object], limit_seconds: float) -> bool:
    """Wait for a condition; return whether it came true. Raises StoppedError."""
    until = time.monotonic() + limit_seconds
    while not condition():
        if time.monotonic() > until:
            return False
        pause(LOOK_SECONDS)
    return True
