"""``controller.kind = "http"``: a service answers observations with plans."""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.config.controller_config import ServiceConfig
from sidecar.config.node import load_config
from sidecar.controllers import solver_service
from sidecar.controllers.solver_service import HungUpError, ServiceError, SolverService
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import MAX_PLAN_BYTES, AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from tests.secret_file import write_secret
from tests.sidecar.answering import answering
from tests.sidecar.black_hole import BlackHole
from tests.sidecar.daemon.test_closed_loop import CYCLE, Load, plan_of, wait_for
from tests.sidecar.fixtures import WriteNode
from tests.sidecar.inherited_listener import stranger_with_inherited_socket
from tests.sidecar.other_user import strangers_listener
from tests.sidecar.own_address import own_address
from tests.sidecar.simultaneous_open import connect_from, stranger_beside_a_server
from tests.sidecar.tls_proxy import Authority, tls_proxy
from workloads.local_node import sidecar_in_thread
from workloads.local_server import LocalServer
from workloads.node_programs import SolverService as RunningService
from workloads.node_programs import running_service

MB = 1 << 20
TOKEN = "only-for-tests-0123456789"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    log = tmp_path_factory.mktemp("service") / "log"
    with running_service(log, {"SPREDS_TOKEN": TOKEN}) as started:
        yield started


@pytest.fixture
def node(write_node: WriteNode, servers: list[LocalServer], tmp_path: Path) -> Callable[..., Path]:
    """Writes the node's file with a ``[controller]`` of this kind, address and token."""
    urls = {"small": servers[0].url, "large": servers[1].url}

    def write(url: str, kind: str = "http", token: str = TOKEN, more: str = "") -> Path:
        write_secret(tmp_path / "token", token + "\n")
        controller = f'[controller]\nkind = "{kind}"\nurl = "{url}"\ntoken_file = "token"\n'
        controller += f'folder = "documents"\n{more}'
        return write_node(urls, budget="24mb", more=CYCLE + controller)

    return write


def test_a_service_gives_memory_to_the_server_that_can_use_it(
    node: Callable[..., Path],
    servers: list[LocalServer],
    service: RunningService,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = node(service.url)
    with Load(servers), sidecar_in_thread(path) as sidecar:
        wait_for(lambda: sidecar.last_plan, sidecar)

        def moved() -> bool:
            small, large = (s.maxmemory_bytes for s in plan_of(sidecar).servers)
            return sidecar.cycles >= 3 and large > 12 * MB > small

        wait_for(moved, sidecar)
        last = plan_of(sidecar)
        assert sidecar.metrics.value("plans_embedded") == 0
    documents = tmp_path / "documents"
    plan = AdaptationPlan.loads((documents / plan_key("n1", last.cycle)).read_bytes(), "plan")
    # Its figures are the sidecar's own.
    assert (plan.reason, plan.what_if, plan.made_at_seconds) == (
        last.reason,
        last.what_if,
        last.made_at_seconds,
    )
    assert [(one.name, one.maxmemory_bytes, one.reason) for one in plan.servers] == [
        (one.name, one.maxmemory_bytes, one.reason) for one in last.servers
    ]
    key = observation_key("n1", last.cycle)
    assert Observation.loads((documents / key).read_bytes(), key).node == "n1"
    assert main(["check", str(path), "--connect", "--verbose"]) == 0
    assert f"controller.url: {service.url} answers" in capsys.readouterr().out


def test_the_token_is_shown_to_nobody(
    node: Callable[..., Path], service: RunningService, capsys: pytest.CaptureFixture[str]
) -> None:
    path = node(service.url, token="wrong-" + TOKEN)
    assert main(["check", str(path)]) == 0
    assert main(["check", str(path), "--json"]) == 0
    assert main(["check", str(path), "--connect"]) == 1
    said = capsys.readouterr()
    words = "says 401: the token in the Authorization header is missing or wrong"
    assert words in " ".join(said.out.split())
    assert 'token_file = "' in said.out
    assert TOKEN not in said.out + said.err + repr(load_config(path))


def test_a_token_that_is_replaced_in_its_file_is_read_again_when_the_old_one_is_refused(
    service: RunningService, tmp_path: Path
) -> None:
    file = write_secret(tmp_path / "token", "wrong-" + TOKEN)
    asked = SolverService(ServiceConfig(service.url, "wrong-" + TOKEN, token_path=file), 30)
    with pytest.raises(ServiceError, match="says 401"):
        asked.look()
    file.unlink()
    with pytest.raises(ServiceError, match=r"says 401: .*; controller.token_file '.*token' cannot"):
        asked.look()
    write_secret(file, TOKEN)
    asked.look()


@pytest.mark.parametrize("token", [TOKEN, "wrong"])
def test_auto_plans_itself_where_the_service_gives_nothing(
    node: Callable[..., Path], servers: list[LocalServer], service: RunningService, token: str
) -> None:
    url = service.url if token == "wrong" else "http://127.0.0.1:9/"
    with Load(servers), sidecar_in_thread(node(url, "auto", token)) as sidecar:
        wait_for(lambda: sidecar.cycles >= 2, sidecar)
        assert sidecar.metrics.value("observations_failed") >= 2
        assert sidecar.metrics.value("stand_ins") >= 2


def test_without_a_stand_in_a_service_that_is_away_moves_nothing(
    node: Callable[..., Path], servers: list[LocalServer]
) -> None:
    more = 'plan_deadline = "300ms"\n'
    with (
        Load(servers),
        BlackHole() as hole,
        sidecar_in_thread(node(hole.url, more=more)) as sidecar,
    ):
        wait_for(lambda: sidecar.metrics.value("observations_failed") >= 2, sidecar)
        wait_for(lambda: sidecar.metrics.value("plans_overdue") >= 2, sidecar)
        assert sidecar.cycles == 0
        assert sidecar.last_plan is None
    assert [int(s.client.config_get("maxmemory")["maxmemory"]) for s in servers] == [12 * MB] * 2


@pytest.mark.parametrize(
    ("body", "reason"), [(b"<html>welcome</html>", "malformed"), (b"{}", "malformed")]
)
def test_what_is_no_plan_is_refused(
    node: Callable[..., Path], servers: list[LocalServer], body: bytes, reason: str, tmp_path: Path
) -> None:
    with (
        answering(b"HTTP/1.1 200 OK\r\n\r\n" + body) as url,
        Load(servers),
        sidecar_in_thread(node(url)) as sidecar,
    ):
        wait_for(lambda: sidecar.metrics.value("plans_refused", reason=reason), sidecar)
        assert sidecar.cycles == 0
    assert list((tmp_path / "documents" / "observations").rglob("*.json"))
    assert not list((tmp_path / "documents").rglob("plans/**/*.json"))


@pytest.mark.parametrize(
    ("answer", "rest", "words"),
    [
        (b"", b"", "closed connection"),
        (b"nonsense\r\n\r\n", b"", "BadStatusLine: nonsense"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\n\r\n", b"", "says 302"),
        (b'HTTP/1.1 500 Oops\r\n\r\n{"error": "no\nmemory"}', b"", "says 500"),
        (b'HTTP/1.1 422 No\r\n\r\n{"error": "too old"}', b"", "says 422: too old"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", b"", "7 bytes too early"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" " * (1 << 16), f"more than the {MAX_PLAN_BYTES} bytes"),
        (CHUNKED + b"-1\r\n", b"x" * (1 << 16), "too long for a plan"),
        (CHUNKED + b"7fffffff\r\n", b"x" * (1 << 16), "more than|too long"),
        (CHUNKED, b"1\r\nx\r\n" * 8192, "more than|too long"),
        (CHUNKED, b"1;" + b"x" * 65000, "LineTooLong|too long|Incomplete"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" ", "no answer within"),
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", "no answer within|100 headers"),
    ],
)
def test_an_answer_that_is_none_is_told_in_a_sentence(
    answer: bytes, rest: bytes, words: str
) -> None:
    with answering(answer, rest) as url:
        service = SolverService(
            ServiceConfig(url), limit_seconds=0.5 if "no answer" in words else 30
        )
        with pytest.raises(ServiceError, match=words) as refused:
            service.answer(b"{}")
    assert "\n" not in str(refused.value)


def test_a_service_that_says_the_token_again_is_not_quoted() -> None:
    said = f"HTTP/1.1 401 No\r\n\r\n\x1b[2JAuthorization: Bearer {TOKEN}"
    with answering(said.encode()) as url, pytest.raises(ServiceError) as refused:
        SolverService(ServiceConfig(url, TOKEN), 30).answer(b"{}")
    shown = url.partition("?")[0] + "?..."  # a query may be a secret as well
    assert str(refused.value) == f"{shown}: says 401: [2JAuthorization: Bearer (secret)"
    assert TOKEN not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "words",
    [
        "the function key Zk3vQ9+fLwPq8RtYx/72== has no right",
        "the function key Zk3vQ9%2BfLwPq8RtYx%2F72== has no right",
        '{"message": "key Zk3vQ9\\u002BfLwPq8RtYx\\/72== has no right"}',
        "<b>key Zk3vQ9&#43;fLwPq8RtYx&#x2F;72== has no right</b>",
    ],
)
def test_nor_is_a_part_of_the_query_in_whatever_form(words: str) -> None:
    answer = f"HTTP/1.1 401 No\r\n\r\n{words}"
    query = "code=Zk3vQ9%2BfLwPq8RtYx%2F72==&version=2"
    with answering(answer.encode()) as url, pytest.raises(ServiceError) as refused:
        SolverService(ServiceConfig(f"{url.partition('?')[0]}?{query}"), 30).answer(b"{}")
    assert "key (secret) has no right" in str(refused.value)


@pytest.mark.parametrize("said", [f"{TOKEN[:5]}\n{TOKEN[5:]}", " " * 1_170 + f"Bearer {TOKEN}"])
def test_nor_where_it_is_broken_or_far_behind(said: str) -> None:
    answer = f"HTTP/1.1 401 No\r\n\r\nyou sent {said}"
    with answering(answer.encode()) as url, pytest.raises(ServiceError) as refused:
        SolverService(ServiceConfig(url, TOKEN), 30).answer(b"{}")
    assert str(refused.value).endswith("(secret)")
    assert TOKEN[5:] not in str(refused.value)


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_another_user_at_the_solvers_port_is_sent_nothing(host: str) -> None:
    listening = strangers_listener(host=host)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    with listening:
        with pytest.raises(ServiceError, match=r"there listens nobody .*nothing was sent"):
            SolverService(ServiceConfig(url, TOKEN), 30).answer(b"{}")
        connected, _ = listening.accept()
        assert connected.recv(1) == b""
        # Who is told to believe whoever answers, asks; so does who knows the solver by its key.
        believing = ServiceConfig(url, TOKEN, allow_plain_http=True)
        for config in (believing, ServiceConfig(url, key=b"k" * 32)):
            with pytest.raises(ServiceError, match=r"timed out|no answer"):
                SolverService(config, 0.2).answer(b"{}")


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_another_user_at_another_address_of_this_machine_is_sent_nothing() -> None:
    host = own_address()
    listening = strangers_listener(host=host)
    url = f"http://{host}:{listening.getsockname()[1]}/"
    with listening:
        with pytest.raises(ServiceError, match=r"there listens nobody .*nothing was sent"):
            SolverService(ServiceConfig(url, TOKEN), 30).answer(b"{}")
        with listening.accept()[0] as connected:
            assert connected.recv(1) == b""


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
@pytest.mark.parametrize("with_decoy", [False, True])
def test_another_user_with_the_connection_to_the_solver_is_sent_nothing(
    monkeypatch: pytest.MonkeyPatch, with_decoy: bool
) -> None:
    with stranger_beside_a_server(with_decoy) as (server, stranger, port):
        monkeypatch.setattr(socket, "create_connection", lambda *_: connect_from(port, at))
        at = server.getsockname()
        service = SolverService(ServiceConfig(f"http://127.0.0.1:{at[1]}/", TOKEN), 2)
        with pytest.raises(
            ServiceError, match=r"our connection has nobody \(uid 65534\).*nothing was sent"
        ):
            service.answer(b"{}")
        assert stranger.recv(100) == b""


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_a_stranger_who_accepts_late_where_root_listens_is_sent_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with stranger_with_inherited_socket() as stranger:
        monkeypatch.setattr(time, "sleep", lambda _: stranger.accept())
        url = f"http://127.0.0.1:{stranger.address[1]}/"
        with pytest.raises(ServiceError) as refused:
            SolverService(ServiceConfig(url, TOKEN), 2).answer(b"{}")
        assert stranger.heard() == b""
    assert "our connection has nobody (uid 65534)" in str(refused.value)


def test_who_hangs_up_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd from many addresses makes a solver hang up on whoever has not asked yet. That took a
    plan each hour."""
    pauses, times = [], {"left": 3}

    def exchange(_: SolverService, method: str, body: bytes | None) -> bytes:
        if times["left"]:
            times["left"] -= 1
            raise HungUpError("it hung up")
        return b"plan"

    monkeypatch.setattr(solver_service.time, "sleep", pauses.append)
    with monkeypatch.context() as crowded:
        crowded.setattr(SolverService, "_exchange", exchange)
        service = SolverService(ServiceConfig("http://127.0.0.1:1/", TOKEN), 10)
        assert service.answer(b"{}") == b"plan"
        assert pauses == [0.05, 0.1, 0.2]
        times["left"] = 1000
        clock = iter(range(1000))
        crowded.setattr(solver_service.time, "monotonic", lambda: float(next(clock)))
        with pytest.raises(HungUpError):
            service.answer(b"{}")
        assert times["left"] > 990
    # That it does so is told, and not that a stranger has the connection.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connected = socket.create_connection(listening.getsockname())
        listening.accept()[0].close()
        with connected, pytest.raises(ConnectionAbortedError, match="hung up before it was sent"):
            solver_service.check_listener(connected, 1.0)


def test_a_solver_that_does_not_accept_is_sent_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        with pytest.raises(ServiceError, match="TimeoutError"):
            SolverService(ServiceConfig(url, TOKEN), 0.1).answer(b"{}")
        with listening.accept()[0] as connected:
            assert connected.recv(100) == b""


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_another_user_at_the_mapped_address_is_sent_nothing() -> None:
    """A server of version 6 alone leaves him the connections of version 4."""
    with socket.create_server(("::", 0), family=socket.AF_INET6) as server:
        port = server.getsockname()[1]
        os.seteuid(65534)
        try:
            stranger = socket.socket(socket.AF_INET6)
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stranger.bind(("::ffff:127.0.0.1", port))
        finally:
            os.seteuid(0)
        with stranger:
            stranger.listen()
            service = SolverService(ServiceConfig(f"http://127.0.0.1:{port}/", TOKEN), 2)
            with pytest.raises(ServiceError, match=r"there listens nobody .*nothing was sent"):
                service.answer(b"{}")
            with stranger.accept()[0] as connected:
                assert connected.recv(100) == b""


@pytest.mark.parametrize("token", ["two lines\nof-it", "two words", "", "\u00e9", "a\x00b"])
def test_a_token_that_no_header_can_have_is_refused_unquoted(
    node: Callable[..., Path], token: str
) -> None:
    path = node("http://127.0.0.1:9/", token=token)
    with pytest.raises(DocumentError, match=r"token_file must hold one word") as refused:
        load_config(path)
    assert not token or token not in str(refused.value)


def test_a_service_behind_tls_is_believed_by_its_certificate(
    service: RunningService, tmp_path: Path
) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    with tls_proxy(("127.0.0.1", service.port), authority.certificate("service")) as address:
        url = address.replace("rediss:", "https:")
        SolverService(ServiceConfig(url, TOKEN, authority.path), 30).look()
        for believed in (stranger.path, None):
            with pytest.raises(ServiceError, match="CERTIFICATE_VERIFY_FAILED"):
                SolverService(ServiceConfig(url, TOKEN, believed), 30).look()


@pytest.mark.parametrize(
    ("controller", "words"),
    [
        ('kind = "http"', "controller.url is missing"),
        ('url = "ftp://x/"', "http or https address"),
        ('url = "http://name:word@x/"', "http or https address"),
        ('url = "http://x/"\nssl_ca_certs = "ca.pem"', "for an https url"),
        ('url = "https://x/"\nssl_ca_certs = "ca.pem"', "cannot be read"),
        ('url = "https://x/"\ntoken_file = "not-there"', "token_file"),
        ('token_file = "node.toml"', "token_file"),
    ],
)
def test_a_service_that_cannot_be_is_refused(
    write_node: WriteNode, controller: str, words: str
) -> None:
    path = write_node({"a": "redis://127.0.0.1:1"}, more=f"[controller]\n{controller}\n")
    with pytest.raises(DocumentError, match=words):
        load_config(path)


def test_a_node_has_a_cloud_or_a_service(write_node: WriteNode) -> None:
    more = '[controller]\nurl = "http://x/"\nobservations_bucket = "o"\nplans_bucket = "p"\n'
    more += 'topic_arn = "arn:aws:sns:us-east-1:123456789012:t"\nqueue_url = "http://x/q"\n'
    with pytest.raises(DocumentError, match="two places"):
        load_config(write_node({"a": "redis://127.0.0.1:1"}, more=more))
