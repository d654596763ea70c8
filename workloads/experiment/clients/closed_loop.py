"""Workers of several applications, each of which waits for its answer before it asks again.

All of them in one thread. A worker that misses waits for as long as its backend takes, then fills
the cache, in one go with its next request.
"""

from __future__ import annotations

import gc
import heapq
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.load import Load
from workloads.lookaside import ServerRefusedError

RECEIVE_BYTES = 1 << 18


@dataclass(frozen=True, eq=False)
class Application:
    """Workers that share a load, and the server that they ask; a load that ends begins again."""

    server: Path
    workers: int
    load: Load


@dataclass(frozen=True, eq=False)
class Answers:
    """What all workers got, in the order of the answers; shapes (n,).

    Attributes:
        application: places in what was played.
        at_seconds: of the answer, since the beginning.
        seconds: from asking to the answer, of the cache or of the backend.
    """

    application: npt.NDArray[np.int64]
    at_seconds: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float64]
    hits: npt.NDArray[np.bool_]


def play_closed(applications: Sequence[Application], seconds: float) -> Answers:
    """Play all applications at once, for so long.

    Raises:
        ServerRefusedError: a server answered with an error.
        OSError: no connection, or one that was closed.
    """
    loop = _Loop(applications)
    collects = gc.isenabled()
    gc.disable()  # its pauses would look like the servers'
    try:
        loop.run(seconds)
    finally:
        loop.close()
        if collects:
            gc.enable()
    return Answers(
        np.array(loop.application, np.int64),
        np.array(loop.at),
        np.array(loop.seconds),
        np.array(loop.hits, np.bool_),
    )


class _Worker:
    """A connection and what it waits for.

    Attributes:
        fill: what goes out before the next request, and whose reply is awaited first.
        place: of the request in its load.
    """

    def __init__(self, number: int, application: Application) -> None:
        self.number = number
        self.application = application
        self.received = bytearray()
        self.fill = b""
        self.awaits_fill = False
        self.place = 0
        self.asked = 0.0
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(application.server))

    def ask(self, place: int) -> None:
        key = self.application.load.keys[place]
        request = b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key)
        self.awaits_fill = bool(self.fill)
        self.place, self.asked = place, time.monotonic()
        self.socket.sendall(self.fill + request)
        self.fill = b""

    def prepare_fill(self) -> None:
        load = self.application.load
        key, size = load.keys[self.place], load.sizes_bytes[self.place]
        value = bytes(max(1, size - len(key)))
        self.fill = b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
            *(len(key), key),
            *(len(value), value),
        )

    def hit(self) -> bool | None:
        """Take what has come; ``None`` while the answer is not complete."""
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.received += data
        if self.awaits_fill:
            end = self.received.find(b"\r\n")
            if end < 0:
                return None
            self._check(self.received[:end])
            del self.received[: end + 2]
            self.awaits_fill = False
        end = self.received.find(b"\r\n")
        if end < 0:
            return None
        self._check(self.received[:end])
        length = int(self.received[1:end])
        if length >= 0 and len(self.received) < end + 2 + length + 2:
            return None
        self.received.clear()
        return length >= 0

    def _check(self, line: bytearray) -> None:
        if line.startswith(b"-"):
            raise ServerRefusedError(line[1:].decode("utf-8", "replace"))


class _Loop:
    def __init__(self, applications: Sequence[Application]) -> None:
        self.application: list[int] = []
        self.at: list[float] = []
        self.seconds: list[float] = []
        self.hits: list[bool] = []
        self._next = [0] * len(applications)
        self._backends = [one.load.backend_seconds.tolist() for one in applications]
        self._poll = select.epoll()
        self._workers: dict[int, _Worker] = {}
        self._waiting: list[tuple[float, int]] = []  # a heap: until when, whose socket
        try:
            for number, application in enumerate(applications):
                for _ in range(application.workers):
                    worker = _Worker(number, application)
                    self._workers[worker.socket.fileno()] = worker
                    self._poll.register(worker.socket.fileno(), select.EPOLLIN)
        except BaseException:
            self.close()
            raise

    def run(self, seconds: float) -> None:
        self._began = time.monotonic()
        for worker in self._workers.values():
            self._ask(worker)
        while (now := time.monotonic()) < self._began + seconds:
            while self._waiting and self._waiting[0][0] <= now:
                worker = self._workers[heapq.heappop(self._waiting)[1]]
                self._answered(worker, hit=False)
                worker.prepare_fill()
                self._ask(worker)
            until = self._waiting[0][0] if self._waiting else now + 0.01
            for number, _ in self._poll.poll(max(0.0, until - now)):
                worker = self._workers[number]
                hit = worker.hit()
                if hit:
                    self._answered(worker, hit=True)
                    self._ask(worker)
                elif hit is not None:
                    backend = self._backends[worker.number][worker.place]
                    heapq.heappush(self._waiting, (time.monotonic() + backend, number))

    def _ask(self, worker: _Worker) -> None:
        place = self._next[worker.number]
        self._next[worker.number] = (place + 1) % len(worker.application.load)
        worker.ask(place)

    def _answered(self, worker: _Worker, hit: bool) -> None:
        now = time.monotonic()
        self.application.append(worker.number)
        self.at.append(now - self._began)
        self.seconds.append(now - worker.asked)
        self.hits.append(hit)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.socket.close()
        self._poll.close()
