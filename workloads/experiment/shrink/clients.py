"""Clients of one server in a process of their own, which notes how long each request takes."""

from __future__ import annotations

import gc
import multiprocessing
import random
import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.processes import start_deaf_to_ctrl_c

VALUE = b"x" * 512
REPLY_BYTES = 1 << 16
MISS = b"$-1\r\n"
FOUND = b"$%d\r\n" % len(VALUE)


@dataclass(frozen=True)
class Clients:
    """Runs ``count`` connections. In a closed loop each sends the next request when it has its
    reply. In an open loop ``rate`` requests a second come, whatever the server does; a request that
    finds all connections busy waits, and its time counts from when it was due.

    Requests are SETs or, where they look aside, GETs; what is missed is set at once, by the same
    connection, and only the GET is measured. ``seed``: of their keys."""

    count: int
    rate: float | None
    looks_aside: bool = False
    seed: int = 1

    @property
    def name(self) -> str:
        loop = "closed loop" if self.rate is None else f"{self.rate:,.0f}/s open"
        return f"{self.count} client{'s' if self.count > 1 else ''}, {loop}"


class ClientsEndedError(RuntimeError):
    """They are gone before their time; the message says how."""


class Latencies:
    """``at_seconds``: monotonic, when each request was due; ``seconds``: until its reply;
    ``hits``: whether it found its key, true of a SET."""

    def __init__(self) -> None:
        self.at_seconds: npt.NDArray[np.float64] = np.empty(0)
        self.seconds: npt.NDArray[np.float64] = np.empty(0)
        self.hits: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)

    def between(self, begin: float, end: float) -> npt.NDArray[np.float64]:
        """Return the times of the requests that were due then."""
        return self.seconds[(self.at_seconds >= begin) & (self.at_seconds < end)]


@contextmanager
def running_clients(clients: Clients, server: Path, key_count: int) -> Iterator[Latencies]:
    """Requests of random keys until the end of the block; what it yields is filled by then.

    Raises:
        ClientsEndedError: their process died.
    """
    spawn = multiprocessing.get_context("spawn")
    receiving, sending = spawn.Pipe(duplex=False)
    stop = spawn.Event()
    process = spawn.Process(
        target=_send, args=(clients, str(server), key_count, sending, stop), daemon=True
    )
    found = Latencies()
    try:
        start_deaf_to_ctrl_c(process)
        sending.close()  # theirs alone now: its end is the end of what can be received
        _received(receiving, process)
        yield found
        stop.set()
        found.at_seconds, found.seconds, found.hits = _received(receiving, process)
    finally:
        if process.pid is not None:
            process.terminate()
            process.join()
        receiving.close()


def _received(receiving: Connection, process: BaseProcess) -> Any:
    """Receive what the clients say. Raises ClientsEndedError."""
    try:
        return receiving.recv()
    except EOFError as error:
        process.join()
        raise ClientsEndedError(
            f"the clients' process ended with exit code {process.exitcode}"
        ) from error


def _send(clients: Clients, server: str, key_count: int, result: object, stop: Event) -> None:
    gc.disable()  # its pauses would look like the server's
    load = _Load(clients, server, key_count)
    result.send("began")  # type: ignore[attr-defined]
    while not stop.is_set():
        for _ in range(200):
            load.turn()
    result.send((np.array(load.at), np.array(load.seconds), np.array(load.hits, dtype=np.bool_)))  # type: ignore[attr-defined]


class _Load:
    def __init__(self, clients: Clients, server: str, key_count: int) -> None:
        self.at: list[float] = []
        self.seconds: list[float] = []
        self.hits: list[bool] = []
        self._looks_aside = clients.looks_aside
        self._interval = 1 / clients.rate if clients.rate else None
        self._keys = random.Random(clients.seed)
        self._key_count = key_count
        self._poll = select.epoll()
        # When the request was due; not of what fills a miss.
        self._busy: dict[int, tuple[socket.socket, float | None, bytes]] = {}
        self._free: deque[socket.socket] = deque()
        for _ in range(clients.count):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(server)
            self._poll.register(connection.fileno(), select.EPOLLIN)
            self._free.append(connection)
        self._due = time.monotonic()

    def turn(self) -> None:
        """Send what is due, and take the replies that are there; never waits: a wait's end may be
        late by more than what is measured."""
        if self._interval is None:
            while self._free:
                self._request(time.monotonic())
        else:
            while self._free and self._due <= time.monotonic():
                self._request(self._due)
                self._due += self._interval
        for number, _ in self._poll.poll(0):
            connection, due, key = self._busy.pop(number)
            reply = connection.recv(REPLY_BYTES)
            if due is not None:
                self._note(due, is_hit=reply != MISS)
            if reply == MISS:
                connection.send(_set(key))
                self._busy[number] = connection, None, key
                continue
            if not reply.startswith((b"+OK", FOUND)):
                raise RuntimeError(f"the server refused a request: {reply[:80]!r}")
            self._free.append(connection)

    def _note(self, due: float, *, is_hit: bool) -> None:
        self.at.append(due)
        self.seconds.append(time.monotonic() - due)
        self.hits.append(is_hit)

    def _request(self, due: float) -> None:
        connection = self._free.popleft()
        number = self._keys.randrange(self._key_count)
        if self._looks_aside:
            key = b"key:%d" % number  # as DEBUG POPULATE calls them
            connection.send(b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key))
        else:
            key = b"key:%012d" % number
            connection.send(_set(key))
        self._busy[connection.fileno()] = connection, due, key


def _set(key: bytes) -> bytes:
    return b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(key), key, len(VALUE), VALUE)
