"""Who takes the port of a server that is down is asked for nothing, by the sidecar and by commands,
also after both were started anew."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from sidecar.cli import main
from sidecar.config.listeners import FoundListeners
from sidecar.config.node import ServerConfig
from sidecar.servers.connection import guarded_connection
from sidecar.servers.connection.guarded_connection import _Listeners, _refuse_stranger
from sidecar.servers.connection.known_listeners import believe, listened_place
from sidecar.state.state_store import StateStore
from tests.sidecar.control.test_modes import problems
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer, free_port

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="to be another user takes root")


@contextmanager
def stranger(port: int) -> Iterator[list[bytes]]:
    """Yield what is said to a process of another user, which listens there."""
    ours, his = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            os.setgid(65534)
            os.setuid(65534)
            with socket.create_server(("127.0.0.1", port)) as listening:
                his.send(b"listens")
                while True:
                    with listening.accept()[0] as connected:
                        connected.settimeout(20)
                        his.send(b"heard " + connected.recv(900))
        finally:
            os._exit(0)
    his.close()
    heard: list[bytes] = []

    def hear() -> None:
        while told := ours.recv(1000):
            heard.append(told)

    thread = Thread(target=hear)
    thread.start()
    try:
        wait_until(lambda: bool(heard), lambda: port)
        yield heard
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        thread.join()
        ours.close()


def node_of_two(start_server: StartServer, write_node: WriteNode) -> tuple[LocalServer, int, Path]:
    """The first server, its port, and the node's file."""
    port = free_port()
    first, other = start_server("8mb", port=port), start_server("8mb")
    path = write_node({"s0": f"redis://127.0.0.1:{port}", "s1": other.url}, budget="16mb")
    return first, port, path


@pytest.mark.parametrize("may_read_state", [True, False])
def test_he_is_told_nothing_although_all_were_started_anew(
    start_server: StartServer,
    write_node: WriteNode,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    may_read_state: bool,
) -> None:
    first, port, path = node_of_two(start_server, write_node)
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._store.now.listeners, sidecar.metrics.snapshot)
    first.stop()
    with stranger(port) as heard:
        with sidecar_in_thread(path) as sidecar:
            wait_until(lambda: "nobody (uid 65534) listens" in problems(sidecar), dict)
            if not may_read_state:  # as one of the operators' group
                monkeypatch.setattr("os.access", lambda *_: False)
            assert main(["status", str(path)]) == 1
            assert main(["check", str(path), "--connect"]) == 1
        assert main(["status", str(path)]) == 1
        main(["look", "--config", str(path), "--for", "1s"])
        told = capsys.readouterr()
        assert told.out.count("nobody (uid 65534) listens at") >= 3
        assert set(heard) <= {b"listens", b"heard "}


def test_another_user_of_a_server_is_believed_once_somebody_says_so(
    start_server: StartServer, write_node: WriteNode, tmp_path: Path
) -> None:
    first, port, path = node_of_two(start_server, write_node)
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._store.now.listeners, sidecar.metrics.snapshot)
        first.stop()
        with stranger(port) as heard:
            wait_until(lambda: "nobody (uid 65534) listens" in problems(sidecar), dict)
            assert set(heard) <= {b"listens", b"heard "}
            assert main(["resume", str(path), "s0"]) == 1
            assert main(["resume", str(path), "s0", "--listener", "nobody"]) == 0
            wait_until(
                lambda: any(len(one) > len(b"listens") for one in heard), lambda: problems(sidecar)
            )
            assert 65534 in sidecar._store.now.listeners[f"127.0.0.1:{port}"]
        # Who gets a password from now on is told whatever else was ordered.
        (order,) = (
            one
            for one in sidecar._control.history.tail(100)
            if one["kind"] == "order" and "is believed" in one["words"]
        )
        assert order.get("had_effect") is None


def test_who_is_not_seen_is_told_nothing_where_somebody_was() -> None:
    """A connection by a cookie of the kernel has no listener for a moment, and no end."""
    listeners = _Listeners(None, FoundListeners([1000]))
    with pytest.raises(OSError, match="nobody who can be seen listens at here"):
        listeners.check(set(), "here")
    listeners.check({1000}, "here")


def test_who_listens_where_a_port_was_forwarded_is_a_stranger() -> None:
    known = FoundListeners(None)
    listeners = _Listeners(None, known)
    listeners.check(set(), "here")
    listeners.learn(set())
    assert known.users == set()
    listeners.check(set(), "here")
    with pytest.raises(OSError, match=r"nobody \(uid 65534\) listens at here now, and nothing"):
        listeners.check({65534}, "here")


def test_a_server_that_hangs_up_at_once_is_learnt_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose maxclients were there at the first contact was refused for good."""
    monkeypatch.setattr(guarded_connection, "listening_users", lambda *_: {65534})
    known = FoundListeners(None)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connected,
    ):
        server.accept()[0].close()
        assert connected.recv(1) == b""
        with pytest.raises(OSError, match="closed our connection at once"):
            _refuse_stranger(connected, "127.0.0.1", 10.0, _Listeners(None, known))
    assert known.users is None


def test_only_root_and_the_sidecars_own_user_say_who_is_believed(tmp_path: Path) -> None:
    """Whoever may give orders got the server's password by that."""
    store = StateStore(tmp_path / "state.json")
    server = ServerConfig("pages", "redis://[::1]:7001", minimum_bytes=1)
    for uid in (None, 65534):
        with pytest.raises(ValueError, match="only root and the sidecar's own user may say who"):
            believe(store, server, "nobody", uid)
    with pytest.raises(ValueError, match="there is no user 'no-such-user' here"):
        believe(store, server, "no-such-user", 0)
    with pytest.raises(ValueError, match="name it"):
        believe(store, None, "nobody", 0)
    assert store.now.listeners == {}
    said = believe(store, server, "nobody", 0)
    assert said == "nobody (uid 65534) is believed at pages's address from now on"
    assert store.now.listeners == {"::1:7001": (65534,)}
    believe(store, server, "1234", os.geteuid())
    assert store.now.listeners == {"::1:7001": (1234,)}


def test_who_has_the_socket_lie_behind_a_link_is_no_other_server(tmp_path: Path) -> None:
    """What the link led to was another address, where nobody had been seen yet."""
    (own := tmp_path / "redis").mkdir()
    url = f"unix://{own}/redis.sock"
    place = listened_place(url)
    own.rmdir()
    (tmp_path / "evil").mkdir()
    own.symlink_to(tmp_path / "evil")
    assert listened_place(url) == place == f"{own}/redis.sock"
    assert listened_place(f"unix://{tmp_path}/./redis//redis.sock?db=1") == place


@pytest.mark.parametrize(
    "spelt",
    [
        "redis://127.0.0.1:7001/",
        "redis://127.1:7001/0",
        "redis://[::ffff:127.0.0.1]:7001",
        "redis://localhost:7001?db=1",
        "redis://LocalHost:7001",
    ],
)
def test_an_address_is_the_same_however_it_is_spelt(spelt: str) -> None:
    assert listened_place(spelt) == "127.0.0.1:7001"
