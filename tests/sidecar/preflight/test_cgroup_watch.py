"""A running sidecar says where the kernel would end its servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from sidecar.preflight import cgroup_watch
from sidecar.preflight.finding import Finding
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until


def test_status_says_it_and_the_kernel_is_asked_once(
    start_server: StartServer, write_node: WriteNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {name: start_server("16mb") for name in "ab"}
    asked: list[set[str]] = []

    def check(memory: object, configs: Sequence[object], processes: dict[str, object]) -> Iterator:
        asked.append({str(one) for one in processes.values()})
        yield Finding("problem", "memory.budget", "the kernel would end them", "less")
        yield Finding("advice", "memory.budget", "name it")

    monkeypatch.setattr(cgroup_watch, "check_cgroups", check)
    path = write_node(servers, budget="32mb")
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: len(sidecar._actuator.readings) == 2, sidecar.metrics.snapshot)
        problems = sidecar.status()["problems"]
        assert "memory.budget: the kernel would end them; remedy: less" in problems
        assert not any("name it" in one for one in problems)
        ids = {one.client.info("server")["process_id"] for one in servers.values()}
        assert asked[-1] == {f"/proc/{number}" for number in ids}
        times = len(asked)
        sidecar.status()
        assert len(asked) == times
        # Another process may be in another cgroup.
        servers["a"].restart()
        wait_until(lambda: bool(sidecar.status()) and len(asked) > times, sidecar.metrics.snapshot)
