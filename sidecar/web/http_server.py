"""An HTTP server in threads of its own, which no client can hold up."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

log = logging.getLogger(__name__)

CLIENT_SECONDS = 10.0
# One more, and the oldest is hung up on: who sends a byte a second keeps nobody out.
MOST_CONNECTIONS = 32
_BACKLOG = 128


class HttpServer(ThreadingHTTPServer):
    """Serves a listening socket until ``close``."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("", 0), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self._open: dict[int, socket.socket] = {}  # by file descriptor, the oldest first
        self._opening = threading.Lock()
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.1}, name="operators", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Take no more requests; those that are being answered are not waited for."""
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
        self.server_close()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = self.socket.accept()
        with self._opening:
            if len(self._open) >= MOST_CONNECTIONS:
                oldest = self._open.pop(next(iter(self._open)))
                _hang_up(oldest)
            self._open[connection.fileno()] = connection
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._opening:
            # Not one that was hung up on, whose number a newer one may have.
            number = request.fileno()
            if self._open.get(number) is request:
                del self._open[number]
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            log.debug("a client is gone: %s", error)
        else:
            log.error("a request could not be answered", exc_info=error)


def bind_tcp(address: tuple[str, int]) -> socket.socket:
    """A listening socket. Raises OSError, with the address."""
    host, port = address
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(
            f"operators.listen: {host}:{port} cannot be bound: {error.strerror}"
        ) from error
    return listening


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        log.debug("a client has hung up first: %s", error)
