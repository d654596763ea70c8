"""The sidecar's HTTP server: what it answers, whom it refuses, and that nobody holds it up."""

from __future__ import annotations

import errno
import grp
import http.client
import json
import logging
import os
import resource
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.base.log_setup import MOST_A_MINUTE, RepeatFilter
from sidecar.base.rate_limit import RateLimit
from sidecar.config.operators import OperatorsConfig
from sidecar.control.client import SidecarClient
from sidecar.control.order import Order, OrderRefusedError
from sidecar.control.status_document import spreds_version
from sidecar.web import operators_server
from sidecar.web import shared_answers as shared_module
from sidecar.web.health import LONGEST_SERVER_SECONDS, LONGEST_TURN_SECONDS
from sidecar.web.host_header import is_own_name
from sidecar.web.operators_server import LIMITS, OperatorsServer
from sidecar.web.order_route import MOST_BODY_BYTES
from sidecar.web.shared_answers import SharedAnswer
from sidecar.web.unix_socket import UnixSocket
from solver_lambda.http.guards import is_token
from solver_lambda.http.incoming import Incoming
from solver_lambda.http.message import Peer, RefusedError
from tests.secret_file import write_secret
from tests.sidecar.example_sidecar import ExampleSidecar
from tests.sidecar.no_threads import refuse_threads
from tests.sidecar.set_clock import Clock
from workloads.local_node import wait_until

TOKEN = "a-token-of-some-length"
PAGES = ("/", "/livez", "/readyz", "/metrics", "/api/status", "/api/series", "/api/history")
Serve = Callable[..., OperatorsServer]
Ask = Callable[..., tuple[int, Any, http.client.HTTPResponse]]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(self.path.parent, os.O_PATH)
        self.sock.connect(f"/proc/self/fd/{folder}/{self.path.name}")
        os.close(folder)


def ask(
    connection: http.client.HTTPConnection,
    target: str,
    body: object = None,
    method: str | None = None,
    **headers: str,
) -> tuple[int, Any, http.client.HTTPResponse]:
    """Status, the document (or the text, if it is none), and the response."""
    headers = {key.replace("_", "-"): value for key, value in headers.items()}
    text = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    if text is not None:
        headers = {"Content-Type": "application/json", **headers}
    connection.request(method or ("GET" if body is None else "POST"), target, text, headers)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    is_json = response.getheader("Content-Type", "").startswith("application/json") and answer
    return response.status, json.loads(answer) if is_json else answer.decode(), response


def answers(where: Path | int) -> bool:
    """Whether the server does, at its socket or its port."""
    at = UnixConnection(where) if isinstance(where, Path) else over_port(where)
    return ask(at, "/livez")[0] == 200


def over_port(port: int, host: str = "127.0.0.1") -> http.client.HTTPConnection:
    return http.client.HTTPConnection(host, port, 30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json.sock"


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators_server, "LOOK_SECONDS", 0.0)


@pytest.fixture
def watched() -> ExampleSidecar:
    return ExampleSidecar()


@pytest.fixture
def serve(watched: ExampleSidecar, path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(**config: Any) -> OperatorsServer:
            config = {"socket": path, **config}
            return stack.enter_context(OperatorsServer(OperatorsConfig(**config), watched))

        yield start


@pytest.fixture
def over_tcp(serve: Serve) -> Ask:
    port = serve(listen=("127.0.0.1", 0), token=TOKEN).port

    def over(target: str, body: object = None, **keywords: Any) -> Any:
        return ask(over_port(port), target, body, **keywords)

    return over


@pytest.fixture
def over_unix(serve: Serve, path: Path) -> Ask:
    serve()

    def over(target: str, body: object = None, **keywords: Any) -> Any:
        return ask(UnixConnection(path), target, body, **keywords)

    return over


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_at_both_doors(over_tcp: Ask, path: Path, page: str) -> None:
    status, answer, response = over_tcp(page)
    assert status == 200
    assert answer
    assert response.getheader("X-Content-Type-Options") == "nosniff"
    assert ask(UnixConnection(path), page)[0] == 200
    status, answer, response = over_tcp(page, method="HEAD")
    assert (status, answer) == (200, "")


def test_documents_are_those_of_the_sidecar(over_unix: Ask, watched: ExampleSidecar) -> None:
    assert over_unix("/api/status")[1] == watched.status()
    assert over_unix("/api/series")[1] == watched.series()
    assert over_unix("/api/history")[1] == watched.entries
    assert over_unix("/api/history?limit=2")[1] == watched.entries[-2:]
    assert over_unix("/api/history?limit=2&before=4")[1] == watched.entries[1:3]
    for wrong in ("0", "-1", "x", "1e3", "9" * 20, "%F0%9F%99%82"):
        assert over_unix(f"/api/history?limit={wrong}")[0] == 400, wrong
        assert over_unix(f"/api/history?before={wrong}")[0] == 400, wrong


@pytest.mark.parametrize("page", ["/api/status", "/metrics", "/livez", "/readyz"])
def test_without_descriptors_a_status_is_refused_in_a_line(
    serve: Serve,
    path: Path,
    watched: ExampleSidecar,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    page: str,
) -> None:
    """Whoever holds many connections takes them."""

    def starved() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/proc/meminfo")

    monkeypatch.setattr(watched, "status", starved)
    serve()
    status, answer, _ = ask(UnixConnection(path), page)
    assert status == 503
    assert "Too many open files" in str(answer)
    assert not any(record.exc_info for record in caplog.records)


def test_the_version_is_read_once_while_there_are_descriptors() -> None:
    """A status that had to open a file for it would fail when there are none."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    known = version("spreds")
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limit[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open("/", os.O_RDONLY)
        assert spreds_version() == known
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_what_is_not_there_and_what_is_asked_wrongly(over_tcp: Ask) -> None:
    assert over_tcp("/api/nothing")[0] == 404
    assert over_tcp("/../../etc/passwd")[0] == 404
    status, _, response = over_tcp("/api/status", {}, Authorization=f"Bearer {TOKEN}")
    assert (status, response.getheader("Allow")) == (405, "GET, HEAD")
    assert over_tcp("/api/orders", Authorization=f"Bearer {TOKEN}")[0] == 405
    assert over_tcp("/api/orders", method="OPTIONS")[0] == 405


def test_anybodys_malformed_address_is_refused_and_leaves_little_in_the_log(
    serve: Serve, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    port = serve(listen=("127.0.0.1", 0)).port
    once = RepeatFilter()
    caplog.handler.addFilter(once)
    request.addfinalizer(lambda: caplog.handler.removeFilter(once))
    caplog.set_level(logging.INFO)
    for number in range(100):
        for target in (f"http://[a{number}", "//[", f"/{number}", "http://[::1"):
            with socket.create_connection(("127.0.0.1", port), 30) as connection:
                connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                answer = connection.makefile("rb").read()
            assert answer.startswith(b"HTTP/1.0 400" if "http" in target else b"HTTP/1.0 404"), (
                answer
            )
    told = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert 0 < len(told) <= MOST_A_MINUTE + 2
    assert not any(record.exc_info for record in told)


def test_livez_lives_while_both_loops_turn(over_unix: Ask, watched: ExampleSidecar) -> None:
    assert over_unix("/livez")[:2] == (200, {"lives": True, "why_not": None})
    now = watched.document["now_seconds"]
    longest = LONGEST_TURN_SECONDS + 5 * LONGEST_SERVER_SECONDS
    for loop, name in (("loop_at_seconds", "main"), ("actuator_at_seconds", "actuator")):
        before = watched.document[loop]
        watched.document[loop] = now - longest - 1
        _say(over_unix, "/livez", 503, f"the {name} loop")
        watched.document[loop] = before
    # While it starts, it has time from the start on.
    watched.document.update(loop_at_seconds=None, started_at_seconds=now - 2)
    _say(over_unix, "/livez", 200)
    watched.document["started_at_seconds"] = now - longest - 1
    _say(over_unix, "/livez", 503)


def _say(over_unix: Ask, probe: str, status: int, why_not: str = "") -> None:
    """An answer may be as old as it took to make it, a few times over."""

    def says() -> bool:
        answer = over_unix(probe)
        return answer[0] == status and why_not in (answer[1]["why_not"] or "")

    wait_until(says, lambda: over_unix(probe)[:2])


def test_readyz_is_ready_when_a_server_answers(over_unix: Ask, watched: ExampleSidecar) -> None:
    assert over_unix("/readyz")[0] == 200
    turned = watched.document["actuator_at_seconds"]
    watched.document["actuator_at_seconds"] = turned - 100
    _say(over_unix, "/readyz", 503, "the actuator loop has not turned for")
    watched.document["actuator_at_seconds"] = turned
    for server in watched.document["servers"]:
        server["up"] = False
    _say(over_unix, "/readyz", 503, "no server answers")
    assert over_unix("/readyz")[1] == {"is_ready": False, "why_not": "no server answers"}
    watched.document["actuator_at_seconds"] = None
    _say(over_unix, "/readyz", 503, "asked")
    watched.document["loop_at_seconds"] = None
    _say(over_unix, "/readyz", 503, "main loop")


def test_an_order_over_the_socket_tells_the_systems_user(
    over_unix: Ask, watched: ExampleSidecar
) -> None:
    status, answer, _ = over_unix("/api/orders", {"what": "pause", "for_seconds": 60})
    assert (status, answer) == (200, {"done": "done: pause"})
    over_unix("/api/orders", {"what": "rollback", "to": "installation", "by": "ana", "why": "w"})
    me = f"(uid {os.getuid()})"
    assert [order.what for order in watched.orders] == ["pause", "rollback"]
    assert watched.orders[0].by.endswith(me)
    assert watched.orders[0].for_seconds == 60
    assert watched.orders[1].by.startswith("ana, as ")
    assert watched.orders[1].by.endswith(me)


def test_a_refused_order_says_why(over_unix: Ask, watched: ExampleSidecar) -> None:
    watched.refuses = "there is no plan yet"
    assert over_unix("/api/orders", {"what": "apply"})[:2] == (409, {"error": watched.refuses})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"apply"',
        b"null",
        {"what": "reboot"},
        {"what": "apply", "more": 1},
        {"what": "apply", "by": 7},
        {"what": "apply", "by": "a\nb"},
        {"what": "apply", "why": "a\x1b[2Jb"},
        {"what": "rollback", "server": "pages"},
        {"what": "rollback", "for_seconds": 60},
        {"what": "resume", "for_seconds": 60},
        {"what": "resume", "to": "installation"},
        {"what": "pause", "to": "last"},
        {"what": "pause", "server": "pages"},
        {"what": "apply", "server": "pages"},
        {"what": "recommend", "to": "last"},
        {"what": "pause", "for_seconds": -1},
        {"what": "pause", "for_seconds": 9e14},
        {"what": "pause", "for_seconds": 367 * 86400},
        b'{"what": "pause", "for_seconds": 1e999}',
        b"\xff\xfe",
        b"[" * 9000,
    ],
    ids=str,
)
def test_a_malformed_order_is_refused_in_a_sentence(
    over_unix: Ask, watched: ExampleSidecar, body: object
) -> None:
    status, answer, _ = over_unix("/api/orders", body)
    assert status == 400
    assert answer["error"]
    assert watched.orders == []


def test_a_field_of_another_order_is_named_with_it(over_unix: Ask) -> None:
    answer = over_unix("/api/orders", {"what": "rollback", "server": "pages"})[1]
    assert answer["error"] == ("the order: server belongs to the order 'resume', not to 'rollback'")


def test_who_orders_too_fast_is_refused_by_the_head_and_others_are_not() -> None:
    router = OperatorsServer(OperatorsConfig(), ExampleSidecar()).unix_router
    head = b"POST /api/orders HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n"

    def admits(uid: int) -> bool:
        incoming = Incoming(router, Peer(uid=uid))
        with suppress(RefusedError):
            incoming.feed(head)
        return incoming.has_head

    assert 30 <= [admits(1) for _ in range(100)].count(True) < 100
    assert admits(2)
    assert admits(0)
    with pytest.raises(RefusedError, match="too many orders"):
        Incoming(router, Peer(uid=1)).feed(head)
    # One user may have many numbers that have no name.
    assert 30 <= [admits(4_000_000 + number) for number in range(100)].count(True) < 100
    assert admits(2)


def test_orders_that_come_too_fast_are_told_when_to_come_again(
    over_tcp: Ask, watched: ExampleSidecar, path: Path
) -> None:
    """And whoever floods the port locks out nobody at the socket."""
    token = {"Authorization": f"Bearer {TOKEN}"}
    answers = [over_tcp("/api/orders", {"what": "resume"}, **token) for _ in range(30)]
    taken = [answer for answer in answers if answer[0] == 200]
    late = [answer for answer in answers if answer[0] == 429]
    assert len(taken) == len(watched.orders)
    assert 10 <= len(taken) < 30
    assert len(taken) + len(late) == 30
    assert "too many orders" in late[0][1]["error"]
    assert int(late[0][2].getheader("Retry-After", "")) > 0
    assert over_tcp("/api/orders", {"what": "resume"})[0] == 401
    client = SidecarClient(path)
    assert client.order(Order("resume", "ana")) == "done: resume"
    refusals = []
    while not refusals:
        try:
            client.order(Order("resume", "ana"))
        except OrderRefusedError as error:
            refusals.append(str(error))
    assert "too many orders" in refusals[0]
    assert over_tcp("/api/status")[0] == 200


def test_at_the_socket_a_browser_must_name_this_machine_too(
    over_unix: Ask, watched: ExampleSidecar
) -> None:
    """It may be forwarded to a port of the operator's own machine (ssh -L)."""
    for host in ("evil.example", "evil.example:8000", ""):
        assert over_unix("/api/orders", {"what": "resume"}, Host=host)[0] == 421
        assert over_unix("/", Host=host)[0] == 421
    assert watched.orders == []
    assert over_unix("/api/orders", {"what": "resume"}, Host="localhost:8000")[0] == 200


def test_many_readers_share_what_was_made_after_they_asked() -> None:
    made: list[int] = []
    may_go_on = threading.Event()

    def slow() -> int:
        made.append(1)
        assert may_go_on.wait(60)
        return len(made)

    shared = SharedAnswer(slow)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(shared)
        wait_until(lambda: made, lambda: made)
        others = [pool.submit(shared) for _ in range(7)]
        may_go_on.set()
        assert first.result() == 1
        assert {other.result() for other in others} == {2}
    assert len(made) == 2
    assert shared() == 3


def test_what_cannot_be_shared_is_made_one_at_a_time_with_rests(
    monkeypatch: pytest.MonkeyPatch, over_unix: Ask, watched: ExampleSidecar
) -> None:
    rested, now = list[float](), [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=rested.append)
    monkeypatch.setattr(shared_module, "time", clock)

    def slow(*_: object) -> list[bytes]:
        now[0] += 0.2
        return []

    monkeypatch.setattr(watched, "history", slow)
    for _ in range(3):
        assert over_unix("/api/history?limit=500")[0] == 200
    assert rested == pytest.approx([0.0, 0.8, 0.8])


def test_an_order_must_be_json_of_bounded_length(over_unix: Ask, watched: ExampleSidecar) -> None:
    order = {"what": "apply"}
    form = "application/x-www-form-urlencoded"
    assert over_unix("/api/orders", order, Content_Type=form)[0] == 415
    assert over_unix("/api/orders", order, Content_Type="text/plain")[0] == 415
    assert over_unix("/api/orders", b" " * (MOST_BODY_BYTES + 1))[0] == 413
    for length, status in (("9" * 40, 413), ("x", 411), ("-1", 411)):
        assert over_unix("/api/orders", method="POST", Content_Length=length)[0] == status
    assert watched.orders == []


@pytest.mark.parametrize(
    "header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}]
)
def test_over_tcp_an_order_needs_the_token(
    over_tcp: Ask, watched: ExampleSidecar, header: dict[str, str]
) -> None:
    status, answer, response = over_tcp("/api/orders", {"what": "apply"}, **header)
    assert (status, response.getheader("WWW-Authenticate")) == (401, "Bearer")
    assert TOKEN not in answer["error"]
    assert watched.orders == []
    assert watched.metrics.value("requests_refused", reason="token") == 1


def test_over_tcp_the_token_is_enough(over_tcp: Ask, watched: ExampleSidecar) -> None:
    order = {"what": "apply", "by": "ana"}
    assert over_tcp("/api/orders", order, Authorization=f"Bearer {TOKEN}")[0] == 200
    (given_order,) = watched.orders
    assert given_order.by == "ana, as the holder of the token at 127.0.0.1"


def test_a_token_that_is_replaced_in_its_file_counts_and_the_old_one_no_more(
    serve: Serve, watched: ExampleSidecar, tmp_path: Path, looks_often: None
) -> None:
    file = write_secret(tmp_path / "token", TOKEN)
    server = serve(listen=("127.0.0.1", 0), token=TOKEN, token_path=file)

    def statuses() -> list[int]:
        server.look()
        return [
            ask(
                over_port(server.port or 0),
                "/api/orders",
                {"what": "resume"},
                Authorization=f"Bearer {token}",
            )[0]
            for token in (TOKEN, "another-token-of-length")
        ]

    assert statuses() == [200, 401]
    file.unlink()
    assert statuses() == [200, 401]
    (problem,) = server.problems()
    assert problem.startswith(f"operators.token_file {str(file)!r} cannot be read: No such file")
    assert "; the token read at 20" in problem
    write_secret(file, "short")
    assert statuses() == [200, 401]
    assert "must hold one word" in server.problems()[0]
    assert watched.metrics.value("tokens_unread") == 2
    write_secret(file, "another-token-of-length")
    assert statuses() == [401, 200]
    assert server.problems() == []


def test_without_a_token_no_order_is_taken_over_tcp(serve: Serve, watched: ExampleSidecar) -> None:
    port = serve(listen=("127.0.0.1", 0)).port
    order = {"what": "apply"}
    status, answer, _ = ask(over_port(port), "/api/orders", order, Authorization="Bearer ")
    assert status == 403
    assert "operators.token_file" in answer["error"]
    assert watched.orders == []


@pytest.mark.parametrize("page", [*PAGES, "/api/orders"])
def test_another_sites_name_for_this_machine_is_refused(over_tcp: Ask, page: str) -> None:
    for host in ("evil.example", "evil.example:9736", "localhost.evil.example", "10.0.0.1", ""):
        assert over_tcp(page, Host=host)[0] == 421, host


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "127.0.0.1", "127.9.9.9:80", "[::1]:9"]
)
def test_names_of_this_machine(host: str) -> None:
    assert is_own_name(host, anywhere=False)


@given(st.text(max_size=40))
def test_only_numbers_and_localhost_are_names_of_this_machine(host: str) -> None:
    """Whatever a browser may send: what passes has no letter of a domain's name."""
    if is_own_name(host, anywhere=False):
        name = host.rpartition(":")[0] or host
        assert "localhost" in host.lower() or not name.strip("[]").replace(":", "").isalpha()


@given(st.text(max_size=60))
def test_only_the_token_is_the_token(given_text: str) -> None:
    assert is_token(f"Bearer {given_text}", TOKEN) == (given_text.strip() == TOKEN)
    assert not is_token(given_text, TOKEN)


def test_from_other_machines_numbers_and_the_machines_name(over_tcp: Ask) -> None:
    assert is_own_name("10.2.3.4:9736", anywhere=True)
    assert is_own_name(socket.gethostname(), anywhere=True)
    assert not is_own_name("evil.example", anywhere=True)


def test_the_socket_is_for_its_user_only(over_unix: Ask, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_or_for_a_group(serve: Serve, path: Path) -> None:
    group = grp.getgrgid(os.getgroups()[-1] if os.getgroups() else os.getgid())
    serve(group=group.gr_name)
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_gid) == (0o660, group.gr_gid)


def test_a_long_path_is_as_good_as_a_short_one(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / ("d" * 100) / ("e" * 100) / "state.json.sock"
    server = serve(socket=path)
    assert answers(path)
    server.close()
    assert not path.exists()


def test_what_a_dead_sidecar_left_is_replaced(serve: Serve, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    serve()
    assert answers(path)


def test_a_living_sidecars_socket_and_a_file_stay(
    over_unix: Ask, path: Path, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="another process answers there"):
        UnixSocket(path)
    assert over_unix("/livez")[0] == 200
    file = tmp_path / "a-file"
    file.write_text("mine")
    with pytest.raises(OSError, match=r"a-file cannot be bound: .*not a socket"):
        UnixSocket(file)
    assert file.read_text() == "mine"


def test_closing_leaves_what_another_has_put_there(serve: Serve, path: Path) -> None:
    server = serve()
    path.unlink()
    path.write_text("somebody else's")
    server.close()
    server.close()
    assert path.read_text() == "somebody else's"


def test_a_socket_that_was_removed_is_there_again(
    serve: Serve, watched: ExampleSidecar, path: Path, looks_often: None
) -> None:
    server = serve(listen=("127.0.0.1", 0))
    server.look()
    assert watched.metrics.value("operators_sockets_gone") == 0
    for times in (1, 2):
        path.unlink()
        server.look()
        assert answers(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert watched.metrics.value("operators_sockets_gone") == times
    assert answers(server.port)
    server.close()
    assert not path.exists()


def test_what_is_put_in_the_sockets_place_stays_and_the_next_look_tries_again(
    serve: Serve, tmp_path: Path, looks_often: None
) -> None:
    path = tmp_path / "folder" / "state.json.sock"
    server = serve(socket=path)
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("in the way")
    server.look()
    server.look()
    assert path.parent.read_text() == "in the way"
    path.parent.unlink()
    server.look()
    assert answers(path)


def test_a_port_that_is_taken_is_a_problem_until_it_is_free(
    watched: ExampleSidecar, serve: Serve, path: Path, looks_often: None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = serve(listen=("127.0.0.1", port))
        assert answers(path)
        server.look()
        (problem,) = server.problems()
        assert f"operators.listen: 127.0.0.1:{port} cannot be bound: " in problem
        assert watched.metrics.value("operators_not_bound", key="listen") == 2
    server.look()
    assert server.problems() == []
    assert answers(port)


def test_a_socket_that_cannot_be_made_is_a_problem_until_it_can(
    serve: Serve, path: Path, looks_often: None
) -> None:
    path.write_text("mine")
    server = serve(listen=("127.0.0.1", 0))
    (problem,) = server.problems()
    assert problem.startswith(f"operators.socket: {path} cannot be bound: ")
    assert answers(server.port)
    path.unlink()
    server.look()
    assert server.problems() == []
    assert answers(path)


def test_without_a_thread_the_socket_is_a_problem_until_there_is_one(
    serve: Serve, path: Path, looks_often: None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        refuse_threads(patch)
        server = serve()
        (problem,) = server.problems()
        assert problem.startswith("operators.socket: can't start new thread")
    server.look()
    assert server.problems() == []
    assert answers(path)


def test_localhost_is_both_families_or_neither(serve: Serve, looks_often: None) -> None:
    server = serve(socket=None, listen=("localhost", 0))
    for host in ("127.0.0.1", "::1"):
        assert ask(over_port(server.port, host), "/livez")[0] == 200
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        half = serve(socket=None, listen=("localhost", port))
        assert f"[::1]:{port} cannot be bound" in half.problems()[0]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    half.look()
    assert half.problems() == []
    for host in ("127.0.0.1", "::1"):
        assert ask(over_port(port, host), "/livez")[0] == 200


def test_silent_clients_keep_nobody_out(serve: Serve) -> None:
    """More of them than there is room for: each new one takes the place of the oldest."""
    port = serve(listen=("127.0.0.1", 0)).port
    with ExitStack() as stack:
        silent = []
        for _ in range(2 * LIMITS.connections):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(b"GET /livez HTTP/1.0\r\nHost: local")
            silent.append(connection)
        assert answers(port)
        silent[0].settimeout(30)
        assert silent[0].recv(1) == b""  # hung up on


def test_a_fault_of_ours_is_answered_and_logged(
    over_unix: Ask, watched: ExampleSidecar, caplog: pytest.LogCaptureFixture
) -> None:
    del watched.document["loop_at_seconds"]
    status, answer, _ = over_unix("/livez")
    assert (status, answer["error"][:11]) == (500, "the sidecar")
    assert "a request could not be answered" in caplog.text
    assert over_unix("/api/status")[0] == 200


def test_no_bytes_bring_it_down(serve: Serve, watched: ExampleSidecar) -> None:
    port = serve(listen=("127.0.0.1", 0)).port

    @given(st.binary(max_size=300) | st.binary(max_size=300).map(b"POST /api/orders ".__add__))
    def send(garbage: bytes) -> None:
        with socket.create_connection(("127.0.0.1", port), 30) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while connection.recv(65536):
                    pass

    send()
    assert answers(port)
    assert watched.orders == []


# --- Orders within bounds of time, for each who gives them.


def test_a_burst_then_one_each_two_seconds() -> None:
    clock = Clock()
    rate = RateLimit(burst=3, seconds=2.0, now=clock)
    assert [rate.wait_seconds("ann") for _ in range(5)] == [0, 0, 0, 2, 2]
    assert rate.wait_seconds("bob") == 0
    clock.seconds += 2
    assert [rate.wait_seconds("ann") for _ in range(2)] == [0, 2]
    clock.seconds += 1000
    assert [rate.wait_seconds("ann") for _ in range(4)] == [0, 0, 0, 2]


@given(st.lists(st.floats(0, 5), max_size=50), st.integers(1, 5), st.sampled_from([0.5, 1.0, 3.0]))
def test_no_more_than_the_bucket_and_what_flowed_in(
    pauses: list[float], burst: int, seconds: float
) -> None:
    clock = Clock()
    rate = RateLimit(burst, seconds, now=clock)
    taken = 0
    for pause in pauses:
        clock.seconds += pause
        wait = rate.wait_seconds("ann")
        if wait == 0:
            taken += 1
        else:
            assert 0 < wait <= seconds + 1
    assert taken <= burst + (clock.seconds - 100) / seconds + 1e-6


def test_what_is_known_of_strangers_is_bounded() -> None:
    rate = RateLimit(1, 1.0, now=Clock())
    for number in range(5000):
        assert rate.wait_seconds(str(number)) == 0
    assert len(rate._full_at) == 1000
