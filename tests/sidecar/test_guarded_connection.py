"""Who has our connection to a server, though another one listens there, is told no password."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any

import pytest
import redis

from sidecar.config.node import ServerConfig
from sidecar.servers.redis_server import RedisServer, ServerDownError
from tests.sidecar.fixtures import LoadNode, StartServer
from tests.sidecar.opened_from_both_sides import connect_from, stranger_beside_a_server
from workloads.local_server import free_port


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
@pytest.mark.parametrize("with_decoy", [False, True])
def test_a_stranger_with_the_connection_is_sent_nothing(
    monkeypatch: pytest.MonkeyPatch, with_decoy: bool
) -> None:
    with stranger_beside_a_server(with_decoy) as (listening, stranger, port):
        at = listening.getsockname()
        monkeypatch.setattr(redis.Connection, "_connect", lambda _: connect_from(port, at))
        url = f"redis://127.0.0.1:{at[1]}"
        server = RedisServer(ServerConfig("a", url, password="a-password-of-the-server"))
        words = r"our connection to .* has nobody \(uid 65534\), where root .* listens, and nothing"
        with pytest.raises(ServerDownError, match=words):
            server.read()
        assert stranger.recv(100) == b""


_ASKS = """
import sys
import redis
from sidecar.config.node import ServerConfig
from sidecar.servers.redis_server import RedisServer, ServerDownError
from tests.sidecar.opened_from_both_sides import connect_from
port, at = int(sys.argv[1]), ("127.0.0.1", int(sys.argv[2]))
redis.Connection._connect = lambda _: connect_from(port, at)
try:
    RedisServer(ServerConfig("a", f"redis://127.0.0.1:{at[1]}", password="a-password")).read()
except ServerDownError as error:
    print(error)
"""
_UNSHARED = ["unshare", "--user", "--map-root-user"]


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_where_users_have_no_numbers_of_their_own_nobody_is_believed() -> None:
    """As with systemd's PrivateUsers: there all other users are one."""
    if subprocess.run([*_UNSHARED, "true"], check=False).returncode:
        pytest.skip("no user namespace can be had here")
    with stranger_beside_a_server(with_decoy=False) as (listening, stranger, port):
        command = [sys.executable, "-c", _ASKS, str(port), str(listening.getsockname()[1])]
        said = subprocess.run([*_UNSHARED, *command], check=True, capture_output=True, text=True)
        assert "cannot be told in this user namespace, and nothing was sent" in said.stdout
        assert stranger.recv(100) == b""


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
@pytest.mark.parametrize(
    ("host", "at"), [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "0.0.0.0"), ("[::1]", "::")]
)
def test_a_server_of_another_user_is_asked(host: str, at: str) -> None:
    """Also one that is slow to accept: the kernel has no user of the connection until then."""
    os.seteuid(65534)
    try:
        family = socket.AF_INET6 if ":" in at else socket.AF_INET
        listening = socket.create_server((at, 0), family=family)
    finally:
        os.seteuid(0)
    with listening:
        url = f"redis://{host}:{listening.getsockname()[1]}"
        with pytest.raises(ServerDownError, match="Timeout"):
            RedisServer(ServerConfig("a", url, password="a-password-of-the-server")).read()
        with listening.accept()[0] as connected:
            assert b"a-password-of-the-server" in connected.recv(100)


def test_a_stranger_at_the_other_family_of_localhost_is_sent_nothing(
    load_node: LoadNode, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = socket.getaddrinfo

    def version_6_first(host: str, *how: Any, **more: Any) -> Any:
        """As Debian's /etc/hosts has it."""
        return find("::1" if host == "localhost" else host, *how, **more)

    port = free_port()
    start_server("12mb", port=port, bind="127.0.0.1")
    monkeypatch.setattr(socket, "getaddrinfo", version_6_first)
    with socket.create_server(("::1", port), family=socket.AF_INET6) as stranger:
        config = load_node({"a": f"redis://localhost:{port}"}).servers[0]
        assert RedisServer(config).read().run_id
        stranger.settimeout(0)
        with pytest.raises(BlockingIOError):
            stranger.accept()
