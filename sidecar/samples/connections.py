"""Connections to the samples' endpoint: what waits of each, and how many there may be.

A thread takes in what comes, for while the sidecar plans it would be lost: between two processes
the kernel keeps some four batches. All else is done by the thread that asks for messages. What a
connection may have waiting is bounded; when it has that, nothing more is read of it, so that the
server's own queue fills, and the server drops, and counts it.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from sidecar.samples.wire_format import MAX_BATCH_BYTES
from sidecar.samples.zmtp import ZmtpError, ZmtpReader

QUEUE_BATCHES = 1024
"""That may wait of a server."""
STRANGERS_BYTES = 4 * MAX_BATCH_BYTES  # that may wait of who has not shown a secret
PATIENCE_SECONDS = 10.0
"""A server sends a batch a second at least."""
GRACE_SECONDS = 1.0
"""So long a stranger is not hung up on for the next one."""
_READ_BYTES = 256 << 10
# While another thread calculates, each of our calls waits so long for its turn. With Python's 5 ms
# a million samples a second are too many beside a plan that takes a second.
_SWITCH_SECONDS = 0.001
_PAUSE_SECONDS = 0.01
_MOST_ACCEPTS = 64
_ONCE = select.EPOLLIN | select.EPOLLONESHOT


class Connection:
    """One of them.

    Attributes:
        who: the peer, for people.
        is_trusted: it has shown a server's secret.
        ended: the peer has hung up; what it sent before may still wait.
    """

    def __init__(self, taken: socket.socket) -> None:
        taken.setblocking(False)
        self.socket = taken
        self.who = _peer(taken)
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
        """The next one that is there as a whole. Raises ZmtpError."""
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


class Connections:
    """All that come to a listening socket, which is closed with them.

    ``refuse`` is told of each connection that is ended for what it does or did not do: of whom, a
    code and words. Only ``close`` may be called by any thread.
    """

    def __init__(
        self,
        listening: socket.socket,
        most_strangers: int,
        refuse: Callable[[str, str, str], None],
    ) -> None:
        self._listening = listening
        self._most_strangers = most_strangers
        self._refuse = refuse
        self._turn: deque[Connection] = deque()
        self._by_number: dict[int, Connection] = {}
        self._lock = threading.Lock()
        self._arrived = threading.Event()
        self._stopping = threading.Event()
        self._is_knocked = False
        self._deaf_until_seconds = 0.0
        self._failure: BaseException | None = None
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))
        listening.setblocking(False)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(listening, _ONCE)
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hang up on all; may be called twice."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._epoll.close()
        os.close(self._wake)
        self._listening.close()
        while self._turn:
            self._turn.popleft().close()

    # what the thread does

    def _run(self) -> None:
        try:
            self._pump()
        except BaseException as error:  # noqa: BLE001 - raised again by who asks for messages
            self._failure = error
            self._arrived.set()

    def _pump(self) -> None:
        buffer = memoryview(bytearray(_READ_BYTES))
        while not self._stopping.is_set():
            most_bytes = 0
            for number, _ in self._epoll.poll():
                if number == self._listening.fileno():
                    self._is_knocked = True
                    continue
                with self._lock:  # a number that is closed meanwhile may be another file's
                    connection = self._by_number.get(number)
                    if connection is None:
                        continue
                    count = connection.read(buffer)
                    connection.is_read = not connection.ended and connection.room_bytes > 0
                    if connection.is_read:
                        self._epoll.modify(number, _ONCE)
                if connection.is_trusted:
                    most_bytes = max(most_bytes, count)
            self._arrived.set()
            # Who is woken for each batch takes several times as long for it.
            if 0 < most_bytes < MAX_BATCH_BYTES:
                self._stopping.wait(_PAUSE_SECONDS)

    # what the other one does

    def wait(self, seconds: float) -> bool:
        """Whether something may have come since ``look``."""
        return self._arrived.wait(seconds)

    def look(self) -> None:
        """Take up who waits to connect, and go on reading where there is room again."""
        if self._failure is not None:
            raise RuntimeError("no samples are received any more") from self._failure
        self._arrived.clear()
        if self._is_knocked and time.monotonic() >= self._deaf_until_seconds:
            self._is_knocked = False
            self._accept()
        for connection in self._turn:
            if not connection.is_read and not connection.ended and connection.room_bytes > 0:
                connection.is_read = True
                self._epoll.modify(connection.socket.fileno(), _ONCE)

    def messages(self) -> Iterator[tuple[Connection, bytes]]:
        """What is there, one of each connection in turn; a later call goes on with the next one."""
        without = 0
        while self._turn and without < len(self._turn):
            connection = self._turn[0]
            self._turn.rotate(-1)
            has_ended = connection.ended
            try:
                message = connection.message()
            except ZmtpError as error:
                self.end(connection, error.reason, str(error))
                continue
            if message is not None:
                without = 0
                yield connection, message
            elif has_ended:
                self._drop(connection)
            else:
                without += 1

    def end(self, connection: Connection, reason: str, words: str) -> None:
        """Hang up on it, and tell."""
        self._drop(connection)
        self._refuse(connection.who, reason, f"{words}; it is hung up on")

    def replace(self, old: Connection) -> None:
        """Hang up on a server that has connected anew, or is gone."""
        if old in self._turn:
            self._drop(old)

    def end_overdue(self) -> None:
        """Hang up on who has shown no secret for long; after all messages were taken."""
        now = time.monotonic()
        for one in self._strangers():
            if now - one.since_seconds > PATIENCE_SECONDS and not one.has_waiting:
                self.end(one, "silent", f"shows no secret in {PATIENCE_SECONDS:g} s")

    def _strangers(self) -> list[Connection]:
        return [connection for connection in self._turn if not connection.is_trusted]

    def _drop(self, connection: Connection) -> None:
        self._turn.remove(connection)
        with self._lock:
            del self._by_number[connection.socket.fileno()]
            connection.close()

    def _accept(self) -> None:
        for _ in range(_MOST_ACCEPTS):
            try:
                taken, _ = self._listening.accept()
            except BlockingIOError:
                break
            except ConnectionError:
                continue  # it is gone already
            except OSError as error:
                # No descriptor is left: the others are served, and this one waits.
                self._deaf_until_seconds = time.monotonic() + GRACE_SECONDS
                self._is_knocked = True
                words = f"cannot be taken now: {error.strerror}; it waits"
                self._refuse("a connection", "accept", words)
                return
            self._admit(Connection(taken))
        self._epoll.modify(self._listening.fileno(), _ONCE)

    def _admit(self, connection: Connection) -> None:
        strangers = self._strangers()
        if len(strangers) >= self._most_strangers:
            oldest = min(strangers, key=lambda one: one.since_seconds)
            words = f"is one of more than {self._most_strangers} that show no secret"
            if connection.since_seconds - oldest.since_seconds < GRACE_SECONDS:
                connection.close()
                self._refuse(connection.who, "too_many", f"{words}; it is hung up on")
                return
            self.end(oldest, "too_many", words)
        self._turn.append(connection)
        with self._lock:
            number = connection.socket.fileno()
            self._by_number[number] = connection
            self._epoll.register(number, _ONCE)


def _peer(connection: socket.socket) -> str:
    try:
        if connection.family == socket.AF_UNIX:
            size = struct.calcsize("3i")
            told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            process, user, _ = struct.unpack("3i", told)
            return f"process {process} of uid {user}"
        host, port, *_ = connection.getpeername()
    except OSError:
        return "somebody who is gone"
    return f"{host}:{port}"
