"""Orders without the token, by another site's page, and orders that are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

from sidecar.control.order import Order, OrderRefusedError
from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.connections import status_of
from workloads.experiment.attacks.stage.target import Target

ROWS = Rows()

ODD_TARGETS = (
    "/api/orders#",
    "/api/orders#x",
    "/api/orders?#",
    "http://any.host/api/orders",
    "http://127.0.0.1/api/orders",
    "https:/api/orders",
    "//any.host/api/orders",
    "\x0b/api/orders",
    "\x00/api/orders",
    "\x1f/api/orders",
    "/api/orders\t",
    "/api/orders\x7f",
    "/api//orders",
    "/api/./orders",
    "/api/%6frders",
    "/api/orders\xa0",
    "*",
)
REFUSED = (b"400", b"403", b"404")


@ROWS.add(
    "orders: odd request targets",
    "POSTs orders to targets that a guard and a router may read differently, with a token "
    "configured and without: each is refused, and nothing changes",
)
def _odd_targets() -> None:
    for token in (False, True):
        with Target(token=token) as target:
            for odd in ODD_TARGETS:
                answer = target.order(odd)
                must(status_of(answer) in REFUSED, f"{odd!r}: {answer[:80]!r}")
            must(target.status()["pause"] is None, "a pause without a token")
            if not token:
                continue
            given = {"Authorization": f"Bearer {target.token}"}
            for odd in ODD_TARGETS:
                must(status_of(target.order(odd, **given)) in REFUSED, f"{odd!r} with the token")
            must(status_of(target.order("/api/orders?x", **given)) == b"200", "a good order")


def _ways_of_the_token(token: str) -> Iterator[tuple[str, bool]]:
    """Yield ways of writing ``Authorization``, and whether each is right."""
    yield from ((f"{scheme} {token}", True) for scheme in ("Bearer", "bearer", "BEARER"))
    yield f"Bearer   {token} ", True
    half = len(token) // 2
    for wrong in (
        *("", "Bearer", "Bearer ", token, f"Bearer{token}", f"Bearer\t{token}", f"Basic {token}"),
        *(f"Bearer: {token}", f"Bearer={token}", f"Bearer Bearer {token}", f"Bearer {token},"),
        *(f'Bearer "{token}"', f"Bearer token={token}", f"Bearer {token[:-1]}", f"Bearer {token}x"),
        *(
            f"Bearer {token.upper()}x",
            f"Bearer {token}\xe9",
            f"Bearer {token[:half]} {token[half:]}",
        ),
        *(f"Bearer {token}, Bearer {token}", f"Bearer {'x' * 8000}", "Bearer null", "Bearer *"),
        *(f"X {token}\r\n Bearer {token}", f"Bearer\r\n {token}", f"Bearer x\r\nX: Bearer {token}"),
    ):
        yield wrong, False


@ROWS.add(
    "orders: ways of writing the token",
    "sends Authorization headers that are nearly right, twice, folded or long: only the token "
    "itself is taken",
    held=True,
)
def _odd_tokens() -> None:
    with Target() as target:
        assert target.token is not None
        for header, is_right in _ways_of_the_token(target.token):
            status = status_of(target.order(Authorization=header))
            if is_right:
                must(status == b"200", f"the right token as {header!r}: {status!r}")
                target.ask().order(Order("resume", ""))
            else:
                must(status in (b"401", b"400"), f"{header[:60]!r}: {status!r}")
                must(target.status()["pause"] is None, f"a pause by {header[:60]!r}")
        twice = target.order(Authorization=f"Bearer {target.token}\r\nAuthorization: Bearer x")
        must(status_of(twice) in (b"400", b"401", b"200"), f"two headers: {twice[:80]!r}")


@ROWS.add(
    "orders: another site's page in the operator's browser",
    "asks under names that are rebound to this machine, posts forms, frames the page: nothing "
    "is read or ordered",
    held=True,
)
def _another_sites_page() -> None:
    with Target() as target:
        right = f"Bearer {target.token}"
        for host in ("evil.example", "localhost.evil.example", "10.9.8.7", "a@127.0.0.1", "127.1"):
            answer = target.order(Host=host, Authorization=right)
            must(status_of(answer) in (b"400", b"421"), f"Host {host}: {answer[:80]!r}")
            answer = target.raw(f"GET /api/status HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            must(status_of(answer) in (b"400", b"421"), f"Host {host} reads: {answer[:80]!r}")
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            answer = target.order(Content_Type=kind, Authorization=right)
            must(status_of(answer) == b"415", f"a form of {kind!r}: {answer[:80]!r}")
        must(status_of(target.order(Origin="http://evil.example")) == b"401", "without the token")
        page = target.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for header in (b"frame-ancestors 'none'", b"X-Frame-Options: DENY", b"nosniff"):
            must(header in page, f"the page lacks {header!r}")
        must(b"Access-Control" not in page, "the page may be read by others")
        must(target.status()["pause"] is None, "a pause by another site's page")


@ROWS.add(
    "orders: another site's page through a forwarded socket",
    "the same over the Unix socket, which ssh -L brings to a browser: nothing is ordered",
)
def _rebound_through_the_socket() -> None:
    with Target() as target:
        for host, kind in (
            ("evil.example", "application/json"),
            ("evil.example:8000", "application/json"),
            ("localhost:8000", "text/plain"),
        ):
            connection = SidecarClientBytes(target)
            status = connection.post({"Host": host, "Content-Type": kind})
            must(status in (400, 415, 421), f"{host}, {kind}: {status}")
        must(target.status()["pause"] is None, "a pause by another site's page")
        good = {"Host": "localhost:8000", "Content-Type": "application/json"}
        must(SidecarClientBytes(target).post(good) == 200, "the operator's own page")


class SidecarClientBytes:
    """Posts a pause over the socket with any headers."""

    def __init__(self, target: Target) -> None:
        from sidecar.control.client import _UnixConnection

        self._connection: HTTPConnection = _UnixConnection(target.folder / "state.json.sock", 5)

    def post(self, headers: dict[str, str]) -> int:
        try:
            self._connection.request("POST", "/api/orders", '{"what": "pause"}', headers)
            return self._connection.getresponse().status
        finally:
            self._connection.close()


@ROWS.add(
    "orders: fields of other orders",
    "orders a rollback of one server, a resume for a minute, and texts with control "
    "characters: each is refused, and nothing changes",
)
def _foreign_fields() -> None:
    with Target() as target:
        given = {"Authorization": f"Bearer {target.token}"}
        sizes = target.sizes()
        orders: tuple[dict[str, Any], ...] = (
            {"what": "rollback", "server": "pages"},
            {"what": "rollback", "for_seconds": 60},
            {"what": "resume", "for_seconds": 60},
            {"what": "resume", "to": "last"},
            {"what": "pause", "to": "installation"},
            {"what": "apply_from_now_on", "server": "pages"},
        )
        for order in orders:
            answer = target.order(body=json.dumps(order), **given)
            must(status_of(answer) == b"400", f"{order}: {answer[-200:]!r}")
            field = next(key for key in order if key != "what")
            must(field.encode() in answer and order["what"].encode() in answer, "no name in it")
        for text in ("a\nb", "a\x1b[2Jb", "a\x00b", "a\x7fb"):
            # At the socket: also orders that are refused count, and the port takes ten at once.
            for odd in (Order("pause", "ann", why=text), Order("pause", text)):
                said = ""
                try:
                    target.ask().order(odd)
                except OrderRefusedError as error:
                    said = str(error)
                must("printable characters" in said, f"{odd}: {said!r}")
        must(target.status()["pause"] is None, "a pause")
        must(target.sizes() == sizes, "other sizes")
