"""No TLS connection outlives its deadline, whatever records without data come over it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sidecar.base import connection_deadlines as deadlines
from sidecar.base.connection_deadlines import ended_after, watch_deadlines
from sidecar.config.controller_config import ServiceConfig
from sidecar.config.node import ServerConfig, TlsConfig
from sidecar.controllers.solver_service import ServiceError, SolverService
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerDownError
from tests.sidecar.no_threads import refuse_threads

# HelloRequests, for which nobody needs a key.
RECORDS = b"\x16\x03\x03\x00\x04\0\0\0\0" * 10_000


@pytest.fixture
def flooding() -> Iterator[int]:
    """The port of who never lets a handshake come to its end."""
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def flood() -> None:
            while not is_over.is_set():
                connection, _ = listening.accept()
                connection.settimeout(0.5)  # who has hung up may take nothing, and not say so
                with connection, suppress(OSError):
                    while connection.recv(4096):
                        while True:
                            connection.sendall(RECORDS)

        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        is_over.set()
        socket.create_connection(listening.getsockname()).close()
        thread.join()


def test_a_server_that_floods_the_handshake_is_down(flooding: int) -> None:
    server = RedisServer(ServerConfig("a", f"rediss://127.0.0.1:{flooding}", tls=TlsConfig()))
    for _ in range(2):
        with pytest.raises(ServerDownError):
            server.read()
    server.close()


def test_a_service_that_floods_the_handshake_does_not_answer_in_time(flooding: int) -> None:
    service = SolverService(ServiceConfig(f"https://127.0.0.1:{flooding}/"), limit_seconds=0.5)
    with pytest.raises(ServiceError, match=r"no answer within 0\.5 s"):
        service.answer(b"{}")


def test_where_there_are_no_more_threads_deadlines_still_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One thread ends all of them; who needs it starts it as long as there are some."""
    watch_deadlines()
    refuse_threads(monkeypatch)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(TimeoutError), ended_after(0.1, ours):
        assert ours.recv(1) == b""


def test_without_that_thread_it_is_a_connection_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadlines, "_watcher", deadlines._Watcher())
    refuse_threads(monkeypatch)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(OSError, match="no thread"), ended_after(0.1, ours):
        pass


def test_what_comes_in_time_ends_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with ended_after(60.0, ours):
            theirs.sendall(b"x")
            assert ours.recv(1) == b"x"
        theirs.sendall(b"y")
        assert ours.recv(1) == b"y"
        with pytest.raises(TimeoutError, match=r"within 0\.1 s"), ended_after(0.1, ours):
            assert ours.recv(1) == b""
