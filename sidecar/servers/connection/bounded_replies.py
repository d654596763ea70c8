"""A reply of a server has bounds and a deadline for the whole of it.

Redis' protocol lets a server announce four gigabytes, and a timeout of the socket begins anew with
each byte. Each part of a list takes some hundred bytes of ours, however small it is. Whoever
answers at a server's address may be anybody.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis
from redis._parsers.resp2 import _RESP2Parser

from sidecar.base.connection_deadlines import ended_after, handshake_ended_after, watch_deadlines

# MEMORY STATS has the most: some for each of many databases.
MOST_PARTS = 1 << 14
# For what TLS has to do before it says that there is nothing to read.
_GRACE_SECONDS = 0.2


class ReplyTooLargeError(Exception):
    """More came than any reply to such a question has.

    It is no OSError, of which redis-py would make an error of its own.
    """


class BoundedParser(_RESP2Parser):
    """Is redis-py's parser with a bound on a reply's parts; an error is a reply by itself only."""

    _depth = _parts = 0

    def _read_response(self, *how: Any, **more: Any) -> Any:
        """Read one part of a reply. Raises ReplyTooLargeError, and ValueError for an error in a
        list."""
        if not self._depth:
            self._parts = 0
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise ReplyTooLargeError(f"its reply has more than {MOST_PARTS} parts")
        self._depth += 1
        try:
            response = super()._read_response(*how, **more)
        finally:
            self._depth -= 1
        if self._depth and isinstance(response, redis.ResponseError):
            raise ValueError("an error in a list")
        return response


class BoundedReplies:
    """Limits what comes over one connection of redis-py, whichever socket that has now.

    ``begin`` is called with each question, and counts for all that is read until the next.
    """

    def __init__(self, connection: Any) -> None:
        self._left_bytes = 0
        self._most_bytes = 0
        self._until = 0.0
        connect, wrap = connection._connect, getattr(connection, "_wrap_socket_with_ssl", None)
        if wrap is not None:
            with suppress(OSError):  # told by the first question that needs it
                watch_deadlines()
            connection._wrap_socket_with_ssl = lambda plain: self._shake_hands(wrap, plain)
        # Its sockets are made there, whatever their kind.
        connection._connect = lambda: _BoundedSocket(connect(), self)

    def begin(self, most_bytes: int, seconds: float) -> None:
        """Allow at most so many bytes from now on, within this time."""
        self._left_bytes = self._most_bytes = most_bytes
        self._until = time.monotonic() + seconds

    def _shake_hands(self, wrap: Callable[[Any], Any], plain: Any) -> Any:
        with handshake_ended_after(self.left_seconds(), plain):
            return wrap(plain)

    def go_on(self, seconds: float) -> None:
        """Give the same question so many seconds from now."""
        self._until = time.monotonic() + seconds

    def left_seconds(self) -> float:
        """Return how many seconds are left. Raises TimeoutError if there are none."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the whole reply did not come in time")
        return left

    def count(self, size_bytes: int) -> None:
        """Count bytes of the reply. Raises ReplyTooLargeError."""
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            raise ReplyTooLargeError(f"its reply has more than {self._most_bytes} bytes")


class _BoundedSocket:
    """Acts as a socket but for ``recv`` and ``recv_into``."""

    def __init__(self, socket: Any, replies: BoundedReplies) -> None:
        self._socket = socket
        self._replies = replies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv(self, *how: Any) -> bytes:
        """Receive as a socket does. Raises TimeoutError, ReplyTooLargeError."""
        data: bytes = self._wait_and(self._socket.recv, how)
        self._replies.count(len(data))
        return data

    def recv_into(self, *how: Any) -> int:
        """Receive as a socket does. Raises TimeoutError, ReplyTooLargeError."""
        size_bytes: int = self._wait_and(self._socket.recv_into, how)
        self._replies.count(size_bytes)
        return size_bytes

    def _wait_and(self, receive: Any, how: tuple[Any, ...]) -> Any:
        left_seconds = self._replies.left_seconds()
        limit_seconds = self._socket.gettimeout()
        if limit_seconds is not None and limit_seconds <= left_seconds:
            return self._received(receive, how, limit_seconds + _GRACE_SECONDS)
        self._socket.settimeout(left_seconds)
        try:
            return self._received(receive, how, left_seconds)
        finally:
            self._socket.settimeout(limit_seconds)

    def _received(self, receive: Any, how: tuple[Any, ...], most_seconds: float) -> Any:
        if not isinstance(self._socket, ssl.SSLSocket):
            return receive(*how)
        with ended_after(most_seconds, self._socket):
            return receive(*how)
