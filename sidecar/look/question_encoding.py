"""Makes questions as they are sent, and reads the short answers, for thousands at a time."""

from __future__ import annotations

import re

import redis

_NUMBER = re.compile(rb":-?[0-9]{1,19}")  # int() takes thousands of digits, and keeps them


def number_in(line: bytes) -> int | Exception | None:
    """Read an answer: a number, nothing, or an error. Raises ValueError: it is something else."""
    if _NUMBER.fullmatch(line):
        return int(line[1:])
    if line[:1] == b"-":
        return redis.ResponseError(line[1:].decode("utf-8", "replace"))
    if line == b"$-1":
        return None
    raise ValueError("it is no number")


def packed(*words: str | bytes) -> bytes:
    """Return a command as it is sent."""
    parts = [word if isinstance(word, bytes) else word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)
