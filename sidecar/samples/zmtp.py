"""Reads ZMTP 3, in which ZeroMQ's sockets speak: the receiving half (rfc.zeromq.org/spec/37).

It takes what a PUSH socket sends without encryption, and messages of one frame only. ZeroMQ's own
socket bounds a frame, and not how many of them one message has: who never ends a message takes all
memory. Here no more is kept of a peer than one frame.
"""

from __future__ import annotations

_MECHANISM = b"NULL".ljust(20, b"\0")
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x01" + _MECHANISM + bytes(32)
_MAJOR_VERSION = 3
_MORE, _LONG, _COMMAND = 1, 2, 4
_MOST_CONTEXT_BYTES = 16
# A heartbeat a message is more than a sampler has.
_MOST_COMMANDS = 16


class ZmtpError(ValueError):
    """A peer does not speak as a sampler does; ``reason`` is a short code to count by."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ZmtpReader:
    """Reads what one peer sends, as messages of ``most_bytes`` at most.

    Attributes:
        to_send: what the peer is still to be told.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held = bytearray()
        self._at = 0
        self._is_greeted = self._is_ready = False
        self._commands = 0
        self.to_send = bytearray(GREETING)

    def feed(self, received: bytes) -> None:
        """Take what has come next; first take all messages of what came before."""
        del self._held[: self._at]
        self._at = 0
        self._held += received

    def message(self) -> bytes | None:
        """Return the next message that is there as a whole. Raises ZmtpError."""
        if not self._is_greeted and not self._greeted():
            return None
        while (frame := self._frame()) is not None:
            flags, body = frame
            if flags & _COMMAND:
                self._command(body)
            elif not self._is_ready:
                raise ZmtpError("handshake", "sends a message before its READY")
            else:
                self._commands = 0
                return body
        return None

    def _greeted(self) -> bool:
        held = self._held
        if held and held[0] != GREETING[0]:
            raise ZmtpError("handshake", "does not speak ZMTP")
        if len(held) < len(GREETING):
            return False
        if not held[9] & 1 or held[10] < _MAJOR_VERSION or held[12:32] != _MECHANISM:
            raise ZmtpError("handshake", "speaks an older ZMTP, or wants encryption")
        self._at = len(GREETING)
        self._is_greeted = True
        self.to_send += _command(b"READY", b"\x0bSocket-Type\0\0\0\x04PULL")
        return True

    def _frame(self) -> tuple[int, bytes] | None:
        held, at = self._held, self._at
        if len(held) <= at:
            return None
        flags = held[at]
        if flags & _MORE:
            raise ZmtpError("frames", "sends a message of several frames")
        if flags & ~(_LONG | _COMMAND):
            raise ZmtpError("flags", f"sends a frame with the flags {flags:#x}")
        begin = at + (9 if flags & _LONG else 2)
        if len(held) < begin:
            return None
        size = int.from_bytes(held[at + 1 : begin], "big")
        if size > self._most_bytes:
            raise ZmtpError("too_long", f"sends a message of {size:,} bytes")
        if len(held) < begin + size:
            return None
        self._at = begin + size
        return flags, bytes(memoryview(held)[begin : self._at])

    def _command(self, body: bytes) -> None:
        self._commands += 1
        if self._commands > _MOST_COMMANDS:
            raise ZmtpError("commands", "sends many commands and no message")
        end = 1 + body[0] if body else 0
        name, rest = body[1:end], body[end:]
        if name == b"READY" and not self._is_ready:
            if _properties(rest).get(b"socket-type") != b"PUSH":
                raise ZmtpError("handshake", "is no PUSH socket")
            self._is_ready = True
        elif name == b"PING" and 2 <= len(rest) <= 2 + _MOST_CONTEXT_BYTES:
            self.to_send += _command(b"PONG", rest[2:])
        else:
            raise ZmtpError("commands", f"sends the command {name[:16]!r}")


def _command(name: bytes, rest: bytes) -> bytes:
    body = bytes([len(name)]) + name + rest
    return bytes([_COMMAND, len(body)]) + body


def _properties(rest: bytes) -> dict[bytes, bytes]:
    """Read the properties of a READY, by names in small letters. Raises ZmtpError."""
    found = {}
    at = 0
    while at < len(rest):
        name_end = at + 1 + rest[at]
        begin = name_end + 4
        end = begin + int.from_bytes(rest[name_end:begin], "big")
        if len(rest) < end or begin > len(rest):
            raise ZmtpError("handshake", "sends a READY that is cut short")
        found[rest[at + 1 : name_end].lower()] = rest[begin:end]
        at = end
    return found
