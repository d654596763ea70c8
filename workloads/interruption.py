"""Ctrl-C that never arrives between starting a process and noting that it must be stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_received: list[int] = []
_held: list[bool] = []


def unwind_when_interrupted() -> list[int]:
    """From now on, the first of SIGINT, SIGTERM and SIGHUP raises ``KeyboardInterrupt``.

    Later ones are ignored, so that an impatient second Ctrl-C does not cut the cleaning up short.
    What was ignored from the start stays so: ``nohup`` means it. Returns a list that will hold the
    signal's number.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    return _received


def _interrupt(number: int, _frame: object) -> None:
    if not _received:
        _received.append(number)
        if not _held:
            raise KeyboardInterrupt


@contextmanager
def uninterrupted() -> Iterator[None]:
    """What is done in here is finished first; short things.

    Signals reach the main thread alone: in others there is nothing to hold back.

    Raises:
        KeyboardInterrupt: at its end, if a signal came meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = len(_received)
    _held.append(True)
    try:
        yield
    finally:
        _held.pop()
    if len(_received) > before:
        raise KeyboardInterrupt
