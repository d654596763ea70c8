"""Makes TCP sockets to listen at."""

from __future__ import annotations

import errno
import os
import socket

from solver_lambda.http.listening_sockets import beside

# An accepted client may be hung up on. One that is not waits for a second, and tries again.
BACKLOG = 1024
LOCALHOST = "localhost"
# Take both or neither: at the other one somebody else could wait for those who follow the name.
_LOCAL = ("127.0.0.1", "::1")
_NO_SUCH_FAMILY = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENODEV)
_TRIES = 10


def listen_at(host: str, port: int) -> list[socket.socket]:
    """Return one socket, or two for ``localhost``, whose both families are taken; one where the
    machine has no IPv6. ``host`` is that name or the number of an address, and port 0 any port.

    Raises:
        OSError: it cannot be bound; then nothing is.
    """
    if host != LOCALHOST:
        return [_listen(host, port)]
    for _ in range(_TRIES):
        first = _listen(_LOCAL[0], port)
        try:
            return [first, _listen(_LOCAL[1], port or first.getsockname()[1])]
        except OSError as error:
            if error.errno in _NO_SUCH_FAMILY:
                return [first]
            first.close()
            if port or error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, "no port is free for both 127.0.0.1 and [::1]")


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listen_alone(host, port)
    except OSError as error:
        shown = f"[{host}]" if ":" in host else host
        raise OSError(error.errno, f"{shown}:{port} cannot be bound: {error.strerror}") from error


def listen_alone(host: str, port: int) -> socket.socket:
    """Return a socket where nobody else is bound.

    ``SO_REUSEADDR`` would let another user have the port bound beside us; from there he can connect
    to our clients as they connect to us. ``SO_REUSEPORT`` lets no other user, and does not wait for
    connections of an earlier process. It lets our own user, who is looked for.

    Raises:
        OSError: it cannot be bound.
    """
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((host, port))
        _refuse_beside(listening)
        listening.listen(BACKLOG)
        # Of two that begin at one moment, at least one sees the other.
        _refuse_beside(listening)
    except OSError:
        listening.close()
        raise
    return listening


def _refuse_beside(listening: socket.socket) -> None:
    if beside(listening):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
