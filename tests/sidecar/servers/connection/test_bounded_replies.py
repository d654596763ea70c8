"""A reply of a server is bounded in bytes and in time, whatever it announces."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from sidecar.base.metrics import Metrics
from sidecar.config.node import ServerConfig
from sidecar.servers.connection import redis_server, server_connection, server_lock
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import (
    ServerDownError,
    ServerRefusedError,
    ServerSilentError,
)
from sidecar.servers.server_contact import ServerContact
from tests.sidecar.fixtures import StartServer


@contextmanager
def answering(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[RedisServer]:
    """A server that answers each command so; and a connection to it."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            try:
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        while connection.recv(65536):
                            answer(connection)
            except OSError:
                return  # hung up by the other side, or closed

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        server = RedisServer(ServerConfig("a", f"unix://{path}"))
        yield server
        server.close()


@pytest.mark.parametrize("begin", [b"$4000000000\r\n", b"*1000000000\r\n", b"+"])
def test_more_than_the_bound_is_refused_and_nothing_more_is_read(
    tmp_path: Path, begin: bytes
) -> None:
    sent = 0
    more = b"x" * 65536 if begin == b"+" else b":1\r\n" * 16384

    def floods(connection: socket.socket) -> None:
        nonlocal sent
        connection.sendall(begin)
        while True:  # until it is hung up
            sent += connection.send(more)

    with answering(tmp_path / "s", floods) as server:
        with pytest.raises(ServerRefusedError, match=r"more than (262144 bytes|16384 parts)"):
            server.read()
        assert not server._connection.is_connected
    # What the socket's own buffers hold comes on top.
    assert sent < 2 * server_connection.MOST_REPLY_BYTES


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"*300000\r\n" + 300_000 * b":1\r\n", "more than 16384 parts"),
        (b"*300000\r\n" + 300_000 * b"*0\r\n", "more than 16384 parts"),
        (b"*1000000\r\n" + 100_000 * b"-\r\n", "an error in a list"),
        (b"*2\r\n+a\r\n-ERR no\r\n", "an error in a list"),
    ],
    ids=["numbers", "lists", "errors", "one error"],
)
def test_what_would_be_many_objects_of_ours_is_refused(
    tmp_path: Path, reply: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long a busy machine takes for so many parts.
    monkeypatch.setattr(redis_server, "REPLY_SECONDS", 60.0)
    with (
        answering(tmp_path / "s", lambda connection: connection.sendall(reply)) as server,
        pytest.raises(ServerRefusedError, match=why),
    ):
        server.ask("CONFIG GET", "*")


def test_a_list_of_clients_takes_no_more_memory_than_its_text(tmp_path: Path) -> None:
    """Redis-py would make a table of some hundred bytes of each line of two."""
    lines = 1 << 20
    reply = b"$%d\r\n%s\r\n" % (2 * lines, lines * b"=\n")
    with answering(tmp_path / "s", lambda connection: connection.sendall(reply)) as server:
        tracemalloc.start()
        found = server.ask("CLIENT LIST")
        server_lock.check_clients(found)
        _, most_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found == lines * "=\n"
    assert most_bytes < 16 * lines


def test_a_byte_now_and_then_is_no_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_server, "REPLY_SECONDS", 0.2)
    stop = threading.Event()

    def drips(connection: socket.socket) -> None:
        connection.sendall(b"$100000\r\n")
        while not stop.wait(0.01):
            connection.sendall(b"x")

    with answering(tmp_path / "s", drips) as server:
        with pytest.raises(ServerSilentError, match=r"Timeout|in time"):
            server.read(0.1)
        stop.set()


def test_an_honest_server_is_read_again_and_again_and_its_end_is_noticed(
    start_server: StartServer,
) -> None:
    real = start_server("12mb")
    server = RedisServer(ServerConfig("a", real.url))
    for _ in range(3):
        reading = server.read()
        server.announce(reading.run_id)
        assert reading.maxmemory_bytes == 12 << 20
        assert not server.hung_up()
    real.client.client_kill_filter(skipme=True, _type="normal")
    assert server.hung_up()
    assert server.read().run_id == reading.run_id
    real.stop()
    with pytest.raises(ServerDownError):
        server.read()


def test_clients_with_endless_names_do_not_make_a_server_unreadable(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """But that other sidecars are not seen is told, once, and counted."""
    monkeypatch.setitem(redis_server.MOST_BYTES, "CLIENT LIST", 10_000)
    real = start_server("12mb")
    other = redis.Redis.from_url(real.url, client_name="x" * 20_000)
    other.ping()
    server = RedisServer(ServerConfig("a", real.url))
    reading = server.read()
    server.announce(reading.run_id)
    assert server.taken_by is None
    # Others still see who we are.
    names = [client["name"] for client in real.client.client_list()]
    assert redis_server.CLIENT_NAME in names
    assert server.read().run_id == reading.run_id
    server.close()
    server.announce(reading.run_id)
    told = [one for one in caplog.records if "sidecars elsewhere are not seen" in one.message]
    assert [one.levelname for one in told] == ["WARNING"]
    server.close()
    metrics = Metrics()
    contact = ServerContact(RedisServer(ServerConfig("a", real.url)), metrics)
    for _ in range(2):
        contact.ask()
        contact.wait(30)
        assert contact.take() is not None
    assert metrics.value("client_lists_too_long", instance="a") == 1
    contact.close()
