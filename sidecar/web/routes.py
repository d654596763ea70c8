"""What is answered to which request."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from prometheus_client.exposition import CONTENT_TYPE_LATEST

from sidecar.control.order import Order, OrderRefusedError
from sidecar.control.watched import Watched
from sidecar.web.answer import Answer, RefusedError, json_answer
from sidecar.web.exposition import exposition
from sidecar.web.health import why_not_live, why_not_ready
from sidecar.web.page import load_page
from solver_lambda.documents.json_text import parse_json
from solver_lambda.documents.reader import DocumentError, Fields

MOST_BODY_BYTES = 16 * 1024
DEFAULT_ENTRIES, MOST_ENTRIES = 200, 10_000
ORDERS_PATH = "/api/orders"


@dataclass(frozen=True)
class Request:
    """What a client asks.

    Attributes:
        target: path and query.
        user: who asks, as the system or the token says.
    """

    method: str
    target: str
    user: str
    body: bytes = b""


class Routes:
    """Answers requests about one sidecar, from any thread."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._page = load_page()
        self._pages: dict[str, Callable[[str], Answer]] = {
            "/": lambda _: self._page,
            "/livez": lambda _: self._health("lives", why_not_live(watched.status())),
            "/readyz": lambda _: self._health("is_ready", why_not_ready(watched.status())),
            "/metrics": lambda _: self._metrics(),
            "/api/status": lambda _: json_answer(watched.status()),
            "/api/series": lambda _: json_answer(watched.series()),
            "/api/history": self._history,
        }

    def answer(self, request: Request) -> Answer:
        """Raises RefusedError."""
        try:
            parts = urlsplit(request.target)
        except ValueError as error:
            raise _malformed("the address of the page is malformed") from error
        path = parts.path
        if path == ORDERS_PATH:
            if request.method != "POST":
                raise _wrong_method(path, "POST")
            return self._order(request)
        if path not in self._pages:
            raise RefusedError(HTTPStatus.NOT_FOUND, "unknown_path", "there is no such page")
        if request.method not in ("GET", "HEAD"):
            raise _wrong_method(path, "GET, HEAD")
        return self._pages[path](parts.query)

    def _health(self, what: str, why_not: str | None) -> Answer:
        status = HTTPStatus.OK if why_not is None else HTTPStatus.SERVICE_UNAVAILABLE
        return json_answer({what: why_not is None, "why_not": why_not}, status)

    def _metrics(self) -> Answer:
        body = exposition(self._watched.status(), self._watched.metrics)
        return Answer(HTTPStatus.OK, body, CONTENT_TYPE_LATEST)

    def _history(self, query: str) -> Answer:
        text = parse_qs(query).get("limit", [str(DEFAULT_ENTRIES)])[-1]
        if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) > 0):
            raise _malformed("limit must be a whole number above 0")
        return json_answer(self._watched.history(min(int(text), MOST_ENTRIES)))

    def _order(self, request: Request) -> Answer:
        try:
            parse_json(request.body, "the order", MOST_BODY_BYTES)
            table = json.loads(request.body)  # within the bounds that were checked now
            named = table.get("by") is not None
            order = Order.from_json(Fields({**table, "by": table.get("by") or "-"}, "the order"))
        except DocumentError as error:
            raise _malformed(str(error)) from error
        order = replace(order, by=f"{order.by}, as {request.user}" if named else request.user)
        try:
            return json_answer({"done": self._watched.order(order)})
        except OrderRefusedError as error:
            raise RefusedError(HTTPStatus.CONFLICT, "order", str(error)) from error


def _malformed(why: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, "malformed", why)


def _wrong_method(path: str, allowed: str) -> RefusedError:
    return RefusedError(
        HTTPStatus.METHOD_NOT_ALLOWED, "method", f"{path} takes {allowed}", {"Allow": allowed}
    )
