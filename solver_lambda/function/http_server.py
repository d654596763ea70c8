"""``python -m solver_lambda serve`` runs the solver behind a port, with nothing but Python.

It is the solver over HTTP: POST an observation, the plan answers.

This is all that Knative, OpenFaaS and Fission ask of a container: a port that answers. They choose
the path, so that every one is the same, but those that they ask for health.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

from solver_lambda.documents.document_key import (
    HEADER,
    NONCE_HEADER,
    answer_signature,
    check_key,
    is_signature,
    question_signature,
)
from solver_lambda.documents.observation import MAX_OBSERVATION_BYTES
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.function.answering import RefusedError as ObservationRefusedError
from solver_lambda.function.answering import log_event, plan_fields, plan_for
from solver_lambda.function.large_observations import LargeObservations
from solver_lambda.http.connection import Limits
from solver_lambda.http.guards import Admitted, TokenGuard, anybody
from solver_lambda.http.listening import listen_at
from solver_lambda.http.message import JSON, Answer, Peer, RefusedError, Request, json_answer
from solver_lambda.http.router import ANY_PATH, Lane, Route, Router
from solver_lambda.http.server import HttpServer
from solver_lambda.secret import SecretError, read_secret, why_no_token

# Asked without a token; the second one by OpenFaaS.
HEALTH_PATHS = ("/healthz", "/_/health")
# More at once only make each plan take longer, and each takes memory.
MOST_AT_ONCE = 2 * (os.cpu_count() or 1)
MOST_WAITING = 128
WAIT_SECONDS = 5.0
SOURCE = "the observation"

Handler = Callable[[Request, Admitted], Answer]


def solver_router(
    token: str,
    environment: Mapping[str, str] = os.environ,
    key: bytes = b"",
    journal: ServiceJournal | None = None,
) -> Router:
    """Answers each observation with its plan and keeps neither.

    Statuses: 200 the plan; 401 the token is wrong; 403 the signature is; 405, 411, 413 not such a
    request; 422 the observation is refused; 503 too many at once. All but 200 carry
    ``{"error": sentence}``.

    Args:
        token: that a request must carry (``Authorization: Bearer``); empty: none.
        environment: as for ``read_observation``.
        key: by which requests must be signed, and answers are; empty: none.
        journal: where plans are told.
    """
    journal = journal or ServiceJournal()
    why = "the token in the Authorization header is missing or wrong"
    guard: Callable[[Request], Admitted] = TokenGuard(token, why) if token else anybody
    # Half is left to others, also where many nodes share an address.
    plans = Lane(MOST_AT_ONCE, MOST_WAITING, WAIT_SECONDS, MOST_AT_ONCE // 2, MOST_WAITING // 2)
    looks = Lane(most=4, most_waiting=16, most_of_one=2, most_waiting_of_one=8)

    large = LargeObservations()

    def answer(request: Request, _: Admitted) -> Answer:
        try:
            with large.reading(len(request.body)):
                plan = plan_for(request.body, SOURCE, environment)
        except ObservationRefusedError as error:
            raise RefusedError(
                HTTPStatus.UNPROCESSABLE_ENTITY, "observation", str(error)
            ) from error
        journal.planned(plan)
        return Answer(HTTPStatus.OK, plan.dumps(), JSON)

    return Router(
        [
            *(Route("GET", path, anybody, _ready, None) for path in HEALTH_PATHS),
            Route("GET", ANY_PATH, guard, _signed(key, _ready), looks),
            Route("POST", ANY_PATH, guard, _signed(key, answer), plans, MAX_OBSERVATION_BYTES),
        ]
    )


def _signed(key: bytes, handle: Handler) -> Handler:
    """Answers only what is signed, where there is a key, and signs its answers and refusals."""

    def handle_signed(request: Request, proof: Admitted) -> Answer:
        given = request.headers.get(HEADER.lower())
        # A sidecar of before there were nonces sends none.
        question = request.body or request.headers.get(NONCE_HEADER.lower(), "").encode()
        if not is_signature(given, question_signature(key, question)):
            why = f"the signature in {HEADER} is missing or wrong"
            raise RefusedError(HTTPStatus.FORBIDDEN, "signature", why)

        def signed(answer: Answer) -> Answer:
            signature = answer_signature(key, question, answer.body, answer.status)
            return replace(answer, headers={**answer.headers, HEADER: signature})

        try:
            return signed(handle(request, proof))
        except RefusedError as refused:
            refused.answer = signed(refused.answer)
            raise

    return handle_signed if key else handle


def _ready(_request: Request, _: Admitted) -> Answer:
    return json_answer({"status": "ready"})


DEFAULT_PORT = 8080
# An observation may be large, and its line slow; who may not ask sends none.
LIMITS = Limits(connections=256, held_bytes=8 * MAX_OBSERVATION_BYTES, request_seconds=60.0)
MOST_LINES_A_MINUTE = 30
MOST_SERVERS_IN_A_LINE = 32
# For the plans that are being made at the end.
FINISH_SECONDS = 10.0


class UsageError(Exception):
    """The service cannot be started so; one sentence says why."""


class _Lines:
    """Logs JSON lines of one kind: no more than so many a minute, and how many were left out
    before."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._lock = threading.Lock()
        self._minute, self._told, self._untold = 0, 0, 0

    def log(self, **fields: object) -> None:
        with self._lock:
            minute = int(time.monotonic() / 60)
            if minute != self._minute:
                self._minute, self._told = minute, 0
            if self._told >= MOST_LINES_A_MINUTE:
                self._untold += 1
                return
            self._told += 1
            untold, self._untold = self._untold, 0
        log_event(self._event, **fields, untold_before=untold)


class ServiceJournal:
    """Logs for the service, so that nobody who asks can fill the log: each kind of line has a
    bound."""

    def __init__(self) -> None:
        self._plans, self._refusals, self._failures = (
            _Lines(event) for event in ("plan", "request_refused", "request_failed")
        )

    def planned(self, plan: AdaptationPlan) -> None:
        self._plans.log(**plan_fields(plan, MOST_SERVERS_IN_A_LINE))

    def refused(self, peer: Peer, code: str, why: str) -> None:
        self._refusals.log(client=peer.user, code=code, reason=why)

    def failed(self, what: str, error: Exception) -> str:
        self._failures.log(request=what, reason=repr(error))
        return "the solver cannot answer this; its log says why"


def serve(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or Ctrl-C. Returns the exit code."""
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
    journal = ServiceJournal()
    router = solver_router(token, key=key, journal=journal)
    server = HttpServer([listening], router, LIMITS, journal, "solver")
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
    """Return the token, ``""`` without one. Raises UsageError."""
    key, token = _secret("SPREDS_TOKEN")
    if token is None:
        return ""
    if why := why_no_token(token):
        raise UsageError(f"{key} {why}")
    return token


def _key() -> bytes:
    """Return the key, empty without one. Raises UsageError."""
    name, key = _secret("SPREDS_KEY")
    try:
        return b"" if key is None else check_key(key)
    except ValueError as error:
        raise UsageError(f"{name} {error}") from error


def _secret(name: str) -> tuple[str, str | None]:
    """Return where a secret is, for messages, and the secret; ``None``: there is none. Raises
    UsageError."""
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
