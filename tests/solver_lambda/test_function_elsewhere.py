"""The solver under other contracts than AWS': a dictionary, and HTTP as three platforms ask it."""

from __future__ import annotations

import base64
import dataclasses
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from solver_lambda.documents.observation import MAX_OBSERVATION_BYTES, Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.function import http_server, large_observations
from solver_lambda.function.answering import RefusedError as ObservationRefusedError
from solver_lambda.function.http_server import (
    MOST_LINES_A_MINUTE,
    MOST_SERVERS_IN_A_LINE,
    ServiceJournal,
    solver_router,
)
from solver_lambda.function.large_observations import LARGE_BYTES
from solver_lambda.function.openwhisk import main
from solver_lambda.http.message import Peer, RefusedError, Request
from solver_lambda.http.router import Router
from solver_lambda.planning.planner import make_plan
from tests.secret_file import write_secret
from workloads.local_node import wait_until
from workloads.node_programs import HOST, SolverService, running_service
from workloads.processes import ROOT

TOKEN = "only-for-tests-0123456789"
Answer = tuple[int, dict[str, Any]]


@pytest.fixture
def observation(make_observation: Any) -> Observation:
    made: Observation = make_observation(made_at_seconds=time.time())
    return made


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SolverService]:
    log = tmp_path_factory.mktemp("service") / "log"
    with running_service(log, {"SPREDS_TOKEN": TOKEN}) as started:
        yield started


def ask(
    service: SolverService,
    method: str,
    path: str = "/",
    body: bytes | None = None,
    token: str | None = TOKEN,
) -> Answer:
    connection = http.client.HTTPConnection(HOST, service.port, timeout=30)
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def is_the_plan_of(document: dict[str, Any], observation: Observation) -> bool:
    """Whether it is what the planner makes of it, apart from when and how fast it was made."""
    plan = AdaptationPlan.loads(json.dumps(document), "plan")
    asked = Observation.loads(observation.dumps(), "observation")
    ours = make_plan(asked, now_seconds=plan.made_at_seconds)
    same = {"run_seconds": plan.run_seconds, "run_memory_bytes": plan.run_memory_bytes}
    return plan.dumps() == dataclasses.replace(ours, **same).dumps()


def test_an_action_takes_the_fields_of_an_observation(observation: Observation) -> None:
    assert is_the_plan_of(main(json.loads(observation.dumps())), observation)


@pytest.mark.parametrize("way", ["fields", "text", "base64"])
def test_a_web_action_answers_with_the_plan_as_body(observation: Observation, way: str) -> None:
    text = observation.dumps()
    body = {
        "fields": json.loads(text),
        "text": {"__ow_body": text.decode()},
        "base64": {"__ow_body": base64.b64encode(text).decode()},
    }[way]
    answer = main({"__ow_method": "post", "__ow_headers": {}, "__ow_path": "", **body})
    assert answer["statusCode"] == 200
    assert is_the_plan_of(answer["body"], observation)


def test_an_action_that_refuses_gives_one_error(observation: Observation) -> None:
    late = json.loads(dataclasses.replace(observation, made_at_seconds=1.0).dumps())
    reason = main(late)["error"]
    assert "made_at_seconds" in reason
    assert main({}) == {"error": "the observation: kind is missing"}
    answer = main({"__ow_method": "post", "__ow_body": "!"})
    assert answer["error"]["statusCode"] == 422
    assert "neither JSON nor base64" in answer["error"]["body"]["error"]
    assert "not a text" in main({"__ow_body": 7})["error"]["body"]["error"]


def test_an_action_is_a_zip_with_a_main(observation: Observation, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operate" / "solver-elsewhere.md").read_text()
    (line,) = re.findall(r"echo '(.*)' > __main__.py", page)
    (tmp_path / "observation.json").write_bytes(observation.dumps())
    archive = tmp_path / "action.zip"
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("__main__.py", line + "\n")
        for path in (ROOT / "solver_lambda").rglob("*.py"):
            written.write(path, path.relative_to(ROOT))
    # As OpenWhisk's runtime has it: unpacked, and its main called with a dictionary
    # (https://github.com/apache/openwhisk-runtime-python).
    with zipfile.ZipFile(archive) as found:
        found.extractall(tmp_path / "action")
    call = (
        "import json, runpy; main = runpy.run_path('__main__.py')['main']; "
        "open('../plan.json', 'w').write(json.dumps(main(json.load(open('../observation.json')))))"
    )
    subprocess.run([sys.executable, "-c", call], cwd=tmp_path / "action", check=True)
    assert is_the_plan_of(json.loads((tmp_path / "plan.json").read_text()), observation)


def test_an_action_that_s3_starts_does_as_the_function(
    s3: Any, s3_environment: dict[str, str], observation: Observation, monkeypatch: Any
) -> None:
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)
    key = f"observations/{observation.node}/{observation.cycle:012d}.json"
    event = {"Records": [{"s3": {"bucket": {"name": "observations"}, "object": {"key": key}}}]}
    assert "404" in main(event)["error"]


# Knative's and Fission's gateways keep the path, OpenFaaS' watchdog asks for "/".
@pytest.mark.parametrize("path", ["/", "/solve", "/function/spreds-solver?x=1"])
def test_the_service_answers_an_observation_with_its_plan(
    service: SolverService, observation: Observation, path: str
) -> None:
    status, plan = ask(service, "POST", path, observation.dumps())
    assert status == 200
    assert is_the_plan_of(plan, observation)


@pytest.mark.parametrize("path", ["/healthz", "/_/health"])
def test_health_needs_no_token(service: SolverService, path: str) -> None:
    assert ask(service, "GET", path, token=None) == (200, {"status": "ready"})


def test_whoever_has_no_token_gets_nothing(
    service: SolverService, observation: Observation
) -> None:
    for token in (None, "", "wrong", TOKEN + "x", "é"):
        status, answer = ask(service, "POST", "/", observation.dumps(), token)
        assert (status, "token" in answer["error"]) == (401, True)
        assert ask(service, "GET", "/", token=token)[0] == 401
    assert ask(service, "GET", "/") == (200, {"status": "ready"})


@pytest.mark.parametrize(
    ("method", "body", "status", "words"),
    [
        ("POST", b"{", 422, "not a JSON document"),
        ("POST", b"{}", 422, "kind is missing"),
        ("PUT", b"{}", 405, "not PUT"),
        ("DELETE", None, 405, "not DELETE"),
    ],
)
def test_what_is_no_observation_is_refused(
    service: SolverService, method: str, body: bytes | None, status: int, words: str
) -> None:
    found, answer = ask(service, method, "/", body)
    assert found == status
    assert words in answer["error"]


def posted(router: Router, body: bytes) -> int:
    """The status of an answer."""
    try:
        return router.admit(Request("POST", "/", "", {}, Peer(), len(body))).answer(body).status
    except RefusedError as refused:
        return refused.answer.status


def test_of_large_observations_one_is_read_at_a_time(observation: Observation) -> None:
    """Each may take hundreds of megabytes while it is read."""
    router, entered, go_on = solver_router(""), threading.Event(), threading.Event()
    large = b'{"kind": "' + b"x" * LARGE_BYTES + b'"}'

    def read_slowly(*_: object) -> AdaptationPlan:
        entered.set()
        assert go_on.wait(30)
        raise ObservationRefusedError("it is none")

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(http_server, "plan_for", read_slowly)
        patch.setattr(large_observations, "WAIT_SECONDS", 0.0)
        first = pool.submit(posted, router, large)
        assert entered.wait(30)
        assert posted(router, large) == 503
        patch.undo()
        assert posted(router, observation.dumps()) == 200
        go_on.set()
        assert first.result() == 422
    assert posted(router, large) == 422


def raw(service: SolverService, head: str, body: bytes = b"") -> bytes:
    with socket.create_connection((HOST, service.port), timeout=30) as connection:
        text = f"{head}\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        connection.sendall(text.encode() + body)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("POST / HTTP/1.1", 411),
        ("POST / HTTP/1.1\r\nContent-Length: -1", 411),
        ("POST / HTTP/1.1\r\nContent-Length: 1e3", 411),
        (f"POST / HTTP/1.1\r\nContent-Length: {MAX_OBSERVATION_BYTES + 1}", 413),
        (f"POST / HTTP/1.1\r\nContent-Length: {'9' * 50}", 413),
        ("POST / HTTP/1.1\r\nContent-Length: 100", 400),
    ],
)
def test_a_bad_request_is_told_what_it_is(service: SolverService, head: str, status: int) -> None:
    assert str(status).encode() in raw(service, head, b"{}").split(b"\n", 1)[0]
    assert ask(service, "GET")[0] == 200


def test_what_is_no_http_is_refused(service: SolverService) -> None:
    assert raw(service, "nonsense").startswith(b"HTTP/1.0 400 ")
    assert ask(service, "GET")[0] == 200


def test_connections_that_send_nothing_hold_up_nobody(
    service: SolverService, observation: Observation
) -> None:
    idle = [socket.create_connection((HOST, service.port)) for _ in range(20)]
    try:
        for connection in idle:
            connection.sendall(f"POST / HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n".encode())
            connection.sendall(b"Content-Length: 100\r\n\r\n{")
        assert ask(service, "POST", "/", observation.dumps())[0] == 200
    finally:
        for connection in idle:
            connection.close()


def test_nodes_that_ask_together_are_all_answered(
    service: SolverService, observation: Observation
) -> None:
    with ThreadPoolExecutor(100) as pool:
        text = observation.dumps()
        answers = list(pool.map(lambda _: ask(service, "POST", "/", text)[0], range(100)))
    # Where the machine is slow some are told to come back, but nobody is cut off.
    assert set(answers) <= {200, 503}
    assert answers.count(200) >= 50


def test_a_plan_that_is_being_made_at_the_end_is_given_out(
    observation: Observation, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    text = observation.dumps()
    head = f"POST / HTTP/1.1\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    with running_service(log) as started, socket.create_connection((HOST, started.port)) as asked:
        asked.sendall(head + text[:-1])
        assert ask(started, "GET", token=None)[0] == 200  # so that ours has been taken before it
        os.kill(started.process_id, signal.SIGTERM)
        wait_until(lambda: not _listens(started.port), log.read_text)
        asked.sendall(text[-1:])
        answer = b"".join(iter(lambda: asked.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.0 200 OK")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def test_the_port_is_that_of_the_platform(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    done = serve("--host", "0.0.0.0", "--without-token", PORT=f"{port}x")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "environment variable PORT" in done.stderr
    with running_service(tmp_path / "log", {"PORT": str(port)}, arguments=()) as started:
        assert started.port == port
        assert ask(started, "GET", token=None)[0] == 200  # without a token nobody needs one


def test_nobody_who_asks_can_fill_the_log(observation: Observation, tmp_path: Path) -> None:
    """Half a line a second of each kind, and some servers in each."""
    one = observation.servers[0]
    many = tuple(dataclasses.replace(one, name=f"server-{number}") for number in range(40))
    asked = dataclasses.replace(observation, servers=many).dumps()
    old = dataclasses.replace(observation, made_at_seconds=1.0).dumps()
    log, times = tmp_path / "log", 2 * MOST_LINES_A_MINUTE + 1
    with running_service(log) as started:
        for _ in range(times):
            assert ask(started, "POST", body=asked, token=None)[0] == 200
            assert ask(started, "POST", body=old, token=None)[0] == 422
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    plans, refusals = (
        [line for line in lines if line["event"] == event] for event in ("plan", "request_refused")
    )
    assert len(plans) + len(refusals) == len(lines) - 1  # who listens where
    assert 0 < len(plans) < times
    assert 0 < len(refusals) < times
    for plan in plans:
        assert len(plan["maxmemory_bytes"]) == MOST_SERVERS_IN_A_LINE
        assert plan["servers_left_out"] == len(many) - MOST_SERVERS_IN_A_LINE


def test_lines_that_were_left_out_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_seconds = 600.0
    monkeypatch.setattr("solver_lambda.function.http_server.time.monotonic", lambda: now_seconds)
    journal = ServiceJournal()
    for _ in range(MOST_LINES_A_MINUTE + 12):
        journal.failed("GET /", RuntimeError())
    assert len(capsys.readouterr().out.splitlines()) == MOST_LINES_A_MINUTE
    now_seconds += 60
    journal.failed("GET /", RuntimeError())
    assert json.loads(capsys.readouterr().out)["untold_before"] == 12


def serve(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "solver_lambda", "serve", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["--host", "0.0.0.0"], {}, "SPREDS_TOKEN"),
        (["--host", "localhost"], {}, "--host"),
        (["--port", "70000"], {}, "--port must be"),
        ([], {"SPREDS_TOKEN": "short"}, "16 printable ASCII"),
        ([], {"SPREDS_TOKEN": "long enough but\nof two lines"}, "one word"),
        ([], {"SPREDS_TOKEN_FILE": "/not/there"}, "cannot be read"),
        ([], {"SPREDS_TOKEN_FILE": "/not/there", "SPREDS_TOKEN": TOKEN}, "both set"),
        ([], {"SPREDS_KEY": TOKEN}, "SPREDS_KEY must hold one word of at least 32 printable ASCII"),
        ([], {"SPREDS_KEY_FILE": "/not/there"}, "SPREDS_KEY_FILE '/not/there' cannot be read"),
    ],
)
def test_a_service_that_would_be_open_or_wrong_does_not_start(
    arguments: list[str], environment: dict[str, str], words: str
) -> None:
    done = serve(*arguments, **environment)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr


@pytest.mark.parametrize("name", ["SPREDS_TOKEN_FILE", "SPREDS_KEY_FILE"])
def test_a_secret_that_others_may_read_is_none(name: str, tmp_path: Path) -> None:
    secret = "only-for-tests-0123456789-0123456789"
    path = write_secret(tmp_path / "secret", secret)
    path.chmod(0o644)
    done = serve(**{name: str(path)})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{name} '{path}' is no secret: others may read it" in done.stderr
    path.chmod(0o600)
    path.write_text(40 * "a")
    done = serve(**{name: str(path)})
    assert "at least 8 different characters" in done.stderr


def test_a_port_that_is_taken_is_named(service: SolverService) -> None:
    done = serve("--port", str(service.port))
    assert done.returncode == 2
    assert f"{HOST}:{service.port} cannot be bound" in done.stderr
