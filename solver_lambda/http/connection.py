"""Holds one connection of a client, as the server's loop has it. Only that loop touches it."""

from __future__ import annotations

import resource
import socket
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from solver_lambda.http.incoming import Incoming
from solver_lambda.http.message import Answer, Peer
from solver_lambda.http.peer import peer_credentials

_PIECE_BYTES = 1 << 16
# What a program may need of its own while clients take all that they get.
_KEPT_DESCRIPTORS = 24


class Phase(Enum):
    """Says what a connection does. The request comes, waits for a free place and is answered; the
    answer goes; and what the client still sends is thrown away."""

    READING = "reading"
    WAITING = "waiting"
    ANSWERING = "answering"
    WRITING = "writing"
    LINGERING = "lingering"


@dataclass(frozen=True)
class Limits:
    """Bounds what one listener's connections may take.

    Attributes:
        connections: open at a time.
        held_bytes: of requests that are not complete, together.
        head_seconds: from the connection on, until the head is there.
        request_seconds: from the head on, until the body is there.
        answer_seconds: until the client has taken the answer.
        linger_seconds: until it has hung up after that: what it still sends is thrown away, as it
            would miss the answer otherwise.
    """

    connections: int = 96
    held_bytes: int = 16 << 20
    head_seconds: float = 5.0
    request_seconds: float = 5.0
    answer_seconds: float = 20.0
    linger_seconds: float = 1.0


class Connection:
    """Carries one client's request and its answer.

    Attributes:
        phase, until: what it does, and until when (monotonic).
        incoming: its request.
    """

    def __init__(
        self, connection: socket.socket, peer: Peer, incoming: Incoming, limits: Limits
    ) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.peer = peer
        self.incoming = incoming
        self.opened_at = time.monotonic()
        self.phase = Phase.READING
        self.until = self.opened_at + limits.head_seconds
        self._limits = limits
        self._left: list[memoryview] = []

    def read(self) -> bool:
        """Whether the request is complete. Raises RefusedError, EOFError, OSError."""
        data = self.socket.recv(_PIECE_BYTES)
        if not data:
            raise EOFError
        had_head = self.incoming.has_head
        is_complete = self.incoming.feed(data)
        if not had_head and self.incoming.has_head:
            self.until = time.monotonic() + self._limits.request_seconds
        return is_complete

    def begin_to_write(self, answer: Answer) -> None:
        """Begin to write the answer; ``write`` does it."""
        self._left = self.incoming.text_of(answer)
        self.incoming.drop()
        self.phase = Phase.WRITING
        self.until = time.monotonic() + self._limits.answer_seconds

    def write(self) -> None:
        """Write as much as the client takes. Raises OSError."""
        while self._left:
            sent = self.socket.send(self._left[0][:_PIECE_BYTES])
            self._left[0] = self._left[0][sent:]
            if not self._left[0]:
                del self._left[0]
        self.socket.shutdown(socket.SHUT_WR)
        self.phase = Phase.LINGERING
        self.until = time.monotonic() + self._limits.linger_seconds

    def throw_away(self) -> bool:
        """Throw away what comes after the request. Returns whether that was all. Raises OSError."""
        return not self.socket.recv(_PIECE_BYTES)

    def close(self) -> None:
        self._left.clear()
        with suppress(OSError):
            self.socket.close()


def held_bytes(connections: Iterable[Connection]) -> int:
    """Sum up what requests hold that are not answered yet."""
    return sum(one.incoming.held_bytes for one in connections)


def who_holds_most(connections: Iterable[Connection]) -> Connection:
    """Return the largest of the requests that still come, of the party whose hold the most bytes;
    there must be one."""
    held = Counter[str]()
    coming = [one for one in connections if one.phase == Phase.READING]
    for one in coming:
        held[one.peer.party] += one.incoming.held_bytes
    return max(coming, key=lambda one: (held[one.peer.party], one.incoming.held_bytes))


def whom_to_hang_up_on(connections: Iterable[Connection]) -> Connection | None:
    """Return the oldest one of the party that has the most, whatever those do: of those that still
    send, or else of those that do not take their answer. ``None`` if all are being answered."""
    there = list(connections)
    counts = Counter(one.peer.party for one in there)
    idle = [one for one in there if one.phase not in (Phase.WAITING, Phase.ANSWERING)]
    most = max((counts[one.peer.party] for one in idle), default=0)
    crowd = [one for one in idle if counts[one.peer.party] == most]
    return min(crowd, key=lambda one: (one.phase is Phase.WRITING, one.opened_at), default=None)


def is_of_the_last(connection: socket.socket) -> bool:
    """Whether it has one of the last descriptors that this process may have: the lowest free one
    is given out, so its number says how many are open at least."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connection.fileno() >= limit - _KEPT_DESCRIPTORS >= 0


def with_lowest_descriptor(connection: socket.socket) -> socket.socket:
    """Return the same connection, by the descriptor that is the lowest now."""
    with connection:
        return connection.dup()


def peer_of(connection: socket.socket, address: object) -> Peer:
    """Return who has connected, from what ``accept`` says."""
    if connection.family == socket.AF_UNIX:
        return Peer(uid=peer_credentials(connection)[1])
    return Peer(str(address[0]) if isinstance(address, tuple) else "")
