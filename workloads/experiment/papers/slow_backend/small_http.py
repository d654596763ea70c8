"""As much of HTTP as a front, a backend and their users need: GET of a path."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

HOST = "127.0.0.1"
# Users of a slow backend queue here before they are heard.
BACKLOG = 4096


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
