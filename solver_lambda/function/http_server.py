"""``python -m solver_lambda serve``: the solver behind a port, with nothing but Python."""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from solver_lambda.documents.document_key import check_key
from solver_lambda.documents.observation import MAX_OBSERVATION_BYTES
from solver_lambda.function.http_application import solver_router
from solver_lambda.function.run_log import log_event
from solver_lambda.http.connection import Limits
from solver_lambda.http.listening import listen_at
from solver_lambda.http.message import Peer
from solver_lambda.http.server import HttpServer
from solver_lambda.secret import SecretError, read_secret, why_no_token

DEFAULT_PORT = 8080
# An observation may be large, and its line slow; who may not ask sends none.
LIMITS = Limits(connections=256, held_bytes=8 * MAX_OBSERVATION_BYTES, request_seconds=60.0)
MOST_LINES_A_MINUTE = 30
# For the plans that are being made at the end.
FINISH_SECONDS = 10.0


class UsageError(Exception):
    """The service cannot be started so; one sentence says why."""


class _Journal:
    """One JSON line for each refusal, but for no more than so many a minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute, self._told, self._untold = 0, 0, 0

    def refused(self, peer: Peer, code: str, why: str) -> None:
        with self._lock:
            minute = int(time.monotonic() / 60)
            if minute != self._minute:
                self._minute, self._told = minute, 0
            if self._told >= MOST_LINES_A_MINUTE:
                self._untold += 1
                return
            self._told += 1
            untold, self._untold = self._untold, 0
        log_event("request_refused", client=peer.user, code=code, reason=why, untold_before=untold)

    def failed(self, what: str, error: Exception) -> str:
        log_event("request_failed", request=what, reason=repr(error))
        return "the solver cannot answer this; its log says why"


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
        (listening,) = listen_at(arguments.host, port)
    except OSError as error:
        raise UsageError(str(error.strerror)) from error
    router = solver_router(token, key=key)
    server = HttpServer([listening], router, LIMITS, _Journal(), "solver")
    bound = listening.getsockname()[1]
    with suppress(_Stopped):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop)
        server.start()
        has = {"token": bool(token), "key": bool(key)}
        log_event("listening", host=arguments.host, port=bound, **has)
        threading.Event().wait()
    # A load balancer sees at once that nobody listens.
    server.close(FINISH_SECONDS)
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
    if why := why_no_token(token):
        raise UsageError(f"{key} {why}")
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
        return where, read_secret(Path(path))
    except SecretError as error:
        raise UsageError(f"{where} {error}") from error
