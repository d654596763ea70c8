"""TCP sockets to listen at."""

from __future__ import annotations

import errno
import socket

# Whoever is taken may be hung up on; who is not waits for a second, and tries again.
BACKLOG = 1024
LOCALHOST = "localhost"
# Both or neither: on the other one somebody else could wait for those who follow the name.
_LOCAL = ("127.0.0.1", "::1")
_NO_SUCH_FAMILY = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENODEV)
_TRIES = 10


def listen_at(host: str, port: int) -> list[socket.socket]:
    """One socket, or two for ``localhost``, whose both families are taken; one where the machine
    has no IPv6. ``host`` is that name or the number of an address, and port 0 any port.

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
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        shown = f"[{host}]" if ":" in host else host
        raise OSError(error.errno, f"{shown}:{port} cannot be bound: {error.strerror}") from error
    return listening
