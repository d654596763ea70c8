"""A server behind TLS: read, resized, and refused in a sentence where certificates do not fit."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sidecar.config.node import ServerConfig, load_config
from sidecar.servers.connection import redis_server
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import (
    NobodyListensError,
    ServerDownError,
    ServerSilentError,
)
from solver_lambda.documents.reader import DocumentError
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.other_user import strangers_listener
from tests.sidecar.sidecar_process import sidecar_process
from tests.sidecar.tls_proxy import Authority, tls_proxy
from workloads.local_node import wait_until
from workloads.local_server import LocalServer

StartProxy = Callable[..., str]
MB = 1 << 20


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(start_server: StartServer) -> LocalServer:
    return start_server("24mb")


@pytest.fixture
def start_proxy(server: LocalServer) -> Iterator[StartProxy]:
    with ExitStack() as stack:
        yield lambda *args: stack.enter_context(tls_proxy(server.socket, *args))


def _server(path: Path) -> ServerConfig:
    return load_config(path).servers[0]


def test_a_server_is_controlled_through_tls(
    server: LocalServer, start_proxy: StartProxy, write_node: WriteNode, authority: Authority
) -> None:
    """With a certificate of the sidecar's own, too."""
    url = start_proxy(authority.certificate("server"), authority.path)
    own = authority.certificate("sidecar")
    keys = f'ssl_ca_certs = "{authority.path.name}"\nssl_certfile = "{own.name}"'
    path = write_node({"s0": url}, budget="16mb", server_keys=keys)
    with sidecar_process(path) as sidecar:
        sidecar.read_until("initial sizes", "s0 16 MiB")
        wait_until(
            lambda: int(str(server.client.config_get("maxmemory")["maxmemory"])) == 16 * MB,
            lambda: str(sidecar.lines),
        )
        assert sidecar.end() == 0


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
@pytest.mark.parametrize("user", ["a stranger", "its own"])
def test_a_silent_stranger_at_the_port_of_a_server_that_is_gone_is_told_from_one_that_hangs(
    user: str,
    server: LocalServer,
    write_node: WriteNode,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TLS proves who answers: of who does not, nothing was asked, and the room that others had made
    was kept for as long as he stayed."""
    with tls_proxy(server.socket, authority.certificate("server")) as url:
        keys = f'ssl_ca_certs = "{authority.path.name}"'
        asked = RedisServer(_server(write_node({"s0": url}, server_keys=keys)))
        assert asked.read().run_id
        asked.close()
    monkeypatch.setattr(redis_server, "TIMEOUT_SECONDS", 0.2)
    port = int(url.rpartition(":")[2])
    make = strangers_listener if user == "a stranger" else lambda p: socket.create_server(("", p))
    with make(port), pytest.raises(ServerDownError) as down:
        asked.read()
    expected = NobodyListensError if user == "a stranger" else ServerSilentError
    assert isinstance(down.value, expected)


REFUSED = {
    "unknown authority": ({"ca": "other"}, ["is not signed", "ssl_ca_certs", "other.pem"]),
    "no authority": ({"ca": None}, ["is not signed", "ssl_ca_certs is not set"]),
    "another host": ({"address": "127.0.0.2"}, ["another host", "ssl_check_hostname"]),
    "expired": ({"days": -1}, ["not valid now", "expired"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_certificate_that_does_not_fit_is_named(
    case: str, start_proxy: StartProxy, write_node: WriteNode, authority: Authority
) -> None:
    changes, words = REFUSED[case]
    authorities = {"own": authority, "other": Authority(authority.folder, "other")}
    certificate = authority.certificate(
        "server", str(changes.get("address", "127.0.0.1")), int(str(changes.get("days", 1)))
    )
    url = start_proxy(certificate)
    ca = changes.get("ca", "own")
    keys = f'ssl_ca_certs = "{authorities[str(ca)].path}"' if ca else ""
    config = _server(write_node({"s0": url}, server_keys=keys))
    with pytest.raises(ServerDownError) as refused:
        RedisServer(config).read()
    for word in [url, *words]:
        assert word in str(refused.value)
    assert "\n" not in str(refused.value)


def test_another_host_is_accepted_where_the_operator_says_so(
    start_proxy: StartProxy, write_node: WriteNode, authority: Authority
) -> None:
    url = start_proxy(authority.certificate("server", "127.0.0.2"))
    keys = f'ssl_ca_certs = "{authority.path}"\nssl_check_hostname = false'
    assert RedisServer(_server(write_node({"s0": url}, server_keys=keys))).read().maxmemory_bytes


def test_a_server_without_tls_is_told_from_one_that_is_down(
    start_server: StartServer, write_node: WriteNode
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start_server("24mb", port=port)
    config = _server(write_node({"s0": f"rediss://127.0.0.1:{port}"}))
    with pytest.raises(ServerDownError, match="does the server speak TLS at that port"):
        RedisServer(config).read()


WRONG = {
    "not there": ('ssl_ca_certs = "none.pem"', ["ssl_ca_certs", "none.pem", "No such file"]),
    "not a certificate": ('ssl_ca_certs = "node.toml"', ["ssl_ca_certs", "node.toml"]),
    "no key": ('ssl_certfile = "authority.pem"', ["ssl_certfile", "authority.pem"]),
    "key alone": ('ssl_keyfile = "authority.pem"', ["ssl_keyfile", "without ssl_certfile"]),
    "another's key": (
        'ssl_certfile = "one.pem"\nssl_keyfile = "two.pem"',
        ["ssl_keyfile", "two.pem", "mismatch"],
    ),
    # Where nobody writes, reading would never end.
    "authorities in a pipe": ('ssl_ca_certs = "pipe"', ["ssl_ca_certs", "it is a pipe"]),
    "certificate in a pipe": ('ssl_certfile = "pipe"', ["ssl_certfile", "it is a pipe"]),
    "key in a pipe": (
        'ssl_certfile = "one.pem"\nssl_keyfile = "pipe"',
        ["ssl_keyfile", "it is a pipe"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_before_anything_starts(
    case: str, write_node: WriteNode, authority: Authority
) -> None:
    keys, words = WRONG[case]
    authority.certificate("one")
    authority.certificate("two")
    path = write_node({"s0": "rediss://127.0.0.1"}, server_keys=keys)
    os.mkfifo(path.parent / "pipe", 0o600)
    with pytest.raises(DocumentError) as refused:
        load_config(path)
    for word in [str(path), *words]:
        assert word in str(refused.value)
    assert "\n" not in str(refused.value)


def test_keys_of_tls_need_an_address_with_tls(write_node: WriteNode) -> None:
    path = write_node({"s0": "redis://127.0.0.1"}, server_keys="ssl_check_hostname = false")
    with pytest.raises(DocumentError, match="ssl_check_hostname is for a rediss:// url"):
        load_config(path)
