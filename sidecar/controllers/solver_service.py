"""Asks the controller behind HTTP: an observation is POSTed, and the answer is its plan."""

from __future__ import annotations

import http.client
import io
import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html import unescape
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from sidecar.base.connection_deadlines import handshake_ended_after
from sidecar.base.hidden_secrets import without_secrets
from sidecar.base.metrics import Metrics
from sidecar.base.tls_context import client_context
from sidecar.config.addresses import numbered_host, shown_url
from sidecar.config.controller_config import ServiceConfig
from sidecar.controllers.controller import Failed
from sidecar.controllers.direct import DirectController
from sidecar.controllers.kept_folder import KeptFolder
from sidecar.plans.plan_check import TakePlan
from sidecar.servers.back_off import BackOff
from solver_lambda.documents.document_key import (
    HEADER,
    NONCE_HEADER,
    answer_signature,
    is_signature,
    question_signature,
)
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import MAX_PLAN_BYTES
from solver_lambda.http.listening_sockets import (
    accepted_ends,
    is_established,
    is_of_this_machine,
    listening_users,
)
from solver_lambda.http.message import users_in_words

log = logging.getLogger(__name__)


class StrangerError(Exception):
    """Says who has the port or our connection, and is neither root nor our user; words for people.
    Any local user may take a solver's port while it is down, or have our connection while it
    listens."""


def check_listener(connected: socket.socket, wait_seconds: float) -> None:
    """Check who has a connection in plain text, before anything is sent. Waits so long until it is
    accepted.

    Raises:
        StrangerError: nothing may be sent.
        OSError: nobody accepts it, or the kernel does not tell.
    """
    if not is_of_this_machine(connected):
        return
    host, port, *_ = connected.getpeername()
    address = ip_address(host)
    _check(listening_users((address,), port), "there listens")
    ends = {end.user_id for end in accepted_ends(connected, wait_seconds)}
    if not ends and not is_established(connected):
        raise ConnectionAbortedError("it hung up before it was sent anything")
    # An unseen listener gets nothing: a port may be forwarded, or a stranger had it a moment ago.
    _check(ends, "our connection has")


def _check(users: set[int], have_it: str) -> None:
    if not users or users - {0, os.geteuid()}:
        who = users_in_words(users) or "nobody who can be seen"
        raise StrangerError(
            f"{have_it} {who}, not our user or root, and nothing was sent: with "
            "controller.key_file and no token, nobody else's plan is believed"
        )


MAX_REASON_CHARACTERS = 300
MOST_ANSWER_BYTES = 2 * MAX_PLAN_BYTES  # of a plan in chunks, whose lengths come with them
MOST_HEAD_BYTES = 16 * 1024
SHOWN_BYTES = 60
_MOST_REASON_BYTES = 64 << 10
_LONG = 8  # characters of a secret
# Who hangs up is asked again after so long, then twice that: for half of the time that there is.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0


class ServiceError(Exception):
    """The service gave no plan; one sentence says why.

    Attributes:
        status: of its answer; ``None``: there was none, or it was no use.
    """

    def __init__(self, words: str, status: int | None = None) -> None:
        super().__init__(words)
        self.status = status


class HungUpError(ServiceError):
    """It hung up. A crowd from many addresses makes a solver do that to the oldest that has not
    asked yet, whoever that is."""


class SolverServiceController(DirectController):
    """Asks a service such as ``python -m solver_lambda serve``.

    ``failed`` is told of an observation that got no answer within the deadline, and why.
    """

    def __init__(
        self,
        service: SolverService,
        take_plan: TakePlan,
        metrics: Metrics,
        documents: KeptFolder,
        failed: Failed,
    ) -> None:
        super().__init__("solver-service", "the service", take_plan, documents)
        self._service = service
        self._metrics = metrics
        self._failed = failed

    def _answer(self, observation: Observation) -> bytes | None:
        try:
            return self._service.answer(observation.dumps())
        except ServiceError as error:
            self._metrics.observations_failed.inc()
            log.warning("observation of cycle %d not answered: %s", observation.cycle, error)
            if not self._closed:
                self._failed(observation, str(error))
            return None


class SolverService:
    """Asks the service over HTTP. No proxy is asked, and no redirection followed.

    An answer that has not come whole after ``limit_seconds`` is none.
    """

    def __init__(self, config: ServiceConfig, limit_seconds: float) -> None:
        self._config = config
        self._limit_seconds = limit_seconds

    def answer(self, observation: bytes) -> bytes:
        """Return the plan's document, unchecked. Raises ServiceError."""
        return self._ask("POST", observation)

    def look(self) -> None:
        """Ask whether it is there, is a solver, and believes us. Raises ServiceError."""
        answer = self._ask("GET", None)
        try:
            is_ready = json.loads(answer) == {"status": "ready"}
        except (ValueError, RecursionError):
            is_ready = False  # a page for browsers, say
        if not is_ready:
            shown = answer[:SHOWN_BYTES].decode("utf-8", "replace")
            raise self._failure(f'is no solver: a GET gets {shown!r}, not {{"status": "ready"}}')

    def _ask(self, method: str, body: bytes | None) -> bytes:
        """Ask once more where it failed, and a file has another secret now. Raises ServiceError."""
        try:
            return self._exchange_again(method, body)
        except ServiceError as error:
            before = self._config
            try:
                self._config = before.read_again()
            except ValueError as unread:
                raise ServiceError(f"{error}; {unread}", error.status) from error
            if self._config == before:
                raise
        return self._exchange(method, body)

    def _exchange_again(self, method: str, body: bytes | None) -> bytes:
        """Ask again where it hangs up, while there is time. Raises ServiceError."""
        began, pauses = time.monotonic(), BackOff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        while True:
            try:
                return self._exchange(method, body)
            except HungUpError:
                pause_seconds = pauses.fail()
                if time.monotonic() - began + pause_seconds > self._limit_seconds / 2:
                    raise
            time.sleep(pause_seconds)

    def _exchange(self, method: str, body: bytes | None) -> bytes:
        url = urlsplit(self._config.url)
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._config.token is not None:
            headers["Authorization"] = f"Bearer {self._config.token}"
        question = body
        if question is None:  # one that was never asked, so that no old answer fits
            headers[NONCE_HEADER] = secrets.token_hex(16)
            question = headers[NONCE_HEADER].encode()
        if self._config.key is not None:
            headers[HEADER] = question_signature(self._config.key, question)
        connection = self._connection()
        try:
            with self._connected(connection):
                self._check_listener(connection.sock)
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                text = answer.read(MAX_PLAN_BYTES + 1)
                if answer.length and len(text) <= MAX_PLAN_BYTES:
                    raise OSError(f"the answer ended {answer.length} bytes too early")
                if len(text) > MAX_PLAN_BYTES:
                    raise OSError(f"more than the {MAX_PLAN_BYTES} bytes of a plan")
        except (OSError, ValueError, http.client.HTTPException) as error:
            failure = self._failure(f"{type(error).__name__}: {error}")
            hung_up = ConnectionResetError | ConnectionAbortedError | BrokenPipeError
            raise HungUpError(str(failure)) if isinstance(error, hung_up) else failure from None
        finally:
            connection.close()
        self._check_signature(question, text, answer)
        if answer.status != 200:
            raise self._failure(f"says {answer.status}: {_reason(text)}", answer.status)
        return text

    @contextmanager
    def _connected(self, connection: http.client.HTTPConnection) -> Iterator[None]:
        """Connect, and end that after its limit, also amid a handshake. Raises TimeoutError."""
        create = connection._create_connection  # type: ignore[attr-defined]
        with ExitStack() as ended:

            def created(address: tuple[str, int], *how: Any) -> socket.socket:
                # As ``numbered``; its certificate is for the name all the same.
                plain: socket.socket = create((numbered_host(address[0]), address[1]), *how)
                ended.enter_context(handshake_ended_after(self._limit_seconds, plain))
                return plain

            connection._create_connection = created  # type: ignore[attr-defined]
            connection.connect()
            yield

    def _check_listener(self, connected: socket.socket) -> None:
        """Whoever signs with the key is known by that. Raises ServiceError."""
        config = self._config
        is_known = not config.is_plain or (config.key is not None and config.token is None)
        if is_known or config.allow_plain_http:
            return
        try:
            check_listener(connected, self._limit_seconds)
        except StrangerError as error:
            raise self._failure(str(error)) from None

    def _check_signature(
        self, question: bytes, text: bytes, answer: http.client.HTTPResponse
    ) -> None:
        """Check it before anything that it says is believed or shown. Raises ServiceError."""
        if self._config.key is None:
            return
        right = answer_signature(self._config.key, question, text, answer.status)
        if is_signature(answer.headers.get(HEADER), right):
            return
        if answer.status == 200:
            raise self._failure("its answer is not signed by controller.key_file or key_env")
        words = f"somebody answered {answer.status} without the key's signature"
        raise self._failure(words, answer.status)

    def _failure(self, words: str, status: int | None = None) -> ServiceError:
        """Say what failed on one line, printable, and without token and query, which a service may
        send back."""
        printable = "".join(sign if sign.isprintable() else " " for sign in words)
        sent = (self._config.token, *_secrets_of(urlsplit(self._config.url).query))
        words = " ".join(without_secrets(printable, sent).split())[:MAX_REASON_CHARACTERS]
        return ServiceError(f"{shown_url(self._config.url)}: {words}", status)

    def _connection(self) -> http.client.HTTPConnection:
        url = urlsplit(self._config.url)
        assert url.hostname is not None
        connection: http.client.HTTPConnection
        if url.scheme == "http":
            connection = http.client.HTTPConnection(
                url.hostname, url.port, timeout=self._limit_seconds
            )
        else:
            context = client_context(self._config.ssl_ca_certs)
            connection = http.client.HTTPSConnection(
                url.hostname, url.port, timeout=self._limit_seconds, context=context
            )
        connection.response_class = _BoundedResponse
        return connection


class _BoundedResponse(http.client.HTTPResponse):
    """Bounds an answer's head and body, chunks included.

    The library takes a hundred lines of 64 KiB for a head, and makes much more of them.
    """

    def begin(self) -> None:
        stream = self.fp
        self.fp = _Bounded(stream, MOST_HEAD_BYTES)  # type: ignore[assignment]
        super().begin()
        # It is closed already where there is no body. Its own bound does not hold for a chunk of a
        # negative length.
        if self.fp is not None:
            self.fp = _Bounded(stream, MOST_ANSWER_BYTES)  # type: ignore[assignment]


class _Bounded:
    """Reads an answer's bytes as ``http.client`` does, chunks' lengths included, up to ``most``."""

    def __init__(self, stream: io.BufferedReader, most: int) -> None:
        self._stream = stream
        self._left = most

    def read(self, amount: int | None = None) -> bytes:
        if amount is None or not 0 <= amount <= self._left:
            amount = self._left + 1
        return self._counted(self._stream.read(amount))

    def readline(self, amount: int = -1) -> bytes:
        return self._counted(self._stream.readline(amount if amount >= 0 else self._left + 1))

    def _counted(self, part: bytes) -> bytes:
        self._left -= len(part)
        if self._left < 0:
            raise OSError("the answer is too long for a plan")
        return part

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()


def _secrets_of(query: str) -> set[str]:
    """Return the query, and each of its longer values as it is sent and as it is meant."""
    values = [value for one in query.split("&") if len(value := one.partition("=")[2]) >= _LONG]
    return {query, *values, *map(unquote, values), *map(unquote_plus, values)}


def _reason(answer: bytes) -> str:
    """Return what a refusal says, without escapes."""
    text = answer[:_MOST_REASON_BYTES].decode("utf-8", "replace")
    try:
        told = json.loads(answer)
        # Other words are a gateway's, not the solver's.
        text = str(told["error"]) if "error" in told else json.dumps(told, ensure_ascii=False)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return " ".join(unescape(text).split())
