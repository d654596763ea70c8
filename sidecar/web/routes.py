"""What is answered to which request."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import socket
from collections.abc import Callable, Mapping
from errno import EMFILE, ENFILE
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from prometheus_client.exposition import CONTENT_TYPE_LATEST

from sidecar.base.glossary import WORDS
from sidecar.base.rate_limit import RateLimit
from sidecar.control.order import Order, OrderRefusedError
from sidecar.control.sidecar_view import SidecarView
from sidecar.web.exposition import exposition
from sidecar.web.shared import AtOnce, Paced, Shared
from solver_lambda.documents.json_text import parse_json
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_duration
from solver_lambda.http.guards import Anybody, Authorised, anybody
from solver_lambda.http.message import JSON, Answer, RefusedError, Request, json_answer, malformed
from solver_lambda.http.router import Lane, Route, Router

# The page for browsers: one document, made of the files in `sidecar/web/assets/`.
FOLDER = Path(__file__).parent / "assets"
SCRIPTS = (
    "words.js",
    "drawing.js",
    "curves.js",
    "time.js",
    "servers.js",
    "banner.js",
    "decisions.js",
    "orders.js",
    "page.js",
)
_STYLE, _SCRIPT = "/* style.css */", "/* scripts */"
_GLOSSARY = "{/* glossary */}"


def load_page() -> Answer:
    """Style and scripts stand in the document. A browser runs nothing else, asks nobody but us,
    and shows us in no frame: the policy names them by their digests.

    Raises:
        OSError: a file is missing, which means that the installation is not whole.
    """
    style = (FOLDER / "style.css").read_text("utf-8")
    script = "\n".join((FOLDER / name).read_text("utf-8") for name in SCRIPTS)
    script = script.replace(_GLOSSARY, json.dumps(WORDS))
    page = (FOLDER / "page.html").read_text("utf-8")
    page = page.replace(_STYLE, style).replace(_SCRIPT, script)
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    # What somebody else who had the port before left in a browser: a worker answers in our place.
    headers = {"Content-Security-Policy": policy, "Clear-Site-Data": '"storage"'}
    return Answer(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8", headers)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# Which name of this machine a browser may ask under: against DNS rebinding.
class OwnNames:
    """Lets only requests pass whose ``Host`` header names this machine.

    Args:
        anywhere: asked from other machines as well.
    """

    def __init__(self, *, anywhere: bool) -> None:
        self._anywhere = anywhere

    def __call__(self, request: Request) -> None:
        """Raises RefusedError."""
        if not is_own_name(request.headers.get("host"), anywhere=self._anywhere):
            raise RefusedError(
                HTTPStatus.MISDIRECTED_REQUEST,
                "host",
                "the Host header must be localhost or the number of this machine's address",
            )


def is_own_name(host: str | None, *, anywhere: bool) -> bool:
    """Whether a ``Host`` header names this machine, as far as a browser could be fooled.

    A page of somebody else can make a browser ask us under a name of its own, whose address it
    changes to ours. It cannot do so under ``localhost`` or the number of an address.

    Args:
        anywhere: asked from other machines as well: by any number, or the machine's name.
    """
    name = (host or "").rpartition(":")[0] if _has_port(host or "") else host or ""
    name = name.strip("[]").lower().rstrip(".")
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return anywhere and name == socket.gethostname().lower()
    return anywhere or address.is_loopback


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and (host.count(":") == 1 or "]:" in host)


# Whether the sidecar lives, and whether it can do its work: for probes.

# A turn of a loop takes a second at most, but for servers that hang, each of which is asked for a
# second.
LONGEST_TURN_SECONDS = 30.0
LONGEST_SERVER_SECONDS = 1.0
LOOPS = ("loop", "actuator")


def why_not_live(status: Mapping[str, Any]) -> str | None:
    """``None`` while both loops have turned lately; a loop that has not turned yet has as much
    time from the start on."""
    longest_seconds = LONGEST_TURN_SECONDS + LONGEST_SERVER_SECONDS * len(status["servers"])
    for loop in LOOPS:
        last_seconds = status[f"{loop}_at_seconds"] or status["started_at_seconds"]
        age_seconds = status["now_seconds"] - last_seconds
        if age_seconds > longest_seconds:
            name = "main" if loop == "loop" else loop
            return f"the {name} loop has not turned for {format_duration(round(age_seconds))}"
    return None


def why_not_ready(status: Mapping[str, Any]) -> str | None:
    """``None`` once samples can come, the servers were asked, and one of them answers, as long as
    it lives."""
    if (status["loop_at_seconds"] or 0) <= status["started_at_seconds"]:
        return "the main loop, which receives samples, has not begun"
    if status["actuator_at_seconds"] is None:
        return "the servers have not been asked yet"
    if not any(server["up"] for server in status["servers"]):
        return "no server answers"
    return why_not_live(status)


MOST_BODY_BYTES = 16 * 1024
DEFAULT_ENTRIES, MOST_ENTRIES = 200, 500
ORDERS_PATH = "/api/orders"
_MOST_DIGITS = 15


class Documents:
    """What is answered to readers, from any thread; all listeners of a sidecar share it."""

    def __init__(self, watched: SidecarView) -> None:
        self._watched = watched
        self._page = load_page()
        self._status: Shared[dict[str, Any]] = Shared(self._told)
        self._status_now = AtOnce(self._told)
        self._metrics = Shared(self._make_metrics)
        self._histories = Paced()
        self._status_answer = Shared(lambda: json_answer(self._status()))
        self._series = Shared(lambda: json_answer(watched.series()))

    def routes(self) -> list[Route[Anybody]]:
        """Of everything that may be read by whoever reaches the listener. Probes of health are
        answered at once, so that no crowd makes a sidecar look dead."""
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
        """Raises RefusedError: others' connections have all descriptors."""
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
    """Of one listener: all may read, and ``guard`` says who may order. A form on somebody else's
    page can post, but not JSON, and not under a name of this machine."""

    def order(request: Request, proof: Authorised) -> Answer:
        return _order(request, proof, watched)

    def charge(proof: Authorised) -> None:
        _charge(proof, rate)

    orders = Route(
        "POST",
        ORDERS_PATH,
        guard,
        order,
        # Whoever holds many connections has one order carried out at a time.
        Lane(most=4, most_waiting=32, most_of_one=1),
        MOST_BODY_BYTES,
        "application/json",
        charge,
    )
    return Router([*documents.routes(), orders], OwnNames(anywhere=anywhere))


def _charge(proof: Authorised, rate: RateLimit) -> None:
    if wait_seconds := rate.wait_seconds(proof.party):
        raise RefusedError(
            HTTPStatus.TOO_MANY_REQUESTS,
            "rate",
            f"too many orders: {rate.burst} may come at once, and one each {rate.seconds:g} s "
            f"after that, so try again in {wait_seconds} s",
            {"Retry-After": str(wait_seconds)},
        )


def _order(request: Request, proof: Authorised, watched: SidecarView) -> Answer:
    try:
        fields = parse_json(request.body, "the order", MOST_BODY_BYTES, keys_once=True)
        order = Order.from_json(fields, known_by=proof.by, uid=proof.uid)
    except DocumentError as error:
        raise malformed(str(error)) from error
    try:
        return json_answer({"done": watched.order(order)})
    except OrderRefusedError as error:
        raise RefusedError(HTTPStatus.CONFLICT, "order", str(error)) from error


def _without_proof(page: Callable[[Request], Answer]) -> Callable[[Request, Anybody], Answer]:
    return lambda request, _: page(request)


def _health(what: str, why_not: str | None) -> Answer:
    status = HTTPStatus.OK if why_not is None else HTTPStatus.SERVICE_UNAVAILABLE
    return json_answer({what: why_not is None, "why_not": why_not}, status)


def _number(request: Request, key: str, default: int) -> int:
    """Raises RefusedError."""
    text = parse_qs(request.query, keep_blank_values=True).get(key, [str(default)])[-1]
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS + 1 and int(text) > 0):
        raise malformed(f"{key} must be a whole number above 0")
    return int(text)
