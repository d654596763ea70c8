"""What systemd is told by a real ``spreds run``, and when its watchdog is not fed."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.base import service_notice
from sidecar.base.metrics import Metrics
from sidecar.base.service_notice import ServiceNotice
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.sidecar_process import sidecar_process


class Manager:
    """Plays the service manager."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0"))
        self.socket.settimeout(30)
        self.told: list[str] = []

    def read_until(self, text: str) -> None:
        while not self.told or not self.told[-1].startswith(text):
            self.told.append(self.socket.recv(4096).decode())

    def waiting(self) -> list[str]:
        """Return what was told and not read so far."""
        self.socket.setblocking(False)
        found = []
        try:
            while True:
                found.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            return found


@pytest.fixture(params=["file", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"@spreds-test-{os.getpid()}" if request.param == "abstract" else f"{tmp_path}/notify"


@pytest.fixture
def manager(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    made = Manager(address)
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    yield made
    made.socket.close()


def test_a_sidecar_tells_that_it_is_ready_alive_and_stopping(
    manager: Manager,
    start_server: StartServer,
    write_node: WriteNode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    with sidecar_process(write_node({"s0": start_server("24mb").url})) as sidecar:
        manager.read_until("READY=1")
        assert manager.told == ["READY=1"]
        manager.read_until("STATUS=apply: 1 of 1 servers answer, maxmemory 24 MiB of 48 MiB")
        manager.told.clear()
        manager.read_until("WATCHDOG=1")
        manager.told.clear()
        manager.read_until("WATCHDOG=1")
        assert sidecar.end() == 0
        manager.read_until("STOPPING=1")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(service_notice.time, "monotonic", lambda: now[0])
    return now


def test_a_loop_that_hangs_is_not_called_alive(
    manager: Manager, address: str, clock: list[float]
) -> None:
    notice = ServiceNotice(Metrics(), {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "60000000"})
    for second in range(120):
        clock[0] += 1
        notice.alive(1.0, "")  # the other loop never turns
        if second == 31:
            fed = manager.waiting()
    assert fed == ["WATCHDOG=1"] * 3
    assert manager.waiting() == []
    notice.alive(2.0, "")
    assert manager.waiting() == ["WATCHDOG=1"]


def test_without_a_manager_nothing_is_told() -> None:
    metrics = Metrics()
    notice = ServiceNotice(metrics, {})
    notice.ready()
    notice.alive(1.0, "status")
    assert metrics.value("service_notices_lost") == 0


def test_a_manager_that_is_gone_is_counted_and_harms_nobody(tmp_path: Path) -> None:
    metrics = Metrics()
    ServiceNotice(metrics, {"NOTIFY_SOCKET": f"{tmp_path}/none"}).ready()
    assert metrics.value("service_notices_lost") == 1


def test_another_process_watchdog_is_not_fed(manager: Manager, address: str) -> None:
    theirs = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    ServiceNotice(Metrics(), theirs).alive(1.0, "")
    assert manager.waiting() == []
