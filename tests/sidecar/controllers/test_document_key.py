"""Node and solver know each other's documents by a key, also over plain HTTP."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.config.controller_config import ServiceConfig
from sidecar.config.node import load_config
from sidecar.controllers.solver_service import ServiceError, SolverService
from solver_lambda.documents.document_key import answer_signature, question_signature
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from tests.secret_file import write_secret
from tests.sidecar.answering import answering
from tests.sidecar.fixtures import WriteNode
from tests.sidecar.plan_messages import observation
from workloads.node_programs import SolverService as RunningService
from workloads.node_programs import running_service

KEY = "only-for-tests-0123456789-abcdefghi"
OTHER = "of-somebody-else-0123456789-abcdefg"
URLS = {"a": "redis://127.0.0.1:1"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("service")
    write_secret(folder / "key", f"{KEY}\n")
    with running_service(folder / "log", {"SPREDS_KEY_FILE": str(folder / "key")}) as started:
        yield started
    assert KEY not in (folder / "log").read_text()


def asking(url: str, key: str | None = KEY) -> SolverService:
    return SolverService(ServiceConfig(url, key=key.encode() if key else None), 30)


def asked() -> Observation:
    return replace(observation(7), made_at_seconds=time.time())


def test_both_ways_are_signed(service: RunningService) -> None:
    solver, question = asking(service.url), asked()
    solver.look()
    assert AdaptationPlan.loads(solver.answer(question.dumps()), "plan").cycle == 7


@pytest.mark.parametrize("key", [None, OTHER])
def test_who_has_not_the_key_gets_no_plan(service: RunningService, key: str | None) -> None:
    for ask in (asking(service.url, key).look, lambda: asking(service.url, key).answer(b"{}")):
        words = "answered 403 without the key's" if key else "says 403: the signature in X-Spreds"
        with pytest.raises(ServiceError, match=words) as refused:
            ask()
        assert refused.value.status == 403


def test_a_key_that_is_replaced_in_its_file_is_read_again_when_the_old_one_is_refused(
    service: RunningService, tmp_path: Path
) -> None:
    file = write_secret(tmp_path / "key", OTHER)
    solver = SolverService(ServiceConfig(service.url, key=OTHER.encode(), key_path=file), 30)
    with pytest.raises(ServiceError, match="answered 403 without the key's"):
        solver.look()
    write_secret(file, KEY)
    solver.look()


def answered(body: bytes, signature: str | None, status: str = "200 OK") -> bytes:
    line = f"X-Spreds-Signature: {signature}\r\n" if signature else ""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{line}\r\n".encode() + body


@contextmanager
def passing_on(port: int, seen: list[bytes]) -> Iterator[str]:
    """A man in the middle of one connection, who keeps what the solver says."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def pass_on() -> None:
            connection, _ = listening.accept()
            with connection, socket.create_connection(("127.0.0.1", port)) as solver:
                solver.sendall(connection.recv(1 << 16))
                seen.append(b"".join(iter(lambda: solver.recv(1 << 16), b"")))
                connection.sendall(seen[0])

        thread = threading.Thread(target=pass_on)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        thread.join()


NOW, BEFORE, PLAN = b"the observation", b"an older one", b"the plan"
FORGED = {
    "not signed": None,
    "signed with another key": answer_signature(OTHER.encode(), NOW, PLAN),
    "another plan": answer_signature(KEY.encode(), NOW, b"a better plan"),
    "an answer to an older observation": answer_signature(KEY.encode(), BEFORE, PLAN),
    "as a question": question_signature(KEY.encode(), PLAN),
    "nonsense": "sha256=\xe9",
}


@pytest.mark.parametrize("name", FORGED)
def test_an_answer_that_is_not_the_solvers_is_none(name: str) -> None:
    with (
        answering(answered(PLAN, FORGED[name])) as url,
        pytest.raises(
            ServiceError, match=r"answer is not signed by controller\.key_file"
        ) as refused,
    ):
        asking(url).answer(NOW)
    assert KEY not in str(refused.value)


def test_the_solvers_answer_to_this_question_is_taken() -> None:
    with answering(answered(PLAN, answer_signature(KEY.encode(), NOW, PLAN))) as url:
        assert asking(url).answer(NOW) == PLAN


def test_the_solvers_refusal_is_known_as_its_own(service: RunningService) -> None:
    with pytest.raises(ServiceError, match="says 422: the observation: not a JSON") as refused:
        asking(service.url).answer(b"nonsense")
    assert refused.value.status == 422


WORDS = b'{"error": "give the key anew at http://mend.example"}'


@pytest.mark.parametrize("signed_as", [None, 200, 403])
def test_words_that_the_solver_did_not_sign_are_not_shown(signed_as: int | None) -> None:
    signature = answer_signature(KEY.encode(), NOW, WORDS, signed_as) if signed_as else None
    with (
        answering(answered(WORDS, signature, "422 Refused")) as url,
        pytest.raises(ServiceError, match="somebody answered 422 without the key's") as refused,
    ):
        asking(url).answer(NOW)
    assert "mend.example" not in str(refused.value)


def test_an_answer_to_an_older_look_is_none(service: RunningService) -> None:
    """Somebody on the way has seen one, and gives it again when the solver is dead."""
    seen: list[bytes] = []
    with passing_on(service.port, seen) as url:
        asking(url).look()
    with (
        answering(seen[0]) as url,
        pytest.raises(ServiceError, match=r"is not signed by controller\.key_file"),
    ):
        asking(url).look()


def test_plain_http_to_another_machine_wants_a_key_or_a_line(
    write_node: WriteNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_secret(tmp_path / "key", KEY)
    (tmp_path / "key").chmod(0o600)

    def node(url: str, more: str = "") -> Path:
        return write_node(URLS, more=f'[controller]\nkind = "http"\nurl = "{url}"\n{more}\n')

    for far in ("http://10.0.0.5:8080/", "http://solver.example/", "http://0.0.0.0/"):
        with pytest.raises(DocumentError, match=r"controller\.url is .*plain text to another"):
            load_config(node(far))
        for more in ("allow_plain_http = true", 'key_file = "key"'):
            load_config(node(far, more))
    for near in ("http://127.0.0.1:8080/", "http://localhost/", "http://[::1]:1/", "https://x/"):
        load_config(node(near))
    path = node("http://10.0.0.5:8080/", 'key_file = "key"')
    assert main(["check", str(path)]) == 0
    said = capsys.readouterr().out
    assert "# link solver: signed with the node's key, but others on the way can read it" in said
    assert 'key_file = "' in said
    assert KEY not in said + repr(load_config(path))


@pytest.mark.parametrize("key", ["short", "two words that are long enough for it", ""])
def test_a_key_that_is_none_is_refused_unquoted(
    write_node: WriteNode, tmp_path: Path, key: str
) -> None:
    write_secret(tmp_path / "key", key)
    (tmp_path / "key").chmod(0o600)
    more = '[controller]\nkind = "http"\nurl = "http://127.0.0.1/"\nkey_file = "key"\n'
    with pytest.raises(DocumentError, match="key_file must hold one word of at least 32") as found:
        load_config(write_node(URLS, more=more))
    assert not key or key not in str(found.value)
