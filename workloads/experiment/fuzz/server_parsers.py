"""What comes from Redis servers: batches of samples, and replies to INFO and CONFIG GET.

HTTP: what browsers and tools ask of the sidecar, and what brings notifications.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import redis

from sidecar.base.metrics import Metrics
from sidecar.base.rate_limit import RateLimit
from sidecar.config.node import ServerConfig
from sidecar.control.order import Order
from sidecar.delivery.http_delivery import delivery_router
from sidecar.delivery.plan_inbox import Verdict
from sidecar.samples.batch import SampleError, decode_batch
from sidecar.samples.wire_format import DEFAULT_MODULUS as MODULUS
from sidecar.samples.wire_format import HEADER, RECORD_BYTES
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerDownError, ServerRefusedError
from sidecar.web.routes import Documents, operators_router
from solver_lambda.http.guards import TokenGuard
from solver_lambda.http.incoming import Incoming
from solver_lambda.http.message import Peer, RefusedError
from solver_lambda.http.router import Router
from workloads.experiment.fuzz.mutators import Parser, changed_bytes
from workloads.experiment.fuzz.seeds import CONFIG, INFO, ODD_NUMBERS
from workloads.sample_batches import SampledServer, number_hashes

_HEADER_BYTES = (0, 1, 2, 7, 8, 9, 15, 16, 17, 119, 120, 121, 255)
_LIMITS = (0, 1, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def server_parsers() -> list[Parser]:
    batches = _batches()
    reader = _ReplyReader()
    return [
        Parser(
            "batch", batches, lambda draw: _changed_batch(batches, draw), _batch, (SampleError,), 2
        ),
        Parser(
            "replies",
            [_replies(INFO, CONFIG)],
            _changed_replies,
            reader.read,
            (ServerDownError, ServerRefusedError),
            0.5,
        ),
    ]


# batches


def _batches() -> list[bytes]:
    messages: list[bytes] = []
    for count, threshold in ((0, MODULUS), (1, MODULUS), (5, MODULUS), (400, MODULUS // 64)):
        server = SampledServer(instance=count + 1, threshold=threshold, salt=count)
        operations = np.arange(count) % 6 + 1
        hashes = number_hashes(np.arange(count), count)
        messages += server.batches(hashes, operations, 100, ttl=True, times_us=np.arange(count))
    return messages


def _changed_batch(batches: list[bytes], draw: random.Random) -> bytes:
    message = bytearray(draw.choice(batches))
    for _ in range(draw.choice((1, 1, 2, 3))):
        kind = draw.randrange(3)
        if kind == 0:
            message = bytearray(changed_bytes(bytes(message), draw))
        elif kind == 1 and message:
            message[draw.randrange(min(len(message), 16))] = draw.choice(_HEADER_BYTES)
        elif len(message) >= HEADER.size:
            field = 16 + 8 * draw.randrange(13)
            message[field : field + 8] = draw.choice(_LIMITS).to_bytes(8, "little")
    return bytes(message)


def _batch(data: bytes) -> None:
    batch = decode_batch(data)
    operations = batch.records["operation"]
    assert len(data) >= HEADER.size + RECORD_BYTES * len(batch.records)
    assert 0 <= batch.threshold <= batch.modulus <= 1 << 32
    assert batch.first_time_us <= batch.last_time_us
    assert np.all((operations >= 1) & (operations <= 8))


# replies


def _replies(info: list[bytes], config: list[bytes]) -> bytes:
    """Return what a server says to INFO and CONFIG GET."""
    pairs = b"".join(map(_bulk, config))
    return _bulk(b"\r\n".join(info) + b"\r\n") + b"*%d\r\n" % len(config) + pairs


def _bulk(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


def _changed_replies(draw: random.Random) -> bytes:
    info, config = list(INFO), list(CONFIG)
    if draw.random() < 0.3:
        return changed_bytes(_replies(info, config), draw)
    for _ in range(draw.choice((1, 1, 2, 3))):
        place = draw.randrange(len(info))
        kind = draw.randrange(8)
        if kind < 3:
            name = info[place].partition(b":")[0]
            info[place] = name + b":" + draw.choice(ODD_NUMBERS)
        elif kind == 3:
            words = info[place].replace(b"=", b":").replace(b",", b":").split(b":")
            info[place] = info[place].replace(draw.choice(words), draw.choice(ODD_NUMBERS), 1)
        elif kind == 4:
            del info[place : place + draw.choice((1, 1, 5))]
            info = info or [b""]
        elif kind == 5:
            info[place] = changed_bytes(info[place], draw, info)
        else:
            config[draw.randrange(len(config))] = draw.choice((*ODD_NUMBERS, *CONFIG))
    return _replies(info, config)


class _Played:
    """A socket that has received something, and nothing comes after it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._read = 0

    def recv(self, size: int, *_: object) -> bytes:
        part = self._data[self._read : self._read + size]
        self._read += len(part)
        return part

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class _PlayedConnection(redis.Connection):
    """Is connected to such a socket."""

    data = b""

    def _connect(self) -> Any:
        return _Played(self.data)


def _place_of(error: Exception) -> str:
    return traceback.extract_tb(error.__traceback__)[-1].filename


class _ReplyReader:
    """Reads them by all that lies between a server's socket and its reading."""

    def __init__(self) -> None:
        self._server = RedisServer(ServerConfig("pages", "redis://127.0.0.1:6379"))
        pool = self._server._client.connection_pool
        pool.connection_class = _PlayedConnection
        self._connection = cast("Any", pool.make_connection())
        self._connection.driver_info = None
        self._server._connection = self._connection

    def read(self, data: bytes) -> None:
        self._connection.data = data
        try:
            reading = self._server.read()
        finally:
            self._server.close()
        assert reading.unevictable_bytes >= reading.baseline_bytes >= 0
        assert reading.keep_reason() is None or reading.keep_reason()
        assert reading.average_ttl_seconds == reading.average_ttl_seconds  # a number


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
