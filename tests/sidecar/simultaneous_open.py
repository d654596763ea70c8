"""A stranger has the other end of a connection, though an honest server listens at the port."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

_HANG_UP = struct.pack("ii", 1, 0)
_HOST, _MAPPED = "127.0.0.1", "::ffff:127.0.0.1"


@contextmanager
def stranger_beside_a_server(
    with_decoy: bool,
) -> Iterator[tuple[socket.socket, socket.socket, int]]:
    """A server that listens; another user's socket, which was bound there before; and the port at
    which that waits: who connects from it to the server has the stranger.

    ``with_decoy``: a connection between the same addresses has ended, and the kernel's table has
    that before the stranger's: by its device it is another one, by its version it comes first.
    """
    with ExitStack() as stack:
        os.seteuid(65534)
        try:
            stranger = stack.enter_context(_socket(0, _MAPPED if with_decoy else _HOST))
            port = stranger.getsockname()[1]
            decoy = _socket(port, device=b"lo") if with_decoy else None
        finally:
            os.seteuid(0)
        server = stack.enter_context(_socket(port))
        server.listen()
        # His SYN is neither taken nor refused here, so he goes on waiting for its answer.
        with _socket(0) as full:
            full.listen(0)
            waits_at = full.getsockname()[1]
            if decoy is not None:
                with decoy:
                    decoy.connect((_HOST, waits_at))
                full.accept()[0].close()
            crowd = [_socket(0) for _ in range(2)]
            for one in [*crowd, stranger]:
                one.setblocking(False)
                with suppress(BlockingIOError):
                    one.connect((one.getsockname()[0], waits_at))
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


def _socket(port: int, host: str = _HOST, device: bytes = b"") -> socket.socket:
    made = socket.socket(socket.AF_INET6 if host == _MAPPED else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if device:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
    made.bind((host, port))
    return made
