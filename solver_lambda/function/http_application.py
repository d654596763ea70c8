"""The solver over HTTP: POST an observation, the plan answers.

This is all that Knative, OpenFaaS and Fission ask of a container: a port that answers. They choose
the path, so that every one is the same, but those that they ask for health.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus

from solver_lambda.documents.document_key import (
    HEADER,
    NONCE_HEADER,
    answer_signature,
    is_signature,
    question_signature,
)
from solver_lambda.documents.observation import MAX_OBSERVATION_BYTES
from solver_lambda.function.answering import RefusedError as ObservationRefusedError
from solver_lambda.function.answering import answer_document
from solver_lambda.http.guards import Admitted, TokenGuard, anybody
from solver_lambda.http.message import JSON, Answer, RefusedError, Request, json_answer
from solver_lambda.http.router import ANY_PATH, Lane, Route, Router

# Asked without a token; the second one by OpenFaaS.
HEALTH_PATHS = ("/healthz", "/_/health")
# Beyond that many at once a plan only takes longer, and each takes memory.
MOST_AT_ONCE = 2 * (os.cpu_count() or 1)
MOST_WAITING = 128
WAIT_SECONDS = 5.0
SOURCE = "the observation"

Handler = Callable[[Request, Admitted], Answer]


def solver_router(
    token: str, environment: Mapping[str, str] = os.environ, key: bytes = b""
) -> Router:
    """Answers each observation with its plan and keeps neither.

    Statuses: 200 the plan; 401 the token is wrong; 403 the signature is; 405, 411, 413 not such a
    request; 422 the observation is refused; 503 too many at once. All but 200 carry
    ``{"error": sentence}``.

    Args:
        token: that a request must carry (``Authorization: Bearer``); empty: none.
        environment: as for ``read_observation``.
        key: by which requests must be signed, and answers are; empty: none.
    """
    why = "the token in the Authorization header is missing or wrong"
    guard: Callable[[Request], Admitted] = TokenGuard(token, why) if token else anybody
    # Half is left to others, also where many nodes share an address.
    plans = Lane(MOST_AT_ONCE, MOST_WAITING, WAIT_SECONDS, MOST_AT_ONCE // 2, MOST_WAITING // 2)
    looks = Lane(most=4, most_waiting=16, most_of_one=2, most_waiting_of_one=8)

    def plan(request: Request, _: Admitted) -> Answer:
        try:
            document = answer_document(request.body, SOURCE, environment)
        except ObservationRefusedError as error:
            raise RefusedError(
                HTTPStatus.UNPROCESSABLE_ENTITY, "observation", str(error)
            ) from error
        return Answer(HTTPStatus.OK, document, JSON)

    return Router(
        [
            *(Route("GET", path, anybody, _ready, None) for path in HEALTH_PATHS),
            Route("GET", ANY_PATH, guard, _signed(key, _ready), looks),
            Route("POST", ANY_PATH, guard, _signed(key, plan), plans, MAX_OBSERVATION_BYTES),
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
