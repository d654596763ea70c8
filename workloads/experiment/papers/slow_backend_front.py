"""The front: an HTTP server that looks aside in Redis, and asks a slow backend for what is missing.

``/plain/KEY`` always asks the backend; ``/cached/KEY`` looks aside, and each user who misses asks;
``/coalesced/KEY`` looks aside as well, and whoever misses a key that another one is asking for
waits for that answer.

Users who come in phases: as they are due, or as earlier ones let them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import redis.asyncio
from redis.exceptions import RedisError

HOST = "127.0.0.1"
# Users of a slow backend queue here before they are heard.
BACKLOG = 4096
WAYS = ("plain", "cached", "coalesced")
log = logging.getLogger(__name__)


@asynccontextmanager
async def serving(answer: Callable[[str], Awaitable[bytes]]) -> AsyncIterator[int]:
    """Serve what ``answer`` makes of a path, on a free port, which is yielded.

    Answers that are under way at the end are given up.
    """
    under_way: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        try:
            # Who waited may have gone, and at the end we go ourselves.
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                head = await reader.readuntil(b"\r\n\r\n")
                body = await answer(head.split(b" ", 2)[1].decode())
                writer.write(
                    b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
                    b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
                )
                await writer.drain()
        finally:
            under_way.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, HOST, 0, backlog=BACKLOG)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        left = list(under_way)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def get(port: int, path: str) -> bytes:
    """The body of the answer.

    Raises:
        OSError: no answer, or none that says 200 (this one a ``ConnectionError``).
    """
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(b"GET %b HTTP/1.1\r\nHost: front\r\n\r\n" % path.encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    if not head.startswith(b"HTTP/1.1 200 "):
        raise ConnectionError(f"{path}: {head[:40]!r}")
    return body


@dataclass
class Front:
    """Tells where it is served, and what it asked of the backend.

    Attributes:
        port: of HTTP.
        calls: of the backend, by key, counted when they are made.
        answered: how many the backend has answered.
        failed_fills: how often the cache was not filled with what was missing in it.
    """

    port: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    failed_fills: int = 0


@asynccontextmanager
async def running_front(backend_seconds: float, redis_url: str) -> AsyncIterator[Front]:
    """A front and its backend, which takes ``backend_seconds`` a call, one after the other.

    Args:
        redis_url: of a database for this front alone; it is emptied first.
    """
    serial = asyncio.Lock()
    front = Front()
    cache: redis.asyncio.Redis = redis.asyncio.Redis.from_url(redis_url)
    asking: dict[str, asyncio.Task[bytes]] = {}

    async def backend(path: str) -> bytes:
        async with serial:
            await asyncio.sleep(backend_seconds)
            front.answered += 1
        return b'{"key": "%b"}' % path.rpartition("/")[2].encode()

    async def ask(key: str) -> bytes:
        front.calls[key] += 1
        return await get(backend_port, f"/{key}")

    async def fill(key: str) -> bytes:
        try:
            value = await ask(key)
            await cache.set(key, value)
        except (OSError, RedisError) as error:
            front.failed_fills += 1
            log.warning("the key %s was not filled: %s", key, error)
            raise ConnectionError(f"the key {key} was not filled") from error
        return value

    def forget(task: asyncio.Task[bytes], key: str) -> None:
        asking.pop(key)
        # All who waited may have given up: that it failed is counted, and nobody else asks.
        if not task.cancelled():
            task.exception()

    async def answer(path: str) -> bytes:
        _, way, key = path.split("/", 2)
        if way == "plain":
            return await ask(key)
        value = await cache.get(key)
        if isinstance(value, bytes):
            return value
        if way == "cached":
            return await fill(key)
        if key not in asking:
            asking[key] = asyncio.create_task(fill(key))
            asking[key].add_done_callback(lambda task: forget(task, key))
        # Who gives up does not take the answer from the others.
        return await asyncio.shield(asking[key])

    await cache.flushdb()
    try:
        async with serving(backend) as backend_port:
            try:
                async with serving(answer) as front.port:
                    yield front
            finally:
                # While the backend is still there: what it is asked for at the end fails not.
                left = list(asking.values())
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)
    finally:
        await cache.aclose()


@dataclass(frozen=True)
class Phase:
    """Users a second, which rise or fall evenly from the first rate to the last one."""

    name: str
    seconds: float
    first_rate: float
    last_rate: float

    @property
    def users(self) -> int:
        """Return how many users come in it."""
        return round(self.seconds * (self.first_rate + self.last_rate) / 2)

    def arrivals_seconds(self) -> list[float]:
        """Return when each comes after the phase's begin: where the rate's integral is ½, 1½ ..."""
        slope = (self.last_rate - self.first_rate) / self.seconds
        found = []
        for number in range(self.users):
            target = number + 0.5
            # slope/2 t² + first t = target; in this form it also holds without a slope.
            root = (self.first_rate**2 + 2 * slope * target) ** 0.5
            found.append(2 * target / (self.first_rate + root))
        return found


@dataclass(frozen=True)
class Visit:
    """Records one user's request.

    Attributes:
        due_seconds: when it was to be made, since the load's begin.
        seconds: from when it counts until the answer, or until the user gave up.
    """

    due_seconds: float
    seconds: float
    is_answered: bool


def arrivals_seconds(phases: Sequence[Phase]) -> list[float]:
    """Return the arrivals of all phases, one after the other."""
    found = []
    begin = 0.0
    for phase in phases:
        found += [begin + at for at in phase.arrivals_seconds()]
        begin += phase.seconds
    return found


async def open_loop(
    port: int, paths: Sequence[str], dues_seconds: Sequence[float], patience_seconds: float
) -> list[Visit]:
    """Each user comes when due, whatever became of the others; times count from then."""
    begin = time.monotonic()

    async def visit(path: str, due: float) -> Visit:
        await asyncio.sleep(begin + due - time.monotonic())
        return await _visit(port, path, due, begin + due, patience_seconds)

    return await asyncio.gather(*map(visit, paths, dues_seconds))


async def closed_loop(
    port: int,
    paths: Sequence[str],
    dues_seconds: Sequence[float],
    patience_seconds: float,
    users: int,
) -> list[Visit]:
    """Let a few users make the requests; each of them sends nothing while it waits.

    Times count from when a request was sent. What has not been sent when the last one was due is
    left out, as such a load leaves it out.
    """
    begin = time.monotonic()
    left = list(zip(paths, dues_seconds, strict=True))[::-1]
    visits = []

    async def one_user() -> None:
        while left and time.monotonic() - begin <= dues_seconds[-1]:
            path, due = left.pop()
            await asyncio.sleep(begin + due - time.monotonic())
            sent = time.monotonic()
            visits.append(await _visit(port, path, sent - begin, sent, patience_seconds))

    await asyncio.gather(*(one_user() for _ in range(users)))
    return sorted(visits, key=lambda visit: visit.due_seconds)


async def _visit(
    port: int, path: str, due_seconds: float, since: float, patience_seconds: float
) -> Visit:
    try:
        async with asyncio.timeout_at(
            asyncio.get_running_loop().time() + since + patience_seconds - time.monotonic()
        ):
            await get(port, path)
    except (TimeoutError, OSError):
        return Visit(due_seconds, patience_seconds, is_answered=False)
    return Visit(due_seconds, time.monotonic() - since, is_answered=True)
