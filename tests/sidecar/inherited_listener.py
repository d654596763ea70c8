"""A stranger's process with a listening socket that root has made, as inetd and systemd give it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager


class Stranger:
    """He accepts once he is told to.

    Attributes:
        address: where the socket listens.
    """

    def __init__(self, address: tuple[str, int], orders: socket.socket) -> None:
        self.address = address
        self._orders = orders
        self._has_accepted = False

    def accept(self) -> None:
        """Returns when he has the connection."""
        if not self._has_accepted:
            self._has_accepted = True
            self._orders.send(b"accept")
            assert self._orders.recv(8) == b"accepted"

    def heard(self) -> bytes:
        """Return what he heard; he ends with it."""
        self.accept()
        return self._orders.recv(1000).removeprefix(b"heard ")


@contextmanager
def stranger_with_inherited_socket() -> Iterator[Stranger]:
    """Start a stranger; this takes root."""
    orders, his = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with orders, his, socket.create_server(("127.0.0.1", 0)) as listening:
        child = os.fork()
        if child == 0:
            try:
                os.setgid(65534)
                os.setuid(65534)
                orders.close()
                if his.recv(6):
                    connected = listening.accept()[0]
                    his.send(b"accepted")
                    his.send(b"heard " + connected.recv(900))
            finally:
                os._exit(0)
        his.close()
        orders.settimeout(20)
        yield Stranger(listening.getsockname(), orders)
        orders.close()
        os.waitpid(child, 0)
