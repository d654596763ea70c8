"""Serves the sidecar to its operators: at a Unix socket, and at a TCP port if one is configured."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from socket import socket

from sidecar.base.http_journal import HttpJournal
from sidecar.base.rate_limit import RateLimit
from sidecar.config.operators import OperatorsConfig
from sidecar.control.sidecar_view import SidecarView
from sidecar.web.routes import Documents, operators_router
from sidecar.web.token_file import TokenFile
from sidecar.web.unix_socket import UnixSocket
from solver_lambda.http.connection import Limits
from solver_lambda.http.guards import NobodyGuard, PeerGuard, TokenGuard
from solver_lambda.http.listening import LOCALHOST, listen_at
from solver_lambda.http.router import Router
from solver_lambda.http.server import HttpServer

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
LIMITS = Limits(connections=96)


class OperatorsServer:
    """Answers in threads of its own from ``start`` to ``close``; a context manager, too.

    Nothing here takes a lock of the sidecar or waits for a server, but for what an order does. An
    address that cannot be bound is a problem, which ``look`` tries to mend.

    Attributes:
        port: that is bound, if one is.
    """

    def __init__(self, config: OperatorsConfig, watched: SidecarView) -> None:
        self._config = config
        self._watched = watched
        documents = Documents(watched)
        self.unix_router = operators_router(
            documents, watched, PeerGuard(), RateLimit(burst=30, seconds=1.0)
        )
        guard = _tcp_guard(config.token)
        self._token: TokenFile | None = None
        if config.token_path is not None and isinstance(guard, TokenGuard):
            self._token = TokenFile(config.token_path, guard, watched.metrics)
        # With a bucket of its own, so that a flood there does not lock out whoever is here.
        self.tcp_router = operators_router(
            documents,
            watched,
            guard,
            RateLimit(burst=10, seconds=2.0),
            anywhere=config.anywhere,
        )
        self._unix: tuple[UnixSocket, HttpServer] | None = None
        self._tcp: HttpServer | None = None
        self._troubles: dict[str, str] = {}
        self._looked_at = time.monotonic()
        self.port: int | None = None

    def start(self) -> None:
        """Bind and answer, as far as it can be done now."""
        self._serve_what_is_not_served()

    def close(self) -> None:
        """Answer no more; returns at once, and may be called twice."""
        if self._tcp is not None:
            self._tcp.close()
        self._tcp = None
        self._close_unix()

    def look(self) -> None:
        """Bind again and again, by one thread, what could not be bound. Make the socket anew if
        somebody has removed it."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        if self._token is not None:
            self._token.look()
        if self._unix is not None and self._unix[0].is_gone:
            self._watched.metrics.operators_sockets_gone.inc()
            self._close_unix()
            self._serve_what_is_not_served()
            if self._unix is not None:
                log.warning("operators.socket: %s was gone, it is there again", self._config.socket)
            return
        self._serve_what_is_not_served()

    def problems(self) -> list[str]:
        """Say where nobody can reach the sidecar, or with an old token, for people."""
        old = self._token.problem if self._token else None
        return [*self._troubles.values(), *([old] if old else [])]

    def not_served(self) -> list[str]:
        """Return the keys of ``[operators]`` whose address cannot be bound."""
        return list(self._troubles)

    def _serve_what_is_not_served(self) -> None:
        # The port first, so that whoever asks at the socket hears whether it is served.
        if self._config.listen is not None and self._tcp is None:
            self._try("listen", self._serve_tcp)
        if self._config.socket is not None and self._unix is None:
            self._try("socket", self._serve_unix)

    def _try(self, key: str, serve: Callable[[], None]) -> None:
        try:
            serve()
        except OSError as error:
            self._watched.metrics.operators_not_bound.labels(key).inc()
            words = f"operators.{key}: {error.strerror or error}, so nobody is served there"
            self._troubles = {**self._troubles, key: f"{words}; it is tried again"}
            log.warning("%s", self._troubles[key])
            return
        if key in self._troubles:
            self._troubles = {k: words for k, words in self._troubles.items() if k != key}
            log.info("operators.%s: it is served now", key)

    def _close_unix(self) -> None:
        if self._unix is not None:
            unix, server = self._unix
            self._unix = None
            server.close()
            unix.close()

    def _serve_unix(self) -> None:
        assert self._config.socket is not None
        unix = UnixSocket(self._config.socket, self._config.group)
        self._unix = (unix, self._serve([unix.listening], self.unix_router))

    def _serve_tcp(self) -> None:
        assert self._config.listen is not None
        host, port = self._config.listen
        listening = listen_at(host, port)
        self.port = int(listening[0].getsockname()[1])
        if host == LOCALHOST and len(listening) == 1:
            log.warning("operators.listen: this machine has no IPv6, so 127.0.0.1 is all")
        self._tcp = self._serve(listening, self.tcp_router)
        shown = f"[{host}]" if ":" in host else host
        log.info("operators: the page is at http://%s:%d/", shown, self.port)

    def _serve(self, listening: Sequence[socket], router: Router) -> HttpServer:
        journal = HttpJournal(self._watched.metrics.requests_refused)
        server = HttpServer(listening, router, LIMITS, journal, "operators")
        server.start()
        return server

    def __enter__(self) -> OperatorsServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _tcp_guard(token: str | None) -> TokenGuard | NobodyGuard:
    if token is None:
        return NobodyGuard(
            "no_token",
            "orders are not taken here: operators.token_file is not set, so use the commands",
        )
    return TokenGuard(token, "orders need the token of operators.token_file")
