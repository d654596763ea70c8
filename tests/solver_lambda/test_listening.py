"""A port is listened at by one process of ours, where nobody else has it bound."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest

from solver_lambda.http.listening import listen_alone, listen_at
from workloads.local_server import free_port

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
OPTIONS = [
    (),
    (socket.SO_REUSEADDR,),
    (socket.SO_REUSEPORT,),
    (socket.SO_REUSEADDR, socket.SO_REUSEPORT),
]


@contextmanager
def as_another_user() -> Iterator[None]:
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def bound_by_another(port: int, options: tuple[int, ...]) -> socket.socket:
    with as_another_user():
        stranger = socket.socket()
        try:
            for option in options:
                stranger.setsockopt(socket.SOL_SOCKET, option, 1)
            stranger.bind(("127.0.0.1", port))
        except OSError:
            stranger.close()
            raise
    return stranger


@AS_ROOT
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_where_another_user_is_bound_we_do_not_listen(options: tuple[int, ...], host: str) -> None:
    """He need not listen: bound there, he connects to our clients as they connect to us."""
    port = free_port()
    with bound_by_another(port, options), pytest.raises(OSError, match="Address already in use"):
        listen_at(host, port)
    for listening in listen_at(host, port):
        listening.close()


@AS_ROOT
@pytest.mark.parametrize("options", OPTIONS)
def test_where_we_listen_another_user_is_not_bound(options: tuple[int, ...]) -> None:
    with listen_alone("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(OSError, match="Address already in use"):
            bound_by_another(port, options)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "0.0.0.0"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "127.0.0.1"),
        ("127.0.0.1", "::"),
        ("::1", "::1"),
    ],
)
def test_a_second_process_of_ours_is_told(first: str, second: str) -> None:
    with listen_alone(first, 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(OSError, match="cannot be bound: Address already in use") as refused:
            listen_at(second, port)
        assert refused.value.errno == errno.EADDRINUSE
        # It takes no connection of the first one's.
        host = "::1" if ":" in first else "127.0.0.1"
        for _ in range(20):
            with socket.create_connection((host, port), 5) as client:
                assert listening.accept()[1] == client.getsockname()


def test_two_addresses_of_one_port_are_no_matter() -> None:
    with listen_alone("127.0.0.1", 0) as listening:
        listen_alone("127.0.0.2", listening.getsockname()[1]).close()


def test_of_two_that_begin_at_one_moment_one_listens_at_most() -> None:
    with listen_alone("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    together = Barrier(2)

    def begin() -> socket.socket | None:
        together.wait(30)
        try:
            return listen_alone("127.0.0.1", port)
        except OSError:
            return None

    with ThreadPoolExecutor(2) as pool:
        for _ in range(50):
            both = [future.result() for future in [pool.submit(begin) for _ in range(2)]]
            taken = [one for one in both if one is not None]
            for one in taken:
                one.close()
            assert len(taken) < 2


@pytest.mark.parametrize("client_waits", [False, True])
def test_connections_of_an_earlier_process_do_not_keep_the_port(*, client_waits: bool) -> None:
    """Theirs may be in TIME_WAIT for a minute, or wait for the client's end."""
    with listen_alone("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = listening.accept()
        accepted.close()
        assert client.recv(1) == b""
        if not client_waits:
            client.close()
    with client, listen_alone("127.0.0.1", port) as again:
        other = socket.create_connection(("127.0.0.1", port))
        assert again.accept()[1] == other.getsockname()
        other.close()
