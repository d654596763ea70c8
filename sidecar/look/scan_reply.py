"""Reads the answer to ``SCAN`` as it comes: names of keys may be of any length, and whoever answers
may be anybody."""

from __future__ import annotations

import re
from collections.abc import Callable

import redis

# Keys of longer names, of which a client could make very many, are not followed.
MOST_NAME_BYTES = 512
# Of an answer; longer names are passed over, and not kept.
MOST_BYTES = 64 << 20
# One answer has at most so many. Asked for 200 keys, a server gives those of a few table places.
_MOST_NAMES = 10_000
_PART_BYTES = 65536
_MOST_LINE_BYTES = 512
_LENGTH = re.compile(rb"[$*][0-9]{1,10}")
_CURSOR = re.compile(rb"[0-9]{1,20}")
_CURSORS = 1 << 64


def read_scan(receive: Callable[[int], bytes]) -> tuple[int, list[bytes]] | Exception:
    """Return the next cursor, and names of keys but for the very long ones; or an error.

    Raises:
        ValueError: it is no such answer.
        redis.ConnectionError: the server hung up.
    """
    reply = _Reply(receive)
    line = reply.line()
    if line[:1] == b"-":
        return redis.ResponseError(line[1:].decode("utf-8", "replace"))
    if line != b"*2":
        raise ValueError("it is no pair")
    cursor = reply.text() or b""
    if not _CURSOR.fullmatch(cursor) or int(cursor) >= _CURSORS:
        raise ValueError("it has no cursor")
    count = reply.length(b"*")
    if count > _MOST_NAMES:
        raise ValueError(f"it has {count} keys")
    names = [reply.text() for _ in range(count)]
    return int(cursor), [name for name in names if name is not None]


class _Reply:
    """Reads parts of what ``receive`` gives."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        self._receive = receive
        self._bytes, self._at = b"", 0

    def _more(self) -> None:
        if not (part := self._receive(_PART_BYTES)):
            raise redis.ConnectionError("the server hung up")
        self._bytes, self._at = self._bytes[self._at :] + part, 0

    def line(self) -> bytes:
        while (end := self._bytes.find(b"\r\n", self._at)) < 0:
            if len(self._bytes) - self._at > _MOST_LINE_BYTES:
                raise ValueError("it has a line without an end")
            self._more()
        found, self._at = self._bytes[self._at : end], end + 2
        return found

    def length(self, kind: bytes) -> int:
        line = self.line()
        if line[:1] != kind or not _LENGTH.fullmatch(line):
            raise ValueError("it is no list of names")
        return int(line[1:])

    def text(self) -> bytes | None:
        """Read a text; ``None``: it is longer than a name that is followed."""
        length = self.length(b"$")
        left = length + 2
        if length > MOST_NAME_BYTES:
            while len(self._bytes) - self._at < left:
                left -= len(self._bytes) - self._at
                self._bytes, self._at = b"", 0
                self._more()
            self._at += left
            return None
        while len(self._bytes) - self._at < left:
            self._more()
        start, self._at = self._at, self._at + left
        if self._bytes[self._at - 2 : self._at] != b"\r\n":
            raise ValueError("it has a name without an end")
        return self._bytes[start : self._at - 2]
