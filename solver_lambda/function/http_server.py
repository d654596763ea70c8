"""``python -m solver_lambda serve``: the solver behind a port, with nothing but Python."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from solver_lambda.documents.document_key import check_key
from solver_lambda.function.http_application import SolverApplication
from solver_lambda.function.run_log import log_event

DEFAULT_PORT = 8080
LEAST_TOKEN_CHARACTERS = 16
# Whoever sends a byte now and then must not hold one for longer.
CONNECTION_SECONDS = 60.0
SILENCE_SECONDS = 10.0
MOST_CONNECTIONS = 32
# For the plans that are being made at the end.
FINISH_SECONDS = 10.0


class UsageError(Exception):
    """The service cannot be started so; one sentence says why."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread a connection; no more than so many, and none for long."""

    daemon_threads = True
    # Nodes that were restarted together ask together; who does not fit waits to be taken.
    request_queue_size = 4 * MOST_CONNECTIONS

    def __init__(self, address: tuple[str, int], application: SolverApplication) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, _Request)
        self.set_app(application)

    def server_bind(self) -> None:
        # WSGIServer's own looks the host's name up, which may take long.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(timeout=CONNECTION_SECONDS):
            log_event("connection_refused", client=client_address[0], most=MOST_CONNECTIONS)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def finish(self) -> None:
        """Wait until no plan is being made, or for so long."""
        until = time.monotonic() + FINISH_SECONDS
        for _ in range(MOST_CONNECTIONS):
            self._room.acquire(timeout=max(0.0, until - time.monotonic()))

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        limit = threading.Timer(CONNECTION_SECONDS, _end, [request])
        limit.daemon = True
        limit.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        error = sys.exc_info()[1]
        log_event("connection_failed", client=client_address[0], reason=repr(error))


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        connection.shutdown(socket.SHUT_RDWR)


class _Request(WSGIRequestHandler):
    timeout = SILENCE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet, where they fit

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_request(self, *_: object) -> None:
        """What became of each observation is logged, and health is asked for all the time."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        log_event("bad_request", client=self.address_string(), reason=format % args)


def serve(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or Ctrl-C; the exit code."""
    try:
        return _serve(_parser().parse_args(arguments))
    except UsageError as error:
        print(f"solver_lambda serve: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m solver_lambda serve",
        description="Answer each observation that is POSTed with its plan.",
        epilog="SPREDS_TOKEN, or the file that SPREDS_TOKEN_FILE names, has what requests must "
        "carry as 'Authorization: Bearer ...'; SPREDS_KEY, or SPREDS_KEY_FILE, the key by which "
        "they must be signed and answers are. TLS is for what stands before it.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="number of an address (%(default)s)")
    parser.add_argument("--port", type=int, help=f"$PORT, or {DEFAULT_PORT}; 0: any, printed")
    parser.add_argument(
        "--without-token", action="store_true", help="whoever reaches the port may ask"
    )
    return parser


def _serve(arguments: argparse.Namespace) -> int:
    token, key = _token(), _key()
    try:
        is_own = ipaddress.ip_address(arguments.host).is_loopback
    except ValueError as error:
        raise UsageError(f"--host: {error}") from error
    if not (token or key or is_own or arguments.without_token):
        raise UsageError(
            f"--host {arguments.host}: other machines can reach it, so set SPREDS_TOKEN or "
            "SPREDS_TOKEN_FILE, or SPREDS_KEY or SPREDS_KEY_FILE, or say --without-token"
        )
    port = _port(arguments.port)
    try:
        server = _Server((arguments.host, port), SolverApplication(token, key=key))
    except OSError as error:
        raise UsageError(f"{arguments.host}:{port} cannot be bound: {error.strerror}") from error
    with server:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop)
        log_event(
            "listening",
            host=arguments.host,
            port=server.server_port,
            token=bool(token),
            key=bool(key),
        )
        with contextlib.suppress(_Stopped):
            server.serve_forever()
        server.socket.close()  # a load balancer sees at once that nobody listens
        server.finish()
    return 0


class _Stopped(BaseException):
    """A signal ended the service."""


def _stop(*_: object) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # the second one ends it at once
    raise _Stopped


def _port(given: int | None) -> int:
    text = str(given) if given is not None else os.environ.get("PORT") or str(DEFAULT_PORT)
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        key = "the environment variable PORT" if given is None else "--port"
        raise UsageError(f"{key} must be a number up to 65535, not {text!r}")
    return int(text)


def _token() -> str:
    """Raises UsageError."""
    key, token = _secret("SPREDS_TOKEN")
    if token is None:
        return ""
    if not re.fullmatch(rf"[!-~]{{{LEAST_TOKEN_CHARACTERS},}}", token):
        raise UsageError(
            f"{key} must hold one word of at least {LEAST_TOKEN_CHARACTERS} ASCII characters, on "
            "one line"
        )
    return token


def _key() -> bytes:
    """Raises UsageError."""
    name, key = _secret("SPREDS_KEY")
    try:
        return b"" if key is None else check_key(key)
    except ValueError as error:
        raise UsageError(f"{name} {error}") from error


def _secret(name: str) -> tuple[str, str | None]:
    """Where it is, for messages, and the secret; ``None``: there is none. Raises UsageError."""
    path, secret = os.environ.get(f"{name}_FILE"), os.environ.get(name)
    if not path:
        return name, secret or None
    if secret:
        raise UsageError(f"{name} and {name}_FILE are both set: set one of them")
    where = f"{name}_FILE {path!r}"
    try:
        return where, Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"{where} cannot be read: {why}") from error
