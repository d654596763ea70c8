"""Who is busy as SPREDS comes for the first time costs nobody a key: it may have any size."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.node import ServerConfig
from sidecar.control import control_plane
from sidecar.control.first_sizes_check import unread_sizes
from sidecar.state import state_store
from tests.sidecar.actuated_node import MB
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer, settled_sizes

SIZES = {"a": 24, "b": 12, "c": 4}


@pytest.fixture
def servers(start_server: StartServer) -> dict[str, LocalServer]:
    return {name: start_server(f"{size}mb") for name, size in SIZES.items()}


@contextmanager
def stopped(*servers: LocalServer) -> Iterator[None]:
    for server in servers:
        os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for server in servers:
            os.kill(server.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("busy", ["a", "bc", "abc"])
def test_sizes_are_as_before_whoever_was_busy(
    servers: dict[str, LocalServer], write_node: WriteNode, busy: str
) -> None:
    """An equal share was taken for what the busy one has, and full caches were cut beside it; who
    answered a moment later was cut to that as well."""
    path: Path = write_node({n: one.url for n, one in servers.items()}, budget="40mb")
    with stopped(*(servers[name] for name in busy)), sidecar_in_thread(path) as sidecar:
        if len(busy) > 1:
            wait_until(lambda: sidecar._control.trouble, sidecar.metrics.snapshot)
            assert "have not answered yet" in str(sidecar.status()["problems"])
        else:
            wait_until(lambda: sidecar._store.now.control.engaged, sidecar.metrics.snapshot)
        for name in busy:
            os.kill(servers[name].process.pid, signal.SIGCONT)
        wait_until(lambda: sidecar._store.now.control.engaged, sidecar.metrics.snapshot)
        wait_until(lambda: len(sidecar._actuator.readings) == 3, sidecar.metrics.snapshot)
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        sizes = {name: size * MB for name, size in SIZES.items()}
        assert sidecar._actuator.targets() == settled_sizes(servers) == sizes


def test_nothing_is_set_before_what_servers_had_is_on_file(
    servers: dict[str, LocalServer], write_node: WriteNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that was full from the beginning: after a restart, a rollback to the installation
    went to the sizes that SPREDS had set."""
    monkeypatch.setattr(control_plane, "TRY_SECONDS", 0.2)
    path = write_node({n: one.url for n, one in servers.items()}, budget="20mb")
    with monkeypatch.context() as full:
        full.setattr(state_store, "_save", lambda *_: False)
        with sidecar_in_thread(path) as sidecar:
            wait_until(lambda: sidecar._control.trouble, sidecar.metrics.snapshot)
            assert "the state file cannot be written" in str(sidecar.status()["problems"])
            assert settled_sizes(servers) == {name: size * MB for name, size in SIZES.items()}
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sum(settled_sizes(servers).values()) <= 20 * MB, sidecar.status)
        installed = sidecar._store.now.control.installed_bytes
        assert installed == {name: size * MB for name, size in SIZES.items()}


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 40), max_size=3),
    st.integers(0, 20),
    st.integers(1, 100),
)
def test_what_is_taken_for_unread_servers_is_left_by_the_others(
    found: dict[str, int], minimum: int, budget: int
) -> None:
    servers = [ServerConfig(name, "", minimum_bytes=minimum) for name in "abcd"]
    sizes = unread_sizes(servers, found, budget)
    assert sizes.keys() in (set(), set("abcd") - found.keys())
    if sizes:
        assert min(sizes.values()) >= max(1, minimum)
        assert budget - 4 < sum(sizes.values()) + sum(found.values()) <= budget
    elif all(found.values()):
        left = budget - sum(found.values())
        assert left // (4 - len(found)) < max(1, minimum)
