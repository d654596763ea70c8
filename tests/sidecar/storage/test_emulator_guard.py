"""A stranger at the port of an emulator is sent no observation, and believed for no plan."""

from __future__ import annotations

import os
import socket
import time
from threading import Thread

import pytest

from sidecar.cli import main
from sidecar.delivery.message_signature import CertificateUnavailableError, SignatureCheck
from sidecar.storage import aws, emulator_guard
from sidecar.storage.emulator_listeners import believe_listeners
from sidecar.storage.store import StoreError
from sidecar.storage.store_s3 import S3Store
from tests.sidecar.answering import answering
from tests.sidecar.inherited_listener import stranger_with_inherited_socket
from tests.sidecar.other_user import strangers_listener
from tests.sidecar.own_address import own_address
from workloads.local_node import wait_until
from workloads.local_server import free_port

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="to be another user takes root")
TOPIC = "arn:aws:sns:us-east-1:123456789012:plans"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def store_at(port: int) -> S3Store:
    return S3Store("observations", "us-east-1", f"http://127.0.0.1:{port}")


@as_root
def test_who_has_the_port_while_the_emulator_is_down_is_sent_nothing() -> None:
    port = free_port()
    believe_listeners(f"http://127.0.0.1:{port}")  # as the sidecar starts
    with strangers_listener(port) as listening:
        with pytest.raises(StoreError) as refused:
            store_at(port).put("n1/1.json", b"{}")
        with listening.accept()[0] as connected:
            assert connected.recv(100) == b""
    assert str(refused.value).startswith(
        "s3://observations/n1/1.json: controller.endpoint_url: nobody (uid 65534) has "
        f"127.0.0.1:{port}, and nothing was sent"
    )


@as_root
def test_who_has_another_address_of_this_machine_is_sent_nothing() -> None:
    with strangers_listener(0, own_address()) as listening:
        host, port = listening.getsockname()
        with pytest.raises(StoreError, match=r"nobody \(uid 65534\) has .*, and nothing was sent"):
            S3Store("observations", "us-east-1", f"http://{host}:{port}").put("a", b"{}")
        with listening.accept()[0] as connected:
            assert connected.recv(100) == b""


@as_root
def test_a_command_sends_nothing_to_who_listened_before_it_began(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """He may have taken the port at any time; a sidecar that runs knows who had it before."""
    with strangers_listener(0) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        heard = []

        def answer() -> None:
            with listening.accept()[0] as connected:
                heard.append(connected.recv(1 << 16))

        Thread(target=answer, daemon=True).start()
        words = ["--bucket", "observations", "--node", "n1", "--endpoint-url", url]
        code = main(["weights", "show", "s", "--region", "us-east-1", *words])
        wait_until(lambda: bool(heard), lambda: url)
    assert (code, heard) == (1, [b""])
    told = capsys.readouterr().err
    assert "nobody (uid 65534) has" in told
    assert "nothing was sent" in told
    assert "run this as its user" in told


@as_root
def test_who_accepts_where_root_listens_is_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with stranger_with_inherited_socket() as stranger:
        monkeypatch.setattr(time, "sleep", lambda _: stranger.accept())
        with pytest.raises(StoreError, match=r"nobody \(uid 65534\) has .* nothing was sent"):
            store_at(stranger.address[1]).get("n1/1.json", 10)
        assert stranger.heard() == b""


@as_root
def test_another_user_who_listened_at_the_start_is_asked() -> None:
    with strangers_listener(0) as listening:
        heard = []

        def answer() -> None:
            with listening.accept()[0] as connected:
                heard.append(connected.recv(1 << 16))
                connected.sendall(OK)

        thread = Thread(target=answer)
        port = listening.getsockname()[1]
        believe_listeners(f"http://127.0.0.1:{port}")
        store = store_at(port)
        thread.start()
        store.put("n1/1.json", b"{}")
        thread.join()
    assert heard[0].startswith(b"PUT /observations/n1/1.json")


def test_who_cannot_be_seen_is_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a container's port is forwarded by the kernel."""
    with answering(OK) as url:
        store = S3Store("observations", "us-east-1", url.removesuffix("/plans?x=1"))
        store.put("n1/1.json", b"{}")
        monkeypatch.setattr(emulator_guard, "accepted_ends", lambda *_: set())
        store = S3Store("observations", "us-east-1", url.removesuffix("/plans?x=1"))
        with pytest.raises(StoreError, match="somebody who cannot be seen has"):
            store.put("n1/1.json", b"{}")


def test_an_emulator_that_does_not_accept_is_sent_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(StoreError, match="nobody has accepted our connection"):
            S3Store("observations", "us-east-1", url, limit_seconds=0.3).put("a", b"{}")
        with listening.accept()[0] as connected:
            assert connected.recv(100) == b""


@as_root
def test_no_certificate_is_fetched_from_a_stranger() -> None:
    with strangers_listener(0) as listening:
        check = SignatureCheck(TOPIC, f"http://127.0.0.1:{listening.getsockname()[1]}")
        heard = []

        def answer() -> None:
            with listening.accept()[0] as connected:
                heard.append(connected.recv(1 << 16))

        thread = Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(CertificateUnavailableError, match=r"nobody \(uid 65534\) has"):
            check._fetch("https://sns.us-east-1.amazonaws.com/SimpleNotificationService-ff.pem")
        thread.join(20)
    assert heard == [b""]


def test_our_own_emulator_gives_a_certificate() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\npem") as url:
        check = SignatureCheck(TOPIC, url.removesuffix("/plans?x=1"))
        assert check._fetch("https://sns.us-east-1.amazonaws.com/a.pem") == b"pem"


@pytest.mark.parametrize("call", ["versions", "put"])
def test_an_answer_without_an_end_is_not_read_to_it(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws, "MOST_BYTES", 1 << 20)
    endless = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<ListBucketResult>"
    with answering(endless, b"<Contents></Contents>" * 4000) as url:
        store = S3Store("observations", "us-east-1", url.removesuffix("/plans?x=1"))
        words = ("n1",) if call == "versions" else ("n1", b"{}")
        with pytest.raises(StoreError, match="n1: the answer has more than 1048576 bytes"):
            getattr(store, call)(*words)
