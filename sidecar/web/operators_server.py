"""Serves the sidecar to its operators: at a Unix socket, and at a TCP port if one is configured."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack

from sidecar.config.operators import OperatorsConfig
from sidecar.control.watched import Watched
from sidecar.web.handler import Handler, TcpHandler, UnixHandler
from sidecar.web.http_server import HttpServer, bind_tcp
from sidecar.web.routes import Routes
from sidecar.web.unix_socket import UnixSocket

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0


class OperatorsServer:
    """Answers in threads of its own from ``start`` to ``close``; a context manager, too.

    Nothing here takes a lock of the sidecar or waits for a server, but for what an order does.
    """

    def __init__(self, config: OperatorsConfig, watched: Watched) -> None:
        self._config = config
        self._watched = watched
        self._routes = Routes(watched)
        self._running = ExitStack()
        # What is closed for the socket alone.
        self._unix = ExitStack()
        self._listens_at: UnixSocket | None = None
        self._looked_at = time.monotonic()
        self.port: int | None = None

    def start(self) -> None:
        """Bind and answer.

        Raises:
            OSError: an address cannot be bound; then nothing is.
        """
        with ExitStack() as undone:
            undone.push(self._running)
            self._running.callback(self._close_unix)
            if self._config.socket is not None:
                self._serve_unix()
            if self._config.listen is not None:
                self._serve_tcp(self._config.listen)
            undone.pop_all()

    def close(self) -> None:
        """Answer no more; returns at once, and may be called twice."""
        self._running.close()

    def look(self) -> None:
        """Again and again, by one thread: make the socket anew if somebody has removed it."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        if self._config.socket is None or (self._listens_at and not self._listens_at.is_gone):
            return
        self._watched.metrics.operators_sockets_gone.inc()
        self._close_unix()
        try:
            self._serve_unix()
            log.warning("operators.socket: %s was gone, it is there again", self._config.socket)
        except OSError as error:
            log.warning("%s", error)

    def _close_unix(self) -> None:
        self._listens_at = None
        self._unix.close()

    def _serve_unix(self) -> None:
        assert self._config.socket is not None
        unix = UnixSocket(self._config.socket, self._config.group)
        self._unix.callback(unix.close)
        self._listens_at = unix
        self._serve(HttpServer(unix.listening, self._handler(UnixHandler, {})), self._unix)

    def _serve_tcp(self, address: tuple[str, int]) -> None:
        known = {"anywhere": self._config.anywhere, "token": self._config.token}
        listening = bind_tcp(address)
        self.port = int(listening.getsockname()[1])
        self._serve(HttpServer(listening, self._handler(TcpHandler, known)), self._running)
        log.info("operators: the page is at http://%s:%d/", _in_url(address[0]), self.port)

    def _serve(self, server: HttpServer, running: ExitStack) -> None:
        running.callback(server.close)
        server.start()

    def _handler(self, kind: type[Handler], known: Mapping[str, object]) -> type[Handler]:
        of_all = {"routes": self._routes, "metrics": self._watched.metrics}
        return type(kind.__name__, (kind,), {**of_all, **known})

    def __enter__(self) -> OperatorsServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
