"""A reply of a server has a bound and a deadline for the whole of it.

Redis' protocol lets a server announce four gigabytes, and a timeout of the socket begins anew with
each byte. Whoever answers at a server's address may be anybody.
"""

from __future__ import annotations

import time
from typing import Any


class ReplyTooLargeError(Exception):
    """More came than any reply to such a question has.

    It is no OSError, of which redis-py would make an error of its own.
    """


class BoundedReplies:
    """Limits what comes over one connection of redis-py, whichever socket that has now.

    ``begin`` is called with each question, and counts for all that is read until the next.
    """

    def __init__(self, connection: Any) -> None:
        self._left_bytes = 0
        self._most_bytes = 0
        self._until = 0.0
        connect = connection._connect
        # Its sockets are made there, whatever their kind.
        connection._connect = lambda: _BoundedSocket(connect(), self)

    def begin(self, most_bytes: int, seconds: float) -> None:
        """From now on at most so many bytes, within this time."""
        self._left_bytes = self._most_bytes = most_bytes
        self._until = time.monotonic() + seconds

    def left_seconds(self) -> float:
        """Raises TimeoutError: none is left."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the whole reply did not come in time")
        return left

    def count(self, size_bytes: int) -> None:
        """Raises ReplyTooLargeError."""
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            raise ReplyTooLargeError(f"its reply has more than {self._most_bytes} bytes")


class _BoundedSocket:
    """A socket but for ``recv`` and ``recv_into``."""

    def __init__(self, socket: Any, replies: BoundedReplies) -> None:
        self._socket = socket
        self._replies = replies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv(self, *how: Any) -> bytes:
        """As of a socket; raises TimeoutError, ReplyTooLargeError."""
        data: bytes = self._wait_and(self._socket.recv, how)
        self._replies.count(len(data))
        return data

    def recv_into(self, *how: Any) -> int:
        """As of a socket; raises TimeoutError, ReplyTooLargeError."""
        size_bytes: int = self._wait_and(self._socket.recv_into, how)
        self._replies.count(size_bytes)
        return size_bytes

    def _wait_and(self, receive: Any, how: tuple[Any, ...]) -> Any:
        left_seconds = self._replies.left_seconds()
        limit_seconds = self._socket.gettimeout()
        if limit_seconds is not None and limit_seconds <= left_seconds:
            return receive(*how)
        self._socket.settimeout(left_seconds)
        try:
            return receive(*how)
        finally:
            self._socket.settimeout(limit_seconds)
