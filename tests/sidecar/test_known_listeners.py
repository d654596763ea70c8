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
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.test_modes import problems
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import free_port

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="to be another user takes root")


@contextmanager
def stranger(port: int) -> Iterator[list[bytes]]:
    """What is said to a process of another user, which listens there."""
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


def test_he_is_told_nothing_although_all_were_started_anew(
    start_server: StartServer, write_node: WriteNode, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    first, other = start_server("8mb", port=port), start_server("8mb")
    path = write_node({"s0": f"redis://127.0.0.1:{port}", "s1": other.url}, budget="16mb")
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._store.now.listeners, sidecar.metrics.snapshot)
    first.stop()
    with stranger(port) as heard:
        with sidecar_in_thread(path) as sidecar:
            wait_until(lambda: "nobody (uid 65534) listens" in problems(sidecar), dict)
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
    port = free_port()
    first, other = start_server("8mb", port=port), start_server("8mb")
    path = write_node({"s0": f"redis://127.0.0.1:{port}", "s1": other.url}, budget="16mb")
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._store.now.listeners, sidecar.metrics.snapshot)
        first.stop()
        with stranger(port) as heard:
            wait_until(lambda: "nobody (uid 65534) listens" in problems(sidecar), dict)
            assert set(heard) <= {b"listens", b"heard "}
            assert main(["resume", str(path), "s0"]) == 0
            wait_until(
                lambda: any(len(one) > len(b"listens") for one in heard), lambda: problems(sidecar)
            )
            assert 65534 in sidecar._store.now.listeners[f"redis://127.0.0.1:{port}"]
