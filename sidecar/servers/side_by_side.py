"""All servers are asked at the same time: one that hangs holds up nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future, as_completed
from contextlib import AbstractContextManager

from sidecar.servers.connection.background_reading import PATIENCE_SECONDS
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.server_watch import ServerWatch

_LOOK_SECONDS = 0.02


def answers(watches: Collection[ServerWatch]) -> Iterator[ServerWatch]:
    """Ask all of them; yield those that answer, as they do, or have at last."""
    asked: dict[Future[ServerReading], ServerWatch] = {}
    late = []
    for watch in watches:
        answer = watch.contact.ask()
        if answer is None:
            late.append(watch)
        else:
            asked[answer] = watch
    for watch in late:
        if watch.take() is not None:
            yield watch
    try:
        for answer in as_completed(asked, PATIENCE_SECONDS):
            if asked[answer].take() is not None:
                yield asked[answer]
    except TimeoutError:
        pass  # what comes later is taken later


def ask_all(
    watches: Collection[ServerWatch], lock: AbstractContextManager[object], stop: threading.Event
) -> float:
    """Ask until each has answered, or has not in time, or ``stop``; ``lock`` is held only to ask.

    Returns:
        When it began, of the monotonic clock.
    """
    since = time.monotonic()
    while not stop.is_set():
        with lock:
            for _ in answers(watches):
                pass
            if not any(watch.contact.awaits(since) for watch in watches):
                break
        stop.wait(_LOOK_SECONDS)
    return since


def one_comes_back(watches: Collection[ServerWatch], lock: AbstractContextManager[object]) -> bool:
    """Whether any is, just now, a new process, or answers at last."""
    with lock:
        return any(watch.comes_back() for watch in watches)
