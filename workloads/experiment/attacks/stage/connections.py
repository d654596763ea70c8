"""Slow connections, and a sidecar that must do its work among a thousand of them.

A peer of the samples' endpoint that speaks ZeroMQ's protocol by hand, and may break it.
"""

from __future__ import annotations

import resource
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sidecar.control.order import Order
from workloads.experiment.attacks.stage.attack import CannotPlayError, must
from workloads.experiment.attacks.stage.target import Target

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
        """Send one frame; ``more`` says that others follow."""
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


SLOW = 1050
# Of one listener, and what else is opened meanwhile.
MOST_DESCRIPTORS = 300
HEALTH = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def status_of(answer: bytes) -> bytes:
    """``b""``: it is no answer."""
    return b"".join(answer.split(b" ", 2)[1:2])


@contextmanager
def slow_connections(
    port: int, first: bytes, drip: bytes, count: int = SLOW
) -> Iterator[SlowConnections]:
    """Hold so many for as long as they are let, and make anew what is hung up on.

    Raises:
        CannotPlayError: we may not open so many.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 200:
        if hard < count + 200:
            raise CannotPlayError(f"{count} connections cannot be opened here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 200, hard))
    with SlowConnections(port, first, drip, count) as held:
        yield held


class SlowConnections:
    """Opens connections that each say ``first`` at once and ``drip`` at each ``turn``."""

    def __init__(self, port: int, first: bytes, drip: bytes, count: int) -> None:
        self._address = ("127.0.0.1", port)
        self._first, self._drip, self._count = first, drip, count
        self._open: dict[int, socket.socket] = {}

    def __enter__(self) -> SlowConnections:
        self.turn()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._open.values():
            one.close()

    def turn(self) -> None:
        """Send a little, and open others for those that are gone."""
        with selectors.DefaultSelector() as selector:
            for one in self._open.values():
                selector.register(one, selectors.EVENT_READ)
            gone = [key.fd for key, _ in selector.select(0)] if self._open else []
        for number in gone:
            self._open.pop(number).close()
        for one in self._open.values():
            with suppress(OSError):
                one.send(self._drip)
        while len(self._open) < self._count:
            one = socket.socket()
            one.settimeout(2)
            try:
                one.connect(self._address)
                one.send(self._first)
            except OSError:
                one.close()
                return
            self._open[one.fileno()] = one


def _is_healthy(target: Target, slow: SlowConnections) -> bool:
    """Tried again by who waits where no answer comes in time: the machine itself may be slow."""
    slow.turn()  # they stay meanwhile
    health = target.raw(HEALTH)
    must(status_of(health) == b"200", f"health: {health[:80]!r}")
    return True


def besieged(target: Target, port: int, first: bytes, drip: bytes, seconds: float) -> None:
    """Status, health and orders are answered while so many hold connections to this port, servers
    stay in reach, and descriptors few; raises FellError."""
    before = target.descriptors()
    with slow_connections(port, first, drip) as slow:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            slow.turn()
            status = target.status()
            late = status["now_seconds"] - status["loop_at_seconds"]
            must(late < 10, f"the main loop is {late:.0f} s late")
            more = target.descriptors() - before
            must(more < MOST_DESCRIPTORS, f"{more} descriptors more")
            target.until(lambda: _is_healthy(target, slow), "health is not answered")
            target.ask().order(Order("pause", "ann"))
            target.ask().order(Order("resume", "ann"))
            time.sleep(0.5)
        problems = [one for one in target.status()["problems"] if "cannot be read" in one]
        must(not problems, f"servers are out of reach: {problems}")
    must("Traceback" not in target.log_text(), "there is a traceback in the log")
    target.until(lambda: target.descriptors() < before + 20, "descriptors of who is gone stay open")
