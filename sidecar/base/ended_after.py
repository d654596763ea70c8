"""Ends a connection after a time, whatever it is doing."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def ended_after(limit_seconds: float, connection: socket.socket) -> Iterator[None]:
    """End the connection after this time. Its own limit is for each packet; and a call of TLS, its
    handshake too, does not return while there are records without data.

    Raises:
        TimeoutError: it was ended.
    """
    # Wrapping a socket into TLS takes its number from it.
    held = socket.socket(fileno=os.dup(connection.fileno()))
    over = threading.Event()

    def end() -> None:
        over.set()
        with suppress(OSError):  # it has ended by itself
            held.shutdown(socket.SHUT_RDWR)

    limit = threading.Timer(limit_seconds, end)
    limit.daemon = True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()
        held.close()
        if over.is_set():
            raise TimeoutError(f"no answer within {round(limit_seconds, 1):g} s")
