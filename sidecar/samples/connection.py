"""Holds one connection to the samples' endpoint: who it is, and what waits of it."""

from __future__ import annotations

import socket
import time
from collections import deque

from sidecar.samples.wire_format import MAX_BATCH_BYTES
from sidecar.samples.zmtp import ZmtpError, ZmtpReader
from solver_lambda.http.message import Peer
from solver_lambda.http.peer import peer_credentials

# A server may have so many batches that wait, and a peer that has shown no secret so many bytes.
QUEUE_BATCHES, STRANGERS_BYTES = 1024, 4 * MAX_BATCH_BYTES


class Connection:
    """Holds the connection of one peer that sends samples.

    Attributes:
        who: the peer, for people.
        user, process: of the peer, as the kernel says; over TCP its address, and 0.
        is_trusted: it has shown a server's secret.
        ended: the peer has hung up; what it sent before may still wait.
    """

    def __init__(self, taken: socket.socket) -> None:
        taken.setblocking(False)
        self.socket = taken
        self.who, self.user, self.process = peer_of(taken)
        self.since_seconds = time.monotonic()
        self.is_trusted = self.ended = False
        self.is_read = True
        self._reader = ZmtpReader(MAX_BATCH_BYTES)
        self._waiting: deque[bytes] = deque()
        # Each is changed by one thread alone.
        self._received_bytes = self._taken_bytes = 0

    @property
    def room_bytes(self) -> int:
        most = QUEUE_BATCHES * MAX_BATCH_BYTES if self.is_trusted else STRANGERS_BYTES
        return most - (self._received_bytes - self._taken_bytes)

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def read(self, buffer: memoryview) -> int:
        """Take in what is there, as far as there is room; how much it was."""
        try:
            count = self.socket.recv_into(buffer[: min(len(buffer), self.room_bytes)])
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            count = 0
        if count:
            self._waiting.append(bytes(buffer[:count]))
            self._received_bytes += count
        else:
            self.ended = True
        return count

    def message(self) -> bytes | None:
        """Return the next message that is there as a whole. Raises ZmtpError."""
        while (message := self._reader.message()) is None and self._waiting:
            part = self._waiting.popleft()
            self._taken_bytes += len(part)
            self._reader.feed(part)
        self.answer()
        return message

    def answer(self) -> None:
        """Send what the protocol wants, if the peer reads it. Raises ZmtpError: it does not."""
        to_send = self._reader.to_send
        if not to_send:
            return
        try:
            del to_send[: self.socket.send(to_send)]
        except (BlockingIOError, InterruptedError):
            if len(to_send) > MAX_BATCH_BYTES:
                raise ZmtpError("commands", "does not read the answers that it wants") from None
        except OSError:
            self.ended = True

    def close(self) -> None:
        self.socket.close()
        self._waiting.clear()


def peer_of(connection: socket.socket) -> tuple[str, int | str, int]:
    """Name a peer for people. Returns also its user or its address' party, and its process, or
    0."""
    try:
        if connection.family == socket.AF_UNIX:
            process, user = peer_credentials(connection)
            return f"process {process} of uid {user}", user, process
        host, port, *_ = connection.getpeername()
    except OSError:
        return "somebody who is gone", "", 0
    return f"{host}:{port}", Peer(str(host)).party, 0
