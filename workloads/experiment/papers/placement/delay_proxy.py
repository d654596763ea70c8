"""A TCP port that is farther away than it is: what is sent through it arrives later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HOST = "127.0.0.1"
CHUNK_BYTES = 1 << 16


@contextmanager
def delayed(port: int, one_way_seconds: float) -> Iterator[int]:
    """Yield a port on which ``port`` is reached with this delay in each direction.

    A connection can be used a round trip later than it was asked for, as over such a network.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="delay proxy", daemon=True)
    thread.start()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # At the end nobody waits for it.
        with suppress(asyncio.CancelledError, OSError):
            await _connect(reader, writer, port, one_way_seconds)

    try:
        starting = asyncio.start_server(accept, HOST, 0)
        server = asyncio.run_coroutine_threadsafe(starting, loop).result()
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _connect(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, one_way_seconds: float
) -> None:
    ready = asyncio.get_running_loop().time() + 2 * one_way_seconds
    far_reader, far_writer = await asyncio.open_connection(HOST, port)
    try:
        await asyncio.gather(
            _pump(reader, far_writer, one_way_seconds, ready),
            _pump(far_reader, writer, one_way_seconds, ready),
        )
    finally:
        writer.close()
        far_writer.close()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one_way_seconds: float, ready: float
) -> None:
    """What is read is written when it has arrived, in its order; the end as well."""
    loop = asyncio.get_running_loop()
    on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        data = b"begun"
        while data:
            try:
                data = await reader.read(CHUNK_BYTES)
            except ConnectionError:
                data = b""
            on_the_way.put_nowait((max(loop.time(), ready) + one_way_seconds, data))

    async def write() -> None:
        data = b"begun"
        while data:
            at, data = await on_the_way.get()
            await asyncio.sleep(at - loop.time())
            with suppress(OSError):
                writer.write(data) if data else writer.write_eof()

    await asyncio.gather(read(), write())


async def _end() -> None:
    """All tasks but this one."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
