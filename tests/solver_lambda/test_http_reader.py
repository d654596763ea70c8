"""The strict reader of requests: whatever comes is one request that all read alike, or refused."""

from __future__ import annotations

import re
from http import HTTPStatus
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from solver_lambda.http.guards import (
    Admitted,
    Anybody,
    Authorised,
    NobodyGuard,
    PeerGuard,
    TokenGuard,
    anybody,
)
from solver_lambda.http.incoming import MOST_HEAD_BYTES, MOST_HEADERS, Incoming
from solver_lambda.http.message import Answer, Peer, RefusedError, Request, json_answer
from solver_lambda.http.router import ANY_PATH, Lane, Route, Router

TOKEN = "only-for-tests-0123456789"
PEER = Peer("127.0.0.1")
LANE = Lane(1, 1)


class Doors:
    """Two pages and an order, which notes who was let through."""

    def __init__(self, any_path: bool = False) -> None:
        self.orders: list[Authorised] = []
        self.pages: list[str] = []
        path = ANY_PATH if any_path else "/orders"
        self.router = Router(
            [
                Route("GET", "/", anybody, self._page, LANE),
                Route("GET", "/status", anybody, self._page, LANE),
                Route("POST", path, TokenGuard(TOKEN, "no token"), self._order, LANE, 100),
            ]
        )

    def _page(self, request: Request, _: Anybody) -> Answer:
        self.pages.append(request.path)
        return json_answer({})

    def _order(self, request: Request, proof: Authorised) -> Answer:
        assert isinstance(proof, Authorised)
        self.orders.append(proof)
        return json_answer({"body": request.body.decode("latin-1")})

    def send(self, *pieces: bytes) -> Answer | None:
        """The answer; ``None``: the request is not complete."""
        incoming = Incoming(self.router, PEER)
        try:
            if any(incoming.feed(piece) for piece in pieces):
                return incoming.complete()()
        except RefusedError as error:
            return error.answer
        return None


def status(*pieces: bytes) -> int | None:
    answer = Doors().send(*pieces)
    return answer.status.value if answer else None


def order(target: str = "/orders", *headers: str, version: str = "HTTP/1.1") -> bytes:
    lines = [f"POST {target} {version}", "Host: localhost", "Content-Length: 2", *headers]
    return "\r\n".join([*lines, "", "{}"]).encode("latin-1")


def test_a_request_is_taken_in_pieces_of_any_length() -> None:
    whole = order("/orders?x=1&y", f"Authorization: Bearer {TOKEN}")
    for length in (1, 2, 7, len(whole)):
        doors = Doors()
        pieces = [whole[at : at + length] for at in range(0, len(whole), length)]
        answer = doors.send(*pieces)
        assert answer is not None
        assert (answer.status, len(doors.orders)) == (200, 1)
        assert doors.orders[0].by == "the holder of the token at 127.0.0.1"


@given(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"x: y", b"GET /status HTTP/1.1"])))
@example([b"GET /status HTTP/1.1", b"\r", b"\n", b"\r", b"\n"])
def test_a_byte_at_a_time_is_read_as_all_at_once(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    assert status(*(bytes([byte]) for byte in whole)) == status(whole)


@pytest.mark.parametrize(
    "target",
    [
        "/orders#",
        "/orders#x",
        "/orders?#",
        "http://any.host/orders",
        "https:/orders",
        "orders",
        "*",
        "\x0b/orders",
        "/orders\t",
        "/orders\x00",
        "/orders\x7f",
        "/ord\xe9rs",
        "/orders /orders",
        "",
    ],
)
@pytest.mark.parametrize("with_token", [False, True])
def test_only_a_path_in_printable_ascii_is_a_target(target: str, with_token: bool) -> None:
    doors = Doors(any_path=True)
    headers = [f"Authorization: Bearer {TOKEN}"] if with_token else []
    answer = doors.send(order(target, *headers))
    assert answer is not None
    assert (answer.status, doors.orders) == (400, [])


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("GET / HTTP/1.1\nHost: x\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\rX: y\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\n  more\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : x\r\n", 400),
        ("GET / HTTP/1.1\r\nno colon\r\n", 400),
        ("GET / HTTP/1.1\r\n: x\r\n", 400),
        ("GET / HTTP/1.1\r\nX: a\x00b\r\n", 400),
        ("GET / HTTP/1.1\r\nX: a\x0bb\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a@b\r\n", 400),
        ("GET / HTTP/1.1\r\nAuthorization: a\r\nauthorization: a\r\n", 400),
        ("GET / HTTP/2.0\r\n", 400),
        ("GET / HTTP/1.2\r\n", 400),
        ("GET / HTTP/0.9\r\n", 400),
        ("GET / http/1.1\r\n", 400),
        ("GET /\r\n", 400),
        ("get / HTTP/1.1\r\n", 400),
        ("GET  / HTTP/1.1\r\n", 400),
        ("GET / HTTP/1.1 \r\n", 400),
        ("\r\nGET / HTTP/1.1\r\n", 400),
        ("POST /orders HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", 501),
        ("POST /orders HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: x\r\n", 501),
        ("POST /orders HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n", 400),
        ("POST /orders HTTP/1.1\r\nContent-Length: 2, 2\r\n", 411),
        ("POST /orders HTTP/1.1\r\nContent-Length: +2\r\n", 411),
        ("POST /orders HTTP/1.1\r\nContent-Length: \xb2\r\n", 411),
        ("POST /orders HTTP/1.1\r\nContent-Length:\r\n", 411),
        (f"GET / HTTP/1.1\r\n{'X: y' + chr(13) + chr(10)}" * 1 + "X: y\r\n" * MOST_HEADERS, 431),
        (f"GET / HTTP/1.1\r\nX: {'y' * MOST_HEAD_BYTES}\r\n", 431),
        ("GET / HTTP/1.1\r\n" + "X: y\r\n" * MOST_HEADERS, 200),
        ("GET / HTTP/1.0\r\n", 200),
        ("GET /?a=b?c HTTP/1.1\r\nHost: [::1]:80\r\nX:\r\nY: \xe9 \t\r\n", 200),
        ("HEAD /status HTTP/1.1\r\n", 200),
        ("PUT / HTTP/1.1\r\n", 405),
        ("POST / HTTP/1.1\r\nContent-Length: 0\r\n", 405),
        ("GET //orders HTTP/1.1\r\n", 404),
        ("GET /./status HTTP/1.1\r\n", 404),
        ("GET /%73tatus HTTP/1.1\r\n", 404),
        ("GET /status/ HTTP/1.1\r\n", 404),
        ("GET / HTTP/1.1\r\nContent-Length: 1\r\n", 413),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(head: str, expected: int) -> None:
    assert status(f"{head}\r\n".encode("latin-1")) == expected


def test_a_head_that_never_ends_is_refused_before_its_end() -> None:
    pieces = [b"GET / HTTP/1.1\r\n", *[b"X: y\r\n"] * MOST_HEAD_BYTES]
    assert status(*pieces[: MOST_HEAD_BYTES // 6 + 2]) == 431


def test_who_may_not_ask_is_told_before_his_body_comes() -> None:
    head = b"POST /orders HTTP/1.1\r\nContent-Length: 99\r\n\r\n"
    assert status(head) == 401
    assert status(head.replace(b"99", b"101")) == 401
    allowed = head.replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    assert status(allowed) is None
    assert status(allowed.replace(b"99", b"101")) == 413
    assert status(allowed.replace(b"99", b"9" * 5000)) == 413
    assert status(allowed.replace(b"Content-Length: 99\r\n", b"")) == 411


ODD = st.sampled_from(
    [
        *(b"POST", b"GET", b" ", b"/orders", b"/", b"http://a", b"#", b"?", b"%2f", b"\t", b"\x0b"),
        *(b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\r", b"\n", b"\r\n\r\n", b"\x00", b"\xff", b":"),
        *(b"Content-Length: 2", b"Host: x", b"Transfer-Encoding: chunked", b"{}", b"\r\n X: y"),
        *(b"Authorization: Bearer ", b"Authorization: Bearer x", TOKEN.encode()[:-1]),
    ]
)
PIECES = st.lists(st.binary(max_size=20) | ODD, max_size=20)


@given(PIECES, st.booleans())
@example([b"POST ", b"/orders# HTTP/1.1\r\nContent-Length: 0\r\n\r\n"], False)
def test_whatever_comes_is_one_route_or_refused(pieces: list[bytes], is_order: bool) -> None:
    """And without the token it is never an order."""
    doors = Doors()
    start = b"POST /orders" if is_order else b""
    answer = doors.send(start, *pieces)
    assert doors.orders == []
    if answer is None:
        return
    if doors.pages:
        assert (answer.status, len(doors.pages)) == (200, 1)
        assert re.match(rb"(GET|HEAD) /(status)?[? ]", b"".join([start, *pieces]))
    else:
        assert 400 <= answer.status < 600
        assert b"Traceback" not in answer.body


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_pieces_make_no_difference(data: bytes, cuts: list[int]) -> None:
    whole = b"POST /orders HTTP/1.1\r\n" + data
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[start:end] for start, end in pairwise(places)]
    one, other = Doors().send(whole), Doors().send(*pieces)
    # A fault may be seen in the first piece that has it, before another one that a later one has.
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert (one.status == 200) == (other.status == 200)


def test_who_has_many_addresses_or_numbers_is_one_party() -> None:
    assert Peer("127.0.0.2").party == "127.0.0.2"
    assert Peer("::ffff:127.0.0.2").party == "127.0.0.2"
    assert Peer("2001:db8::1").party == Peer("2001:db8::ffff:1").party == "2001:db8::/64"
    assert Peer("fe80::1%eth0").party == "fe80::/64"
    assert Peer(uid=0).party == "root"
    assert Peer(uid=4_000_000).party == Peer(uid=4_000_001).party != "root"


def test_only_a_guard_makes_a_proof() -> None:
    with pytest.raises(TypeError):
        Authorised("me", "me", object())
    with pytest.raises(TypeError):
        Authorised("me", "me")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="empty token"):
        TokenGuard("", "words")
    asked = Request("POST", "/", "", {}, PEER)
    for guard in (PeerGuard(), NobodyGuard("code", "words"), TokenGuard(TOKEN, "words")):
        with pytest.raises(RefusedError):
            guard(asked)
    assert PeerGuard()(Request("POST", "/", "", {}, Peer(uid=0))).by == "root (uid 0)"
    nameless = PeerGuard()(Request("POST", "/", "", {}, Peer(uid=4_000_000)))
    assert (nameless.by, nameless.party) == ("uid 4000000", "users without a name")
    assert isinstance(anybody(asked), Admitted)
    assert not isinstance(anybody(asked), Authorised)


@pytest.mark.parametrize(
    ("header", "is_right"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer {TOKEN}", True),
        (f"BEARER  {TOKEN} ", True),
        (None, False),
        ("", False),
        ("Bearer", False),
        ("Bearer ", False),
        (TOKEN, False),
        (f"Bearer{TOKEN}", False),
        (f"Bearer\t{TOKEN}", False),
        (f"Basic {TOKEN}", False),
        (f"Bearer: {TOKEN}", False),
        (f"Bearer Bearer {TOKEN}", False),
        (f"Bearer {TOKEN},", False),
        (f"Bearer {TOKEN}, Bearer {TOKEN}", False),
        (f'Bearer "{TOKEN}"', False),
        (f"Bearer token={TOKEN}", False),
        (f"Bearer {TOKEN[:-1]}", False),
        (f"Bearer {TOKEN}x", False),
        (f"Bearer {TOKEN.upper()}", False),
        (f"Bearer {TOKEN}\xe9", False),
        (f"Bearer {TOKEN[:5]} {TOKEN[5:]}", False),
    ],
)
def test_ways_of_writing_the_token(header: str | None, is_right: bool) -> None:
    headers = [] if header is None else [f"Authorization: {header}"]
    answer = Doors().send(order("/orders", *headers))
    assert answer is not None
    assert answer.status == (HTTPStatus.OK if is_right else HTTPStatus.UNAUTHORIZED)


def test_every_answer_has_the_same_headers() -> None:
    names = set()
    for request in (b"GET / HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n", b"GET /no HTTP/1.1\r\n\r\n"):
        answer = Doors().send(request)
        assert answer is not None
        lines = answer.head().decode().split("\r\n")[1:]
        names.add(tuple(line.partition(":")[0] for line in lines))
    assert len(names) == 1
    assert {"X-Frame-Options", "Content-Security-Policy", "X-Content-Type-Options"} < set(*names)
