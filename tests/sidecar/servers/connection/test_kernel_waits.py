"""Descriptors that strangers send make nobody wait, see ``sidecar/base/kernel_waits.py``."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import redis

from sidecar.base.kernel_waits import take_no_descriptors
from sidecar.servers.connection.guarded_connection import guard
from sidecar.servers.connection.server_lock import ServerLock, _address

RUN_ID = "e" * 40
LONG_SECONDS = 300


@pytest.fixture
def lingering() -> Iterator[socket.socket]:
    """A connection whose last ``close`` waits until the other end takes what was sent."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sender = socket.create_connection(listening.getsockname())
        stack.callback(sender.close)
        stack.enter_context(listening.accept()[0])  # closed first, which ends the wait
        sender.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                sender.send(b"x" * 65536)
        linger = struct.pack("ii", 1, LONG_SECONDS)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        yield sender


def test_a_lock_goes_on_whatever_its_visitors_send(lingering: socket.socket) -> None:
    lock = ServerLock(RUN_ID)
    visitor = socket.socket(socket.AF_UNIX)
    visitor.connect(_address(RUN_ID))
    with suppress(PermissionError):  # the kernel knows SO_PASSRIGHTS
        socket.send_fds(visitor, [b"x"], [lingering.fileno()])
        lingering.close()
    made = threading.Thread(target=lock.make_room, daemon=True)
    made.start()
    made.join(30)
    assert not made.is_alive()
    # The next one is answered all the same.
    with socket.socket(socket.AF_UNIX) as another:
        another.connect(_address(RUN_ID))
        another.settimeout(30)
        lock.make_room()
        assert another.recv(1) == b""
    visitor.close()
    lock.close()


_WAITS = """
import socket, sys, threading
from sidecar.base.kernel_waits import end_waits
ours, theirs = socket.socketpair(socket.AF_UNIX)
print("begin", flush=True)
socket.send_fds(theirs, [b"x"], [int(sys.argv[1])])
import os; os.close(int(sys.argv[1]))
print("sent", flush=True)
sys.stdin.readline()
closes = threading.Thread(target=ours.close, daemon=True)
closes.start(); closes.join(0.5)
print("waits" if closes.is_alive() else "does not wait", flush=True)
end_waits()
closes.join(60)
print("over" if not closes.is_alive() else "waits on", flush=True)
"""


def test_a_signal_ends_what_waits_where_the_kernel_lets_descriptors_come(
    lingering: socket.socket,
) -> None:
    number = lingering.fileno()
    command = [sys.executable, "-c", _WAITS, str(number)]
    program = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[number]
    )
    assert program.stdout is not None
    assert [program.stdout.readline() for _ in range(2)] == ["begin\n", "sent\n"]
    lingering.close()  # theirs is the last one now
    out, _ = program.communicate("\n", timeout=120)
    assert out.split() == ["waits", "over"]


def test_where_the_kernel_can_nobody_sends_descriptors() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        take_no_descriptors(ours)
        try:
            socket.send_fds(theirs, [b"x"], [ours.fileno()])
        except PermissionError:
            return
        assert tuple(int(part) for part in os.uname().release.split(".")[:2]) < (6, 16)


def test_a_servers_unix_socket_takes_no_descriptors_before_it_is_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever listens may send some at once."""
    connected: list[bool] = []

    def note(made: socket.socket) -> None:
        with suppress(OSError):
            made.getpeername()
            connected.append(True)
            return
        connected.append(False)

    monkeypatch.setattr("sidecar.base.kernel_waits.take_no_descriptors", note)
    path = tmp_path / "redis.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        connection = redis.UnixDomainSocketConnection(path=str(path))
        guard(connection)
        connection._connect().close()
    assert connected == [False]
    connection.path = str(tmp_path / "nobody")
    with pytest.raises(FileNotFoundError):
        connection._connect()
