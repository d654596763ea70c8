"""Serves the sidecar to its operators: at a Unix socket, and at a TCP port if one is configured."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack

from sidecar.config.operators import OperatorsConfig
from sidecar.control.watched import Watched
from sidecar.web.handler import Handler, TcpHandler, UnixHandler
from sidecar.web.http_server import HttpServer, bind_tcp
from sidecar.web.routes import Routes
from sidecar.web.unix_socket import UnixSocket

log = logging.getLogger(__name__)


class OperatorsServer:
    """Answers in threads of its own from ``start`` to ``close``; a context manager, too.

    Nothing here takes a lock of the sidecar or waits for a server, but for what an order does.
    """

    def __init__(self, config: OperatorsConfig, watched: Watched) -> None:
        self._config = config
        self._watched = watched
        self._routes = Routes(watched)
        self._running = ExitStack()
        self.port: int | None = None

    def start(self) -> None:
        """Bind and answer.

        Raises:
            OSError: an address cannot be bound; then nothing is.
        """
        with ExitStack() as undone:
            undone.push(self._running)
            if self._config.socket is not None:
                self._serve_unix()
            if self._config.listen is not None:
                self._serve_tcp(self._config.listen)
            undone.pop_all()

    def close(self) -> None:
        """Answer no more; returns at once, and may be called twice."""
        self._running.close()

    def _serve_unix(self) -> None:
        assert self._config.socket is not None
        unix = UnixSocket(self._config.socket, self._config.group)
        self._running.callback(unix.close)
        self._serve(HttpServer(unix.listening, self._handler(UnixHandler, {})))

    def _serve_tcp(self, address: tuple[str, int]) -> None:
        known = {"anywhere": self._config.anywhere, "token": self._config.token}
        listening = bind_tcp(address)
        self.port = int(listening.getsockname()[1])
        self._serve(HttpServer(listening, self._handler(TcpHandler, known)))
        log.info("operators: the page is at http://%s:%d/", _in_url(address[0]), self.port)

    def _serve(self, server: HttpServer) -> None:
        self._running.callback(server.close)
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
