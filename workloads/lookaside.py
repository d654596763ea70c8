"""A look-aside client: GET; on a miss ask the backend, then SET.

One client stands for many users of one application, whose requests do not wait for each other. So
requests that are due together travel in one pipeline. What look-aside means for *one key* is kept:
a request for a key is sent only after the fills of the earlier ones (with accounted backends). So a
batch is sent in two rounds: the first request for each key, and then the repetitions. A pipeline is
kept short, since its buffers count as the server's memory and would evict objects.
"""

from __future__ import annotations

import heapq
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from threading import Event

from redis.connection import parse_url

from workloads.load import Load

PIPELINE_REQUESTS = 64
RECEIVE_BYTES = 1 << 18
TICK_SECONDS = 0.01


class ServerRefusedError(RuntimeError):
    """The server answered with an error; the message is its."""


@dataclass
class Tally:
    """Sums up requests.

    Attributes:
        access_seconds: (8.2) in the small: the cache's latency for a hit, and what the backend
            took for a miss.
    """

    requests: int = 0
    hits: int = 0
    access_seconds: float = 0.0

    @property
    def hit_ratio(self) -> float:
        """0 before the first request."""
        return self.hits / self.requests if self.requests else 0.0

    @property
    def effective_access_time_seconds(self) -> float:
        """Return the mean access time, 0 before the first request."""
        return self.access_seconds / self.requests if self.requests else 0.0

    def minus(self, earlier: Tally) -> Tally:
        """Return what was added since ``earlier``."""
        return Tally(
            self.requests - earlier.requests,
            self.hits - earlier.hits,
            self.access_seconds - earlier.access_seconds,
        )

    def copy(self) -> Tally:
        """Copy the tally as it is now."""
        return Tally(self.requests, self.hits, self.access_seconds)


class LookAsideClient:
    """One connection to one server; a context manager.

    Args:
        url: ``unix://`` or ``redis://``; ``?db=1`` is another database.
        cache_latency_seconds: accounted for a hit.
        sleeps: a miss is filled when its backend has answered, while other requests go on (and
            miss the same key again, as they would). Otherwise the backend's time is only
            accounted and the fill comes at once.
        ttl_seconds: of every object, or ``None``.

    Raises:
        OSError: no connection.
        ServerRefusedError: the server refuses the password or a command.
    """

    def __init__(
        self,
        url: str,
        *,
        cache_latency_seconds: float = 0.0002,
        sleeps: bool = False,
        ttl_seconds: float | None = None,
    ) -> None:
        self.tally = Tally()
        self._cache_latency_seconds = cache_latency_seconds
        self._sleeps = sleeps
        self._set_tail = (
            b""
            if ttl_seconds is None
            else _argument(b"PX") + _argument(b"%d" % max(1, round(ttl_seconds * 1000)))
        )
        self._set_head = b"*%d\r\n$3\r\nSET\r\n" % (3 if ttl_seconds is None else 5)
        self._value = memoryview(bytes(1 << 16))
        self._waiting: list[tuple[float, bytes, int]] = []  # a heap: when filled, key, size
        where = parse_url(url)  # type: ignore[no-untyped-call]
        if "path" in where:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(where["path"])
        else:
            address = (where.get("host", "localhost"), where.get("port", 6379))
            self._socket = socket.create_connection(address)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        if "password" in where:
            user = where.get("username", "default").encode()
            self._command(b"AUTH", user, where["password"].encode())
        if "db" in where:
            self._command(b"SELECT", b"%d" % where["db"])

    def request(
        self, keys: list[bytes], sizes_bytes: list[int], backend_seconds: list[float]
    ) -> None:
        """Requests that are due together; lists of one length."""
        self.fill_due()
        for start in range(0, len(keys), PIPELINE_REQUESTS):
            part = slice(start, start + PIPELINE_REQUESTS)
            requests = list(zip(keys[part], sizes_bytes[part], backend_seconds[part], strict=True))
            if self._sleeps:
                self._round(requests)
                continue
            first: dict[bytes, tuple[bytes, int, float]] = {}
            repeated = []
            for request in requests:
                if first.setdefault(request[0], request) is not request:
                    repeated.append(request)
            self._round(list(first.values()))
            if repeated:
                self._round(repeated)

    def fill_due(self, now: float | None = None) -> None:
        """Send the fills whose backend has answered (until ``now``, of ``time.monotonic``)."""
        if not self._waiting:
            return
        now = time.monotonic() if now is None else now
        fills = []
        while self._waiting and self._waiting[0][0] <= now:
            _, key, size_bytes = heapq.heappop(self._waiting)
            fills.append((key, size_bytes))
        for start in range(0, len(fills), PIPELINE_REQUESTS):
            self._fill(fills[start : start + PIPELINE_REQUESTS])

    def finish(self) -> None:
        """Wait for the backends that have not answered yet."""
        while self._waiting:
            time.sleep(max(0.0, self._waiting[0][0] - time.monotonic()))
            self.fill_due()

    def _round(self, requests: list[tuple[bytes, int, float]]) -> None:
        self._socket.sendall(
            b"".join([b"*2\r\n$3\r\nGET\r\n" + _argument(key) for key, _, _ in requests])
        )
        missed = [
            request
            for request, hit in zip(requests, self._replies(len(requests)), strict=True)
            if not hit
        ]
        self.tally.requests += len(requests)
        self.tally.hits += len(requests) - len(missed)
        self.tally.access_seconds += (len(requests) - len(missed)) * self._cache_latency_seconds
        self.tally.access_seconds += sum([seconds for _, _, seconds in missed])
        if self._sleeps:
            now = time.monotonic()
            for key, size_bytes, seconds in missed:
                heapq.heappush(self._waiting, (now + seconds, key, size_bytes))
        elif missed:
            self._fill((key, size_bytes) for key, size_bytes, _ in missed)

    def _fill(self, fills: Iterable[tuple[bytes, int]]) -> None:
        parts: list[bytes | memoryview] = []
        for key, size_bytes in fills:
            value_bytes = max(1, size_bytes - len(key))
            if value_bytes > len(self._value):
                self._value = memoryview(bytes(value_bytes))
            parts += [
                self._set_head + _argument(key) + b"$%d\r\n" % value_bytes,
                self._value[:value_bytes],
                b"\r\n" + self._set_tail,
            ]
        self._socket.sendall(b"".join(parts))
        for _ in self._replies(len(parts) // 3):
            pass

    def _command(self, *words: bytes) -> None:
        self._socket.sendall(b"*%d\r\n" % len(words) + b"".join(map(_argument, words)))
        for _ in self._replies(1):
            pass

    def _replies(self, count: int) -> Iterator[bool]:
        """Whether each of the next replies is a value (or OK) and not nil."""
        received = self._received
        place = 0
        for _ in range(count):
            while (end := received.find(b"\r\n", place)) < 0:
                self._receive()
            kind = received[place]
            if kind == 45:  # an error
                raise ServerRefusedError(received[place + 1 : end].decode("utf-8", "replace"))
            length = int(received[place + 1 : end]) if kind == 36 else -1
            place = end + 2
            if length >= 0:
                place += length + 2
                while len(received) < place:
                    self._receive()
            yield kind != 36 or length >= 0
        del received[:place]

    def _receive(self) -> None:
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._received += data

    def close(self) -> None:
        """Close the connection; fills that wait for their backend are dropped."""
        self._socket.close()

    def __enter__(self) -> LookAsideClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def replay(
    load: Load,
    client: LookAsideClient,
    *,
    rate_per_second: float | None = None,
    stop: Event | None = None,
) -> None:
    """Send a load, ``rate_per_second`` evenly in time (``None``: as fast as possible).

    A client that falls behind its schedule catches up; ``stop`` ends it early.
    """
    requests = zip(load.keys, load.sizes_bytes, load.backend_seconds.tolist(), strict=True)
    start = time.monotonic()
    sent = 0
    while sent < len(load) and not (stop and stop.is_set()):
        if rate_per_second is None:
            due = PIPELINE_REQUESTS
        else:
            due = min(len(load), int((time.monotonic() - start) * rate_per_second)) - sent
        if due > 0:
            keys, sizes_bytes, backend_seconds = zip(*islice(requests, due), strict=True)
            client.request(list(keys), list(sizes_bytes), list(backend_seconds))
            sent += len(keys)
        else:
            client.fill_due()
            time.sleep(TICK_SECONDS)
    client.finish()


def _argument(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)
