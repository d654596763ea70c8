"""Orders without the token, orders in floods, and what they must not do to history and log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

from sidecar.control.client import SidecarClient
from sidecar.control.order import Order, OrderRefusedError
from workloads.experiment.attacks.attack import Attack, must
from workloads.experiment.attacks.target import Target

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


def status_of(answer: bytes) -> bytes:
    """``b""``: it is no answer."""
    return b"".join(answer.split(b" ", 2)[1:2])


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
    """Of writing ``Authorization``, and whether it is right."""
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


def _rebound_through_the_socket() -> None:
    """The socket as ``ssh -L`` brings it to a browser's machine."""
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
            for key in ("why", "by"):
                answer = target.order(body=json.dumps({"what": "pause", key: text}), **given)
                must(status_of(answer) == b"400", f"{key} {text!r}: {answer[:80]!r}")
        must(target.status()["pause"] is None, "a pause")
        must(target.sizes() == sizes, "other sizes")


def _flood(target: Target, seconds: float, whats: tuple[str, ...]) -> tuple[int, int]:
    """Orders at the port by four clients at once; how many were given, and how many taken."""
    given = {"Authorization": f"Bearer {target.token}"}

    def play(_: int) -> tuple[int, int]:
        count, taken, until = 0, 0, time.monotonic() + seconds
        while time.monotonic() < until:
            for what in whats:
                body = json.dumps({"what": what, "by": f"eve {count}"})
                taken += status_of(target.order(body=body, **given)) == b"200"
                count += 1
        return count, taken

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(play, range(4)))
    return sum(count for count, _ in counts), sum(taken for _, taken in counts)


def _audit() -> None:
    with Target(sections={"": 'mode = "recommend"\n'}, verbose=False) as target:
        target.fill("pages")
        target.until(
            lambda: "plan" in {one["kind"] for one in target.ask().history(100)}, "no plan is made"
        )
        before = target.ask().history(100)
        target.ask().order(Order("recommend", "ann", "the order that mattered"))
        orders, taken = _flood(target, 4, ("resume", "recommend"))
        # What the flood cannot keep out.
        target.ask().order(Order("apply_from_now_on", "ann", "after the flood"))
        lines = [line for line in target.log_text().splitlines() if "apply_from_now_on" in line]
        must(lines, f"nothing in the log of the change of mode, after {orders} orders")
        entries = _all_pages(target.ask())
        words = [entry["words"] for entry in entries]
        must(len(entries) < 1000, f"{len(entries)} entries after {orders} orders")
        must(all(one["words"] in words for one in before), "what was there before is gone")
        must(any("the order that mattered" in one for one in words), "the first order is gone")
        must(any("after the flood" in one for one in words), "the last order is not told")
        must(taken < 50, f"{taken} of {orders} orders were taken in four seconds")


def _all_pages(client: SidecarClient) -> list[dict[str, Any]]:
    entries = page = client.history(500)
    while page and "number" in page[0] and (page := client.history(500, page[0]["number"])):
        entries = page + entries
    return entries


def _flood_at_the_port_and_the_operator() -> None:
    with Target() as target:
        _flood(target, 1, ("resume",))
        try:
            target.ask().order(Order("pause", "ann"))
        except OrderRefusedError as error:
            must(False, f"the operator at the socket is locked out: {error}")
        must(target.status()["pause"] is not None, "the operator's pause")
        done = [target.command("resume", str(target.file)) for _ in range(3)]
        must(all(one.returncode == 0 for one in done), f"the command: {done[-1].stderr}")


def _history_readers() -> None:
    with Target() as target:
        # Ten thousand entries, each as long as one of a node with many servers.
        target.end()
        reasons = {f"server-{number}": "r" * 60 for number in range(20)}
        entry = {"at_seconds": time.time(), "kind": "plan", "by": "spreds", "words": "w" * 100}
        entry |= {"cycle": 1, "reasons": reasons, "decision": "apply", "carried_out": True}
        line = json.dumps(entry) + "\n"
        (target.folder / "state.json.history").write_text(line * 10_000)
        target.start()
        before = target.resident_bytes()
        late = 0.0
        until = time.monotonic() + 4

        def read(_: int) -> None:
            while time.monotonic() < until:
                target.raw(b"GET /api/history?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")

        with ThreadPoolExecutor(30) as pool:
            readers = [pool.submit(read, number) for number in range(30)]
            while time.monotonic() < until:
                status = target.status()
                late = max(late, status["now_seconds"] - status["loop_at_seconds"])
                time.sleep(0.1)
            for one in readers:
                one.result()
        grown = (target.resident_bytes() - before) >> 20
        must(late < 2.5, f"the main loop was {late:.1f} s late")
        must(grown < 100, f"{grown} MiB more with 30 readers")


ROWS = [
    Attack(
        "orders: odd request targets",
        "POSTs orders to targets that a guard and a router may read differently, with a token "
        "configured and without: each is refused, and nothing changes",
        _odd_targets,
    ),
    Attack(
        "orders: ways of writing the token",
        "sends Authorization headers that are nearly right, twice, folded or long: only the token "
        "itself is taken",
        _odd_tokens,
        held=True,
    ),
    Attack(
        "orders: another site's page in the operator's browser",
        "asks under names that are rebound to this machine, posts forms, frames the page: nothing "
        "is read or ordered",
        _another_sites_page,
        held=True,
    ),
    Attack(
        "orders: another site's page through a forwarded socket",
        "the same over the Unix socket, which ssh -L brings to a browser: nothing is ordered",
        _rebound_through_the_socket,
    ),
    Attack(
        "orders: fields of other orders",
        "orders a rollback of one server, a resume for a minute, and texts with control "
        "characters: each is refused, and nothing changes",
        _foreign_fields,
    ),
    Attack(
        "orders: a flood before a change of mode",
        "four clients with the token order without end, then the mode changes: history and log "
        "tell of it, and what was there before is still there",
        _audit,
        quick=False,
    ),
    Attack(
        "orders: a flood at the port, the operator at the socket",
        "a client with the token floods the port: orders over the socket are carried out",
        _flood_at_the_port_and_the_operator,
        held=True,
    ),
    Attack(
        "orders: many readers of a long history",
        "30 clients read 10,000 entries again and again: the main loop turns, and memory stays",
        _history_readers,
        quick=False,
    ),
]
