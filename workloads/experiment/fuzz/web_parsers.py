"""HTTP: what browsers and tools ask of the sidecar, and what brings notifications."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from sidecar.base.metrics import Metrics
from sidecar.base.rate_limit import RateLimit
from sidecar.control.order import Order
from sidecar.delivery.http_delivery import delivery_router
from sidecar.delivery.plan_inbox import Verdict
from sidecar.web.routes import Documents, operators_router
from solver_lambda.http.guards import TokenGuard
from solver_lambda.http.incoming import Incoming
from solver_lambda.http.message import Peer, RefusedError
from solver_lambda.http.router import Router
from workloads.experiment.fuzz.fuzzing import Parser
from workloads.experiment.fuzz.mutators import changed_bytes

_ORDER = b'{"what":"pause","by":"ann","for_seconds":60}'
_REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: localhost:9736\r\n\r\n",
    b"GET /api/history?limit=5&limit=7 HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n",
    b"HEAD /api/series HTTP/1.0\r\nHost: [::1]:9736\r\n\r\n",
    b"POST /api/orders HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(_ORDER), _ORDER),
]
_NOTIFICATIONS = [
    b"POST / HTTP/1.1\r\nHost: node\r\nx-amz-sns-message-type: Notification\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"
]
_ODD_PARTS = [
    word.encode("latin-1")
    for word in (
        *("Content-Length: -1", f"Content-Length: {'1' * 5000}", "Content-Length: \xb2"),
        *("Content-Length: 1e3", "Content-Length: 999999", "Content-Length: 0"),
        *("Host: ", "Host: evil.example", "Host: [", "Host: []:9", "Host: localhost.:", "Host: 0"),
        *("Host: 127.1", "Host: \xff", "Authorization: Bearer", "Authorization: bearer  secret"),
        *("Authorization: \xff\xfe", "Content-Type: ", "Content-Type: application/json; x"),
        *("Content-Type: a/b/c;;=\x00", "Transfer-Encoding: chunked", "Expect: 100-continue"),
        *("GET //[::1 HTTP/1.1", "GET http://[/ HTTP/1.1", "GET /api/history?limit=%ff HTTP/1.1"),
        *("GET /?" + "a&" * 2000 + " HTTP/1.1", "GET / HTTP/9.9", "GET / HTTP/1.1.1", "GET /"),
        *("GET * HTTP/1.1", "PUT / HTTP/1.1", "\x16\x03\x01\x02", "POST / HTTP/1.1", " : ", ":"),
        *(f"GET {'/' * 70000} HTTP/1.1", f"X: {'x' * 70000}", "GET / HTTP/" + "1" * 5000 + ".1"),
    )
]


class _Watched:
    """A sidecar that knows nothing."""

    metrics = Metrics()

    def status(self) -> dict[str, Any]:
        return {}

    def series(self) -> dict[str, Any]:
        return {}

    def history(self, limit: int, before: int) -> list[bytes]:
        assert 0 < limit <= 500
        assert before > 0
        return []

    def order(self, order: Order) -> str:
        return order.what


class _Inbox:
    """Refuses all."""

    def take(self, body: bytes, _sender: str = "") -> Verdict:  # noqa: ARG002
        return Verdict.REFUSED


def web_parsers() -> list[Parser]:
    watched = _Watched()
    orders = operators_router(
        Documents(watched), watched, TokenGuard("secret", "no token"), RateLimit(10**9, 0.0)
    )
    inbox: Any = _Inbox()
    return [
        Parser("http", _REQUESTS, lambda draw: _changed(_REQUESTS, draw), _reader(orders), ()),
        Parser(
            "delivery",
            _NOTIFICATIONS,
            lambda draw: _changed(_NOTIFICATIONS, draw),
            _reader(delivery_router(inbox)),
            (),
        ),
    ]


def _reader(router: Router) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        incoming = Incoming(router, Peer("127.0.0.1"))
        try:
            answer = incoming.complete()() if incoming.feed(data) else None
        except RefusedError as error:
            answer = error.answer
        if answer is not None:
            assert answer.status != 500, answer
            incoming.text_of(answer)

    return read


def _changed(requests: list[bytes], draw: random.Random) -> bytes:
    request = draw.choice(requests)
    if draw.random() < 0.4:
        return changed_bytes(request, draw, requests)
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    for _ in range(draw.choice((1, 1, 2, 3))):
        place = draw.randrange(len(lines))
        kind = draw.randrange(5)
        odd = draw.choice(_ODD_PARTS)
        if kind == 0:
            name = odd.partition(b":")[0]
            same = [i for i, line in enumerate(lines) if line.startswith(name + b":")]
            lines[same[0] if same else place] = odd
        elif kind == 1:
            lines.insert(place + 1, odd)
        elif kind == 2 and len(lines) > 1:
            del lines[place]
        elif kind == 3:
            lines[place] = changed_bytes(lines[place], draw, lines)
        else:
            body = changed_bytes(body, draw, requests)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
