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


def refusal_words(words: str) -> str:
    """Say why ``OBJECT IDLETIME`` was refused, as the end of a sentence that begins with the
    server's name."""
    if words.startswith(("MOVED", "ASK", "CLUSTERDOWN")):
        return "is a node of a cluster, and sends us elsewhere for its keys"
    if words.startswith("NOPERM"):
        return "does not let this user ask OBJECT IDLETIME of all keys: +object|idletime ~*"
    if "unknown command" in words:
        return "has no OBJECT IDLETIME: who hosts it may have switched it off"
    return f"refuses OBJECT IDLETIME: {words[:200]}"
