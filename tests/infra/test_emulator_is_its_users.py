"""The emulator runs any code as a function, so nobody but its user may ask it for anything."""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Iterator
from multiprocessing import get_context

import pytest

from infra.emulator.own_user import HEALTH_PATH
from infra.emulator.process import Emulator, RunningEmulator

CREATE = "/?Action=CreateStack&Version=2010-05-15&StackName=s&TemplateBody=%7B%7D"
CONFIRM = "/?Action=ConfirmSubscription&TopicArn=t&Token=t"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def port(emulator: Emulator) -> int:
    return int(emulator.endpoint_url.rpartition(":")[2])


def test_it_keeps_its_state_where_no_other_user_made_a_folder_first(emulator: Emulator) -> None:
    assert list(emulator.log.parent.glob("spreds-emulator-*/state/cognito-*"))
    assert emulator.log.parent.stat().st_mode & 0o077 == 0


def status_of(port: int, target: str = HEALTH_PATH, method: str = "GET", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, target, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_another_user_of_the_machine_is_refused(port: int) -> None:
    assert status_of(port) == 200
    os.seteuid(65534)
    try:
        assert status_of(port) == 403
    finally:
        os.seteuid(0)
    assert status_of(port) == 200


@pytest.mark.parametrize(
    ("target", "method"),
    [
        (CREATE, "GET"),
        (CREATE, "POST"),
        (CREATE, "OPTIONS"),
        (f"{HEALTH_PATH}{CREATE[1:]}", "GET"),
        (f"{CREATE}&Action=ConfirmSubscription", "GET"),
        ("/bucket/key", "PUT"),
        ("/bucket/key?X-Amz-Signature=1", "GET"),
    ],
)
def test_a_page_or_a_redirect_orders_nothing(port: int, target: str, method: str) -> None:
    """Neither can sign: a browser asks first whether it may, and is refused."""
    assert status_of(port, target, method) == 403
    assert status_of(port, target, method, Host="evil.example", Authorization="x") == 403
    here = f"http://127.0.0.1:{port}"
    assert status_of(port, target, method, Origin=here, Authorization="x") == 403


def test_what_nobody_signs_is_answered(port: int) -> None:
    assert status_of(port, CONFIRM) != 403
    assert status_of(port, Host=f"localhost:{port}") == 200
    assert status_of(port, Host="evil.example") == 403
    assert status_of(port, CREATE, Authorization="as of an AWS client") != 403


def _answer_as_nobody(listener: socket.socket) -> None:
    os.setuid(65534)
    body = b'{"services": {}}'
    while True:
        client, _ = listener.accept()
        with client:
            client.recv(1 << 16)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            client.recv(1)


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_another_users_emulator_is_not_taken_for_ours(port: int) -> None:
    assert RunningEmulator(port).endpoint_url == f"http://127.0.0.1:{port}"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stranger = get_context("fork").Process(target=_answer_as_nobody, args=(listener,))
        stranger.start()
        try:
            with pytest.raises(RuntimeError, match="no emulator answers"):
                RunningEmulator(listener.getsockname()[1])
        finally:
            stranger.kill()
            stranger.join()
