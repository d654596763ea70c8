"""Serves HTTP so that no client can hold it up.

One thread has all sockets: it waits for nobody, and counts how long each client takes. Threads of
their own answer complete requests, so many of each lane at a time; what has no lane is answered by
that one thread. So a slow client costs a descriptor and memory, both bounded, and never a thread.
"""

from __future__ import annotations

import errno
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Protocol

from solver_lambda.http.connection import (
    Connection,
    Limits,
    Phase,
    held_bytes,
    is_of_the_last,
    peer_of,
    who_holds_most,
    whom_to_hang_up_on,
    with_lowest_descriptor,
)
from solver_lambda.http.incoming import Incoming
from solver_lambda.http.lane_queue import LaneQueue
from solver_lambda.http.message import Answer, Peer, RefusedError, crowded, json_answer
from solver_lambda.http.router import Lane, Router


class Journal(Protocol):
    """Hears from a listener of requests that were not answered. Any thread may call."""

    def refused(self, peer: Peer, code: str, why: str) -> None:
        """A request broke a rule, or there was no room for it: a stranger can bring it about."""

    def failed(self, what: str, error: Exception) -> str:
        """Take a handler's fault, and return what the client is told."""


_TICK_SECONDS = 0.1
_ACCEPTED_A_TURN = 128
# Without a descriptor a connection is not taken, and stays to be taken.
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_ROOM_SECONDS = 0.2


class HttpServer:
    """Serves listening sockets, which are its own from now on, until ``close``.

    Raises:
        ValueError: the lanes may take all connections, so that nobody could be hung up on.
    """

    def __init__(
        self,
        listening: Sequence[socket.socket],
        router: Router,
        limits: Limits,
        journal: Journal,
        name: str = "http",
    ) -> None:
        if sum(lane.most + lane.most_waiting for lane in router.lanes) >= limits.connections:
            raise ValueError("there must be more connections than requests in the lanes")
        self._listening = list(listening)
        self._router = router
        self._limits = limits
        self._journal = journal
        self._name = name
        self._connections: set[Connection] = set()
        self._queues = {lane: LaneQueue(lane) for lane in router.lanes}
        self._answered: deque[tuple[Connection, Lane, Answer]] = deque()
        self._accepts_at = 0.0  # not before
        self._closing = False
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        for one in (*self._listening, self._woken, self._waker):
            one.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, self._wake_up)
        self._stopped_listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start to serve. Raises OSError: the machine lets us have no more threads; then nobody is
        listened to."""
        self._listen()
        try:
            self._thread.start()
        except RuntimeError as error:
            self._end()
            raise OSError(errno.EAGAIN, str(error)) from error

    def close(self, finish_seconds: float = 0.0) -> None:
        """Take no more connections; those that are there have their own time to end, and so long
        is waited for them. May be called twice."""
        self._closing = True
        if self._thread.ident is None:
            self._end()
            return
        self._wake()
        self._stopped_listening.wait()
        self._thread.join(finish_seconds)

    def _run(self) -> None:
        while not (self._closing and not self._connections):
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 a fault of ours must not end the listener
                self._journal.failed("the connections", error)
                time.sleep(_TICK_SECONDS)
        self._end()

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._patience()):
            key.data()
        if self._closing and not self._stopped_listening.is_set():
            self._stop_listening()
        self._take_answers()
        self._keep_time()

    def _end(self) -> None:
        self._stop_listening()
        self._selector.close()
        self._woken.close()
        self._waker.close()

    def _patience(self) -> float | None:
        return _TICK_SECONDS if self._connections or self._accepts_at else None

    def _listen(self) -> None:
        self._accepts_at = 0.0
        for one in self._listening:
            self._selector.register(one, selectors.EVENT_READ, lambda one=one: self._accept(one))

    def _deafen(self) -> None:
        for one in self._listening:
            with suppress(KeyError):  # it was deaf already
                self._selector.unregister(one)

    def _stop_listening(self) -> None:
        self._deafen()
        for one in self._listening:
            one.close()
        self._listening = []
        self._stopped_listening.set()

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake, or has ended
            self._waker.send(b"x")

    def _wake_up(self) -> None:
        self._woken.recv(4096)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_A_TURN):
            try:
                accepted, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._make_room("there is no free descriptor")
                    self._deafen()
                    self._accepts_at = time.monotonic() + _NO_ROOM_SECONDS
                    return
                continue  # that client is gone
            if is_of_the_last(accepted) and self._make_room("there are few free descriptors"):
                accepted = with_lowest_descriptor(accepted)
            elif len(self._connections) >= self._limits.connections:
                self._make_room("there is no room for more connections")
            peer = peer_of(accepted, address)
            connection = Connection(accepted, peer, Incoming(self._router, peer), self._limits)
            self._connections.add(connection)
            self._watch(connection, selectors.EVENT_READ, self._read)
            self._do(connection, self._read)  # most have sent it already

    def _make_room(self, why: str) -> bool:
        if (victim := whom_to_hang_up_on(self._connections)) is not None:
            self._journal.refused(victim.peer, "crowded", why)
            self._drop(victim)
        return victim is not None

    def _watch(
        self, connection: Connection, events: int, then: Callable[[Connection], None] | None
    ) -> None:
        """Call ``then`` at these events of it; ``None``: nothing is expected of it now."""
        is_watched = connection.socket in self._selector.get_map()
        if then is None:
            if is_watched:
                self._selector.unregister(connection.socket)
            return
        change = self._selector.modify if is_watched else self._selector.register
        change(connection.socket, events, lambda: self._do(connection, then))

    def _do(self, connection: Connection, what: Callable[[Connection], None]) -> None:
        if connection not in self._connections:
            return  # hung up on in this turn
        try:
            what(connection)
        except BlockingIOError:
            pass
        except OSError:  # the client is gone
            self._drop(connection)
        except Exception as error:  # noqa: BLE001 a fault with one of them must not end all
            self._journal.failed(connection.incoming.shown, error)
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._watch(connection, 0, None)
        self._connections.discard(connection)
        connection.close()

    def _read(self, connection: Connection) -> None:
        try:
            if connection.read():
                self._queue(connection)
            elif held_bytes(self._connections) > self._limits.held_bytes:
                if (victim := who_holds_most(self._connections)) is connection:
                    raise crowded("too much is being sent at a time")
                self._journal.refused(victim.peer, "crowded", "too much is being sent at a time")
                self._drop(victim)
        except EOFError:
            self._refuse(connection, connection.incoming.end())
        except RefusedError as error:
            self._refuse(connection, error)

    def _refuse(self, connection: Connection, error: RefusedError | None) -> None:
        if error is None:
            self._drop(connection)
            return
        self._journal.refused(connection.peer, error.code, str(error))
        self._write(connection, error.answer)

    def _queue(self, connection: Connection) -> None:
        lane = connection.incoming.lane
        if lane is None:
            self._write(connection, self._made(connection, connection.incoming.complete()))
            return
        pushed_out = self._queues[lane].add(connection)
        self._watch(connection, 0, None)
        connection.phase, connection.until = Phase.WAITING, time.monotonic() + lane.seconds
        if pushed_out is not None:
            self._refuse(pushed_out, crowded("others wait with fewer requests"))
        self._dispatch(lane)

    def _dispatch(self, lane: Lane) -> None:
        while connection := self._queues[lane].take():
            connection.phase = Phase.ANSWERING
            asked, name = (connection, lane, connection.incoming.complete()), f"{self._name} answer"
            thread = threading.Thread(target=self._answer, args=asked, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the machine lets us have no more of them
                refusal = crowded("no thread can be started")
                self._answered.append((connection, lane, refusal.answer))

    def _answer(self, connection: Connection, lane: Lane, call: Callable[[], Answer]) -> None:
        """Answer a connection's request in a thread of its own."""
        self._answered.append((connection, lane, self._made(connection, call)))
        self._wake()

    def _made(self, connection: Connection, call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except RefusedError as error:
            self._journal.refused(connection.peer, error.code, str(error))
            return error.answer
        except Exception as error:  # noqa: BLE001 whatever it is, it is told, and others go on
            words = self._journal.failed(connection.incoming.shown, error)
            return json_answer({"error": words}, HTTPStatus.INTERNAL_SERVER_ERROR)

    def _take_answers(self) -> None:
        while self._answered:
            connection, lane, answer = self._answered.popleft()
            self._queues[lane].done(connection)
            self._write(connection, answer)
            self._dispatch(lane)

    def _write(self, connection: Connection, answer: Answer) -> None:
        connection.begin_to_write(answer)
        self._watch(connection, selectors.EVENT_WRITE, self._write_on)
        self._do(connection, self._write_on)

    def _write_on(self, connection: Connection) -> None:
        connection.write()
        self._watch(connection, selectors.EVENT_READ, self._linger)

    def _linger(self, connection: Connection) -> None:
        if connection.throw_away():
            self._drop(connection)

    def _keep_time(self) -> None:
        now = time.monotonic()
        if self._accepts_at and now >= self._accepts_at and not self._closing:
            self._listen()
        for connection in [one for one in self._connections if one.until <= now]:
            if connection.phase == Phase.READING:
                self._refuse(connection, connection.incoming.late())
            elif connection.phase == Phase.WAITING:
                lane = connection.incoming.lane
                assert lane is not None  # it would not wait
                self._queues[lane].give_up(connection)
                self._refuse(connection, crowded("there was no free place in time"))
            elif connection.phase != Phase.ANSWERING:
                self._drop(connection)
