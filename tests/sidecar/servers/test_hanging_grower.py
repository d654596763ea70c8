"""A plan is under way, and who is to get memory hangs: what the others have stays with them, also
when the sidecar comes back, or observes, meanwhile."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.daemon import Sidecar
from sidecar.state.control_state import ControlState
from sidecar.state.state_store import StateStore
from tests.sidecar.actuated_node import MB, fill, write
from tests.sidecar.fixtures import Servers, StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import settled_sizes

FOUND = {"grower": 12 * MB, "donor": 16 * MB, "third": 12 * MB}
PLANNED = {"grower": 22 * MB, "donor": 8 * MB, "third": 10 * MB}
EACH_SECOND = '[controller]\nkind = "embedded"\n[cycle]\nmaximum_age = "1s"\nsamples = 1000000000\n'
NEVER = EACH_SECOND.replace('"1s"', '"1h"')


@pytest.fixture
def servers(start_server: StartServer) -> Iterator[Servers]:
    """The first is not full; the others use most of what they have."""
    servers = {name: start_server(size) for name, size in FOUND.items()}
    fill(servers["donor"], 12)
    fill(servers["third"], 9)
    yield servers
    for server in servers.values():
        server.process.send_signal(signal.SIGCONT)


def _node(write_node: WriteNode, servers: Servers, more: str) -> Path:
    """Write the file of a node whose sidecar was interrupted on the way."""
    path = write_node(servers, budget="40mb", more=more)
    with StateStore(path.parent / "state.json").update() as state:
        state.targets_bytes = dict(PLANNED)
        state.settled = False
        state.control = ControlState(engaged=True)
    return path


def _hang(servers: Servers, sidecar: Sidecar, *names: str) -> None:
    for name in names:
        servers[name].process.send_signal(signal.SIGSTOP)
    wait_until(lambda: sidecar._actuator.errors().keys() == set(names), sidecar.metrics.snapshot)
    wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)


def _others(servers: Servers, *hang: str) -> dict[str, tuple[int, int]]:
    """Sizes and keys of those that do not hang."""
    others = {name: server for name, server in servers.items() if name not in hang}
    sizes = settled_sizes(others)
    # A division leaves a byte or two.
    return {name: (round(sizes[name], -2), one.client.dbsize()) for name, one in others.items()}


def _goes_on(servers: Servers, sidecar: Sidecar) -> None:
    for server in servers.values():
        server.process.send_signal(signal.SIGCONT)
    written = iter(range(0, 10**9, 300))

    def there() -> bool:
        write(servers["grower"], range(key := next(written), key + 300), "new")
        return settled_sizes(servers) == PLANNED

    wait_until(there, sidecar.metrics.snapshot)


@pytest.mark.parametrize("knows", [True, False], ids=["hung before", "hung while it was down"])
def test_a_sidecar_that_comes_back_takes_nothing_from_the_others(
    write_node: WriteNode, servers: Servers, knows: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = _node(write_node, servers, NEVER)
    before = _others(servers, "grower")
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        if knows:
            _hang(servers, sidecar, "grower")
    servers["grower"].process.send_signal(signal.SIGSTOP)
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.latest, sidecar.metrics.snapshot)
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        assert _others(servers, "grower") == before
        assert sidecar._actuator.targets() == PLANNED
        assert "grower no known limit (out of reach)" in caplog.text
        _goes_on(servers, sidecar)


@pytest.mark.parametrize("hang", [("grower",), ("grower", "donor")])
def test_an_observation_meanwhile_moves_nobody(
    write_node: WriteNode, servers: Servers, hang: tuple[str, ...]
) -> None:
    """What was on its way to it counted twice: as its own, and as that of those who keep it."""
    path = _node(write_node, servers, EACH_SECOND)
    before = _others(servers, *hang)
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar.cycles, sidecar.metrics.snapshot)
        _hang(servers, sidecar, *hang)
        seen = sidecar.cycles
        wait_until(lambda: sidecar.cycles >= seen + 2, sidecar.metrics.snapshot)
        assert sidecar.last_plan is not None
        assert sidecar.last_plan.decision == "keep"
        assert sidecar.last_observation is not None
        assert len(sidecar.last_observation.servers) == 3 - len(hang)
        assert _others(servers, *hang) == before
        assert sidecar._actuator.targets() == PLANNED
        _goes_on(servers, sidecar)
