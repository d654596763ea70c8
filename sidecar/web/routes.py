"""Says what is answered to which request of a reader."""

from __future__ import annotations

from collections.abc import Callable
from errno import EMFILE, ENFILE
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from prometheus_client.exposition import CONTENT_TYPE_LATEST

from sidecar.base.rate_limit import RateLimit
from sidecar.control.sidecar_view import SidecarView
from sidecar.web.exposition import exposition
from sidecar.web.health import why_not_live, why_not_ready
from sidecar.web.host_header import OwnNames
from sidecar.web.order_route import order_route
from sidecar.web.page import load_page
from sidecar.web.shared_answers import LatestAnswer, PacedAnswers, SharedAnswer
from solver_lambda.http.guards import Anybody, Authorised, anybody
from solver_lambda.http.message import JSON, Answer, RefusedError, Request, json_answer, malformed
from solver_lambda.http.router import Lane, Route, Router

DEFAULT_ENTRIES, MOST_ENTRIES = 200, 500
_MOST_DIGITS = 15


class Documents:
    """Answers readers, from any thread; all listeners of a sidecar share it."""

    def __init__(self, watched: SidecarView) -> None:
        self._watched = watched
        self._page = load_page()
        self._status: SharedAnswer[dict[str, Any]] = SharedAnswer(self._told)
        self._status_now = LatestAnswer(self._told)
        self._metrics = SharedAnswer(self._make_metrics)
        self._histories = PacedAnswers()
        self._status_answer = SharedAnswer(lambda: json_answer(self._status()))
        self._series = SharedAnswer(lambda: json_answer(watched.series()))

    def routes(self) -> list[Route[Anybody]]:
        """Return the routes of everything that whoever reaches the listener may read. Probes of
        health are answered at once, so that no crowd makes a sidecar look dead."""
        reading = Lane(most=8, most_waiting=32, most_of_one=4, most_waiting_of_one=8)
        pages: dict[str, Callable[[Request], Answer]] = {
            "/": lambda _: self._page,
            "/api/history": self._history,
            "/metrics": lambda _: self._metrics(),
            "/api/status": lambda _: self._status_answer(),
            "/api/series": lambda _: self._series(),
        }
        probes: dict[str, Callable[[Request], Answer]] = {
            "/livez": lambda _: _health("lives", why_not_live(self._status_now())),
            "/readyz": lambda _: _health("is_ready", why_not_ready(self._status_now())),
        }
        return [
            Route("GET", path, anybody, _without_proof(page), lane)
            for lane, found in ((None, probes), (reading, pages))
            for path, page in found.items()
        ]

    def _told(self) -> dict[str, Any]:
        """Return the status. Raises RefusedError: others' connections have all descriptors."""
        try:
            return self._watched.status()
        except OSError as error:
            if error.errno not in (EMFILE, ENFILE):
                raise
            why = f"the sidecar cannot look at itself: {error.strerror}"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "descriptors", why) from error

    def _make_metrics(self) -> Answer:
        body = exposition(self._status(), self._watched.metrics)
        return Answer(HTTPStatus.OK, body, CONTENT_TYPE_LATEST)

    def _history(self, request: Request) -> Answer:
        limit = _number(request, "limit", DEFAULT_ENTRIES)
        before = _number(request, "before", 10**_MOST_DIGITS)
        limit = min(limit, MOST_ENTRIES)
        entries = self._histories(lambda: self._watched.history(limit, before))
        return Answer(HTTPStatus.OK, b"[" + b",".join(entries) + b"]\n", JSON)


def operators_router(
    documents: Documents,
    watched: SidecarView,
    guard: Callable[[Request], Authorised],
    rate: RateLimit,
    *,
    anywhere: bool = False,
) -> Router:
    """Make the router of one listener: all may read, and ``guard`` says who may order."""
    orders = order_route(watched, guard, rate)
    return Router([*documents.routes(), orders], OwnNames(anywhere=anywhere))


def _without_proof(page: Callable[[Request], Answer]) -> Callable[[Request, Anybody], Answer]:
    return lambda request, _: page(request)


def _health(what: str, why_not: str | None) -> Answer:
    status = HTTPStatus.OK if why_not is None else HTTPStatus.SERVICE_UNAVAILABLE
    return json_answer({what: why_not is None, "why_not": why_not}, status)


def _number(request: Request, key: str, default: int) -> int:
    """Read a whole number above 0. Raises RefusedError."""
    text = parse_qs(request.query, keep_blank_values=True).get(key, [str(default)])[-1]
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS + 1 and int(text) > 0):
        raise malformed(f"{key} must be a whole number above 0")
    return int(text)
