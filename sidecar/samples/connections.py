"""Holds the connections to the samples' endpoint: what waits of each, and how many there may be.

A thread takes in what comes, for while the sidecar plans it would be lost: between two processes
the kernel keeps some four batches. All else is done by the thread that asks for messages. What a
connection may have waiting is bounded; when it has that, nothing more is read of it, so that the
server's own queue fills, and the server drops, and counts it.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator

from sidecar.samples.connection import Connection, peer_of
from sidecar.samples.wire_format import MAX_BATCH_BYTES
from sidecar.samples.zmtp import ZmtpError

# A server sends a batch a second at least.
PATIENCE_SECONDS = 10.0
# So long a stranger is not hung up on for the next one of the same crowd.
GRACE_SECONDS = 1.0
# Connections of a server's own process without a secret: an old one may not have ended.
MOST_OF_A_SERVER = 2
_READ_BYTES = 256 << 10
# While another thread calculates, each of our calls waits so long for its turn. With Python's 5 ms
# a million samples a second are too many beside a plan that takes a second.
_SWITCH_SECONDS = 0.001
_PAUSE_SECONDS = 0.01
# Connections that one turn accepts before it reads, and of them, those that may wait for the other
# thread.
_MOST_ACCEPTS, _MOST_KNOCKING = 256, 64
_ONCE = select.EPOLLIN | select.EPOLLONESHOT


class Connections:
    """Holds all that come to a listening socket, which is closed with them.

    ``refuse`` is told of each connection that is ended for what it does or did not do: of whom, a
    code and words. ``processes`` has the ids of the servers' own: these have places of their own,
    whoever else connects. The rest share ``most_strangers`` places, and who makes room is of the
    user, and of his process, with the most. Only ``close`` may be called by any thread.
    """

    def __init__(
        self,
        listening: socket.socket,
        most_strangers: int,
        refuse: Callable[[str, str, str], None],
        processes: Callable[[], Collection[int]],
    ) -> None:
        self._listening = listening
        self._most_strangers = most_strangers
        self._refuse = refuse
        self._processes = processes
        self._turn: deque[Connection] = deque()
        self._by_number: dict[int, Connection] = {}
        self._lock = threading.Lock()
        self._arrived = threading.Event()
        self._stopping = threading.Event()
        self._knocking: deque[socket.socket] = deque()
        self._gone: list[str] = []
        self._accept_failure = ""
        self._is_deaf, self._deaf_until_seconds = False, 0.0
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
        while self._knocking:
            self._knocking.popleft().close()

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
                    self._take_in()
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
            # A thread that wakes for each batch takes several times as long for it.
            if 0 < most_bytes < MAX_BATCH_BYTES:
                self._stopping.wait(_PAUSE_SECONDS)

    def _take_in(self) -> None:
        """Accept whoever waits to connect, so that the kernel's queue has room for the next one.
        Whoever has hung up meanwhile, as a crowd does, costs nothing more."""
        for _ in range(_MOST_ACCEPTS):
            if len(self._knocking) >= _MOST_KNOCKING:
                self._is_deaf = True
                return
            try:
                taken, _ = self._listening.accept()
            except BlockingIOError:
                break
            except ConnectionError:
                continue  # it is gone already
            except OSError as error:
                # No descriptor is left: the others are served, and this one waits.
                self._accept_failure = error.strerror or str(error)
                self._deaf_until_seconds = time.monotonic() + GRACE_SECONDS
                self._is_deaf = True
                return
            if not _has_hung_up(taken):
                self._knocking.append(taken)
                continue
            if len(self._gone) <= self._most_strangers:
                self._gone.append(peer_of(taken)[0])
            taken.close()
        self._epoll.modify(self._listening.fileno(), _ONCE)

    # what the other one does

    def wait(self, seconds: float) -> bool:
        """Whether something may have come since ``look``."""
        return self._arrived.wait(seconds)

    def look(self) -> None:
        """Take up who waits to connect, and go on reading where there is room again."""
        if self._failure is not None:
            raise RuntimeError("no samples are received any more") from self._failure
        self._arrived.clear()
        self._admit_all()
        for connection in self._turn:
            if not connection.is_read and not connection.ended and connection.room_bytes > 0:
                connection.is_read = True
                self._epoll.modify(connection.socket.fileno(), _ONCE)

    def messages(self) -> Iterator[tuple[Connection, bytes]]:
        """Yield what is there, one of each connection in turn; a later call goes on with the next
        one."""
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

    def _admit_all(self) -> None:
        while self._knocking:
            self._admit(Connection(self._knocking.popleft()))
        if len(gone := self._gone) > self._most_strangers:
            words = f"is one of more than {self._most_strangers} that come and go"
            self._refuse(gone[-1], "too_many", words)
        self._gone = []
        if self._accept_failure:
            words = f"cannot be taken now: {self._accept_failure}; it waits"
            self._accept_failure = ""
            self._refuse("a connection", "accept", words)
        if self._is_deaf and time.monotonic() >= self._deaf_until_seconds:
            self._is_deaf = False
            self._epoll.modify(self._listening.fileno(), _ONCE)

    def _admit(self, connection: Connection) -> None:
        known = set(self._processes()) - {0}
        is_known, most = connection.process in known, self._most_strangers
        rivals = [one for one in self._strangers() if one.process not in known]
        if is_known:
            most = MOST_OF_A_SERVER
            rivals = [one for one in self._strangers() if one.process == connection.process]
        if len(rivals) >= most and not self._make_room(connection, rivals, most):
            return
        self._turn.append(connection)
        with self._lock:
            number = connection.socket.fileno()
            self._by_number[number] = connection
            self._epoll.register(number, _ONCE)

    def _make_room(self, connection: Connection, rivals: list[Connection], most: int) -> bool:
        """Hang up on one of the crowd, which may be the newcomer: then there is no room."""
        crowd = crowd_of([*rivals, connection])
        oldest = min(crowd, key=lambda one: one.since_seconds)
        words = f"is one of more than {most} that show no secret"
        if connection in crowd and connection.since_seconds - oldest.since_seconds < GRACE_SECONDS:
            connection.close()
            self._refuse(connection.who, "too_many", f"{words}; it is hung up on")
            return False
        self.end(oldest, "too_many", words)
        return True


def _has_hung_up(taken: socket.socket) -> bool:
    """Whether the peer has hung up, and has sent nothing before."""
    try:
        return not taken.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def crowd_of(connections: Collection[Connection]) -> list[Connection]:
    """Return those of the users with the most, and of them those of the processes with the most."""
    users = Counter(one.user for one in connections)
    crowd = [one for one in connections if users[one.user] == max(users.values())]
    processes = Counter((one.user, one.process) for one in crowd)
    most = max(processes.values())
    return [one for one in crowd if processes[one.user, one.process] == most]
