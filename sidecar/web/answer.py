"""What goes back to a client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

JSON = "application/json; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """Status, body and headers beyond those that each answer has."""

    status: HTTPStatus
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class RefusedError(Exception):
    """A request is not answered; the message says why, ``code`` counts it."""

    def __init__(
        self, status: HTTPStatus, code: str, why: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(why)
        self.code = code
        self.answer = json_answer({"error": why}, status, headers)


def json_answer(
    document: object, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Answer:
    """Raises ValueError: a number is not finite, which JSON cannot say."""
    body = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    return Answer(status, body + b"\n", JSON, headers or {})
