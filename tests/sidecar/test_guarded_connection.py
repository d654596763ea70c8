"""Who has our connection to a server, though another one listens there, is told no password."""

from __future__ import annotations

import os
import socket

import pytest
import redis

from sidecar.config.node import ServerConfig
from sidecar.servers.redis_server import RedisServer, ServerDownError
from tests.sidecar.opened_from_both_sides import connect_from, stranger_beside_a_server


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_a_stranger_with_the_connection_is_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with stranger_beside_a_server() as (listening, stranger, port):
        at = listening.getsockname()
        monkeypatch.setattr(redis.Connection, "_connect", lambda _: connect_from(port, at))
        url = f"redis://127.0.0.1:{at[1]}"
        server = RedisServer(ServerConfig("a", url, password="a-password-of-the-server"))
        words = r"our connection to .* has nobody \(uid 65534\), where root .* listens, and nothing"
        with pytest.raises(ServerDownError, match=words):
            server.read()
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
