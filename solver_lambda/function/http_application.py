"""The solver over HTTP, a WSGI application (PEP 3333): POST an observation, the plan answers.

This is all that Knative, OpenFaaS and Fission ask of a container: a port that answers. They choose
the path, so that every one is the same, but those that they ask for health.
"""

from __future__ import annotations

import hmac
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from solver_lambda.documents.document_key import (
    HEADER,
    answer_signature,
    is_signature,
    question_signature,
)
from solver_lambda.documents.observation import MAX_OBSERVATION_BYTES
from solver_lambda.function.answering import RefusedError, answer_document

# Asked without a token; the second one by OpenFaaS.
HEALTH_PATHS = ("/healthz", "/_/health")
# Beyond that many at once a plan only takes longer, and each takes memory.
MOST_AT_ONCE = 2 * (os.cpu_count() or 1)
WAIT_SECONDS = 5.0
RETRY_AFTER_SECONDS = 5
MAX_HEADER_TOKEN = 4096
SOURCE = "the observation"

StartResponse = Callable[[str, list[tuple[str, str]]], object]


class _Answer(NamedTuple):
    status: HTTPStatus
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class SolverApplication:
    """Answers each observation with its plan and keeps neither.

    Statuses: 200 the plan; 401 the token is wrong; 403 the signature is; 405, 411, 413 not such a
    request; 422 the observation is refused; 503 too many at once. All but 200 carry
    ``{"error": sentence}``.

    Args:
        token: that a request must carry (``Authorization: Bearer``); empty: none.
        environment: as for ``read_observation``.
        key: by which requests must be signed, and answers are; empty: none.
    """

    def __init__(
        self, token: str, environment: Mapping[str, str] = os.environ, key: bytes = b""
    ) -> None:
        self._token = token
        self._key = key
        self._environment = environment
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)

    def __call__(self, request: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        answer = self._answer(request)
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(answer.body))),
            *answer.headers,
        ]
        start_response(f"{answer.status.value} {answer.status.phrase}", headers)
        return [answer.body]

    def _answer(self, request: dict[str, Any]) -> _Answer:
        method = request["REQUEST_METHOD"]
        if method == "GET" and request.get("PATH_INFO") in HEALTH_PATHS:
            return _READY
        if not self._may_ask(request.get("HTTP_AUTHORIZATION", "")):
            why = "the token in the Authorization header is missing or wrong"
            return _refused(HTTPStatus.UNAUTHORIZED, why, ("WWW-Authenticate", "Bearer"))
        if method == "GET":
            return self._signed(request, b"", lambda _: _READY)
        if method != "POST":
            why = f"POST an observation, not {method}"
            return _refused(HTTPStatus.METHOD_NOT_ALLOWED, why, ("Allow", "GET, POST"))
        observation = _body(request)
        if isinstance(observation, _Answer):
            return observation
        return self._signed(request, observation, self._plan)

    def _signed(
        self, request: dict[str, Any], question: bytes, answer_to: Callable[[bytes], _Answer]
    ) -> _Answer:
        """The answer, if the question is signed, where there is a key."""
        if not self._key:
            return answer_to(question)
        given = request.get("HTTP_X_SPREDS_SIGNATURE")
        if not is_signature(given, question_signature(self._key, question)):
            return _refused(HTTPStatus.FORBIDDEN, f"the signature in {HEADER} is missing or wrong")
        answer = answer_to(question)
        if answer.status is not HTTPStatus.OK:
            return answer
        signature = answer_signature(self._key, question, answer.body)
        return answer._replace(headers=(*answer.headers, (HEADER, signature)))

    def _may_ask(self, authorization: str) -> bool:
        if not self._token:
            return True
        scheme, _, given = authorization[:MAX_HEADER_TOKEN].partition(" ")
        right = hmac.compare_digest(given.strip().encode(errors="replace"), self._token.encode())
        return scheme.lower() == "bearer" and right

    def _plan(self, observation: bytes) -> _Answer:
        # Not before the whole observation is there: who sends slowly holds up nobody.
        if not self._free.acquire(timeout=WAIT_SECONDS):
            why = f"{MOST_AT_ONCE} plans are being made, and that is the most at once"
            retry = ("Retry-After", str(RETRY_AFTER_SECONDS))
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, why, retry)
        try:
            return _Answer(HTTPStatus.OK, answer_document(observation, SOURCE, self._environment))
        except RefusedError as error:
            return _refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        finally:
            self._free.release()


def _body(request: dict[str, Any]) -> bytes | _Answer:
    """The observation, or why there is none."""
    length = request.get("CONTENT_LENGTH") or ""
    if not (length.isascii() and length.isdigit()):
        return _refused(HTTPStatus.LENGTH_REQUIRED, "the Content-Length is missing")
    if len(length) > 9 or int(length) > MAX_OBSERVATION_BYTES:
        why = f"an observation has at most {MAX_OBSERVATION_BYTES} bytes, not {length[:20]}"
        return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
    text: bytes = request["wsgi.input"].read(int(length))
    if len(text) < int(length):
        return _refused(HTTPStatus.BAD_REQUEST, f"only {len(text)} of {length} bytes came")
    return text


_READY = _Answer(HTTPStatus.OK, b'{"status": "ready"}\n')


def _refused(status: HTTPStatus, why: str, *headers: tuple[str, str]) -> _Answer:
    return _Answer(status, json.dumps({"error": why}).encode() + b"\n", headers)
