"""A peer of the samples' endpoint that speaks ZeroMQ's protocol by hand, and may break it."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_READY = b"\x05READY\x0bSocket-Type\0\0\0\x04PUSH"
_MORE, _LONG = 1, 2
FRAME_BYTES = 16_384


def connected(endpoint: str, seconds: float = 5.0) -> socket.socket:
    """A bare connection; with 0 seconds one that is under way. Raises OSError."""
    if endpoint.startswith("tcp://"):
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        made = socket.socket()
        made.settimeout(seconds)
        with suppress(BlockingIOError):
            made.connect((host, int(port)))
        return made
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(seconds)
    made.connect(endpoint.removeprefix("ipc://").replace("@", "\0", 1))
    return made


class ZmtpPeer:
    """A PUSH socket after its handshake. Raises OSError if it is hung up on."""

    def __init__(self, endpoint: str) -> None:
        self._socket = connected(endpoint)
        self._socket.sendall(_GREETING + bytes([4, len(_READY)]) + _READY)

    def send(self, body: bytes, *, more: bool = False) -> None:
        """One frame."""
        flags = _LONG | (_MORE if more else 0)
        self._socket.sendall(bytes([flags]) + len(body).to_bytes(8, "big") + body)

    def is_hung_up(self) -> bool:
        """Whether the other end has closed; waits for nothing."""
        self._socket.setblocking(False)
        try:
            while self._socket.recv(4096):
                pass
        except BlockingIOError:
            return False
        except OSError:
            pass
        else:
            return True
        finally:
            self._socket.settimeout(5.0)
        return True

    def close(self) -> None:
        self._socket.close()


def endless(endpoint: str, seconds: float) -> int:
    """Messages that never end, on one connection after the other; how many bytes were sent."""
    end = time.monotonic() + seconds
    frame, sent = bytes(FRAME_BYTES), 0
    while time.monotonic() < end:
        try:
            peer = ZmtpPeer(endpoint)
            while time.monotonic() < end:
                peer.send(frame, more=True)
                sent += len(frame)
        except OSError:
            time.sleep(0.01)  # as who tries again and again
    return sent
