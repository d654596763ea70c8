"""Ends a connection after a time, whatever it is doing; one thread watches all of them."""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class _Watcher:
    """Ends connections whose time is over. Its thread is started once: where a machine has no more
    threads, those that are watched already still end in time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: dict[int, tuple[float, socket.socket]] = {}
        self._number = 0
        self._wakes_at = math.inf
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs. Raises OSError: there are no more threads."""
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise OSError(f"no thread to watch its deadline: {error}") from error
                self._thread = thread

    def add(self, connection: socket.socket, at: float) -> int:
        """End a connection then (monotonic); return the number to take that back by."""
        self.start()
        with self._changed:
            self._number += 1
            self._watched[self._number] = at, connection
            if at < self._wakes_at:
                self._changed.notify()
            return self._number

    def remove(self, number: int) -> bool:
        """Take it back; return whether its time was over."""
        with self._changed:
            return self._watched.pop(number, None) is None

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for number, (at, connection) in list(self._watched.items()):
                    if at <= now:
                        del self._watched[number]
                        with suppress(OSError):  # it has ended by itself
                            # The one of TLS would take the session away from whoever reads it.
                            socket.socket.shutdown(connection, socket.SHUT_RDWR)
                self._wakes_at = min((at for at, _ in self._watched.values()), default=math.inf)
                wait_seconds = self._wakes_at - time.monotonic()
                self._changed.wait(None if wait_seconds == math.inf else max(0.0, wait_seconds))


_watcher = _Watcher()
watch_deadlines = _watcher.start


@contextmanager
def ended_after(limit_seconds: float, connection: socket.socket) -> Iterator[None]:
    """End the connection after this time. Its own limit is for each packet; and a call of TLS does
    not return while there are records without data.

    Raises:
        TimeoutError: it was ended.
        OSError: there is no thread that could end it.
    """
    number = _watcher.add(connection, time.monotonic() + limit_seconds)
    try:
        yield
    finally:
        if _watcher.remove(number):
            raise TimeoutError(f"no answer within {round(limit_seconds, 1):g} s")


@contextmanager
def handshake_ended_after(limit_seconds: float, plain: socket.socket) -> Iterator[None]:
    """End a connection that is wrapped into TLS meanwhile, which takes its number from it. Raises
    as ``ended_after``."""
    held = socket.socket(fileno=os.dup(plain.fileno()))
    try:
        with ended_after(limit_seconds, held):
            yield
    finally:
        held.close()
