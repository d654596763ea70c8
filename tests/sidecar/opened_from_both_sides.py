"""A stranger has the other end of a connection, though an honest server listens at the port."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

_HANG_UP = struct.pack("ii", 1, 0)


@contextmanager
def stranger_beside_a_server() -> Iterator[tuple[socket.socket, socket.socket, int]]:
    """A server that listens; another user's socket, which was bound there before; and the port at
    which that waits: who connects from it to the server has the stranger."""
    with ExitStack() as stack:
        os.seteuid(65534)
        try:
            stranger = stack.enter_context(_socket(0))
        finally:
            os.seteuid(0)
        port = stranger.getsockname()[1]
        server = stack.enter_context(_socket(port))
        server.listen()
        # His SYN is neither taken nor refused here, so he goes on waiting for its answer.
        with _socket(0) as full:
            full.listen(0)
            waits_at = full.getsockname()[1]
            crowd = [_socket(0) for _ in range(2)]
            for one in [*crowd, stranger]:
                one.setblocking(False)
                with suppress(BlockingIOError):
                    one.connect(full.getsockname())
            for one in crowd:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _HANG_UP)
                one.close()
        stranger.settimeout(5)
        yield server, stranger, waits_at


def connect_from(port: int, server: tuple[str, int]) -> socket.socket:
    """A victim's socket, with the port that the kernel would have given it."""
    connected = _socket(port)
    connected.settimeout(5)
    connected.connect(server)
    return connected


def _socket(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made
