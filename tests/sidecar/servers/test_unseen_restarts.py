"""A server that is started anew while no sidecar runs gets its planned size, as one that a sidecar
sees; a size that somebody sets meanwhile is his."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sidecar.servers.sizes.promotions import follow_roles
from sidecar.servers.unseen_restarts import planned_for_restarted
from sidecar.state.control_state import ControlState
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import StateStore
from tests.sidecar.actuated_node import MB
from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until

SIZES = {"a": 30 * MB, "b": 9 * MB, "c": 9 * MB}


@pytest.mark.parametrize("own", ["8mb", "0"])
@pytest.mark.parametrize("is_restarted", [True, False])
def test_it_gets_the_planned_size(
    start_server: StartServer, write_node: WriteNode, own: str, is_restarted: bool
) -> None:
    servers = {name: start_server(own if name == "a" else size) for name, size in SIZES.items()}
    servers["a"].client.config_set("maxmemory", SIZES["a"])
    path = write_node(servers, budget="48mb", memory='rss_wait = "0s"')

    def sizes() -> dict[str, int]:
        return {
            name: int(one.client.config_get("maxmemory")["maxmemory"])
            for name, one in servers.items()
        }

    with sidecar_in_thread(path) as sidecar:
        wait_until(
            lambda: len(sidecar._store.now.run_ids) == 3 and sidecar._store.now.settled,
            sidecar.metrics.snapshot,
        )
    assert sizes() == SIZES
    if is_restarted:
        servers["a"].restart()
        assert sizes()["a"] != SIZES["a"]
    else:
        servers["a"].client.config_set("maxmemory", 20 * MB)
    right = SIZES if is_restarted else {**SIZES, "a": 20 * MB}
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._actuator.targets() == right, sidecar.metrics.snapshot)
        wait_until(lambda: sidecar._actuator.settled and sizes() == right, sizes)


def test_one_that_does_not_evict_gets_its_size_back_when_it_restarts(
    start_server: StartServer, write_node: WriteNode
) -> None:
    """With the small one of its own file it refused all writes, for good."""
    a = start_server("8mb", **{"maxmemory-policy": "noeviction"})
    servers = {"a": a, "b": start_server("9mb"), "c": start_server("9mb")}
    a.client.config_set("maxmemory", 30 * MB)
    path = write_node(servers, budget="48mb", memory='rss_wait = "0s"')
    with sidecar_in_thread(path) as sidecar:
        wait_until(lambda: sidecar._store.now.run_ids.get("a"), sidecar.metrics.snapshot)
        a.restart()
        wait_until(
            lambda: int(a.client.config_get("maxmemory")["maxmemory"]) == 30 * MB,
            sidecar.metrics.snapshot,
        )
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        assert sidecar._actuator.targets() == {"a": 30 * MB, "b": 9 * MB, "c": 9 * MB}


def test_on_the_way_to_a_plans_sizes_nothing_is_put_back() -> None:
    """The others would give at once what it was to get as it fills."""
    reading = SimpleNamespace(run_id="new")
    state = SidecarState(
        targets_bytes={"a": 40}, run_ids={"a": "old"}, control=ControlState(engaged=True)
    )
    readings: Any = {"a": reading}
    assert planned_for_restarted(state, readings, ()) == {"a": 40}
    assert planned_for_restarted(replace(state, settled=False), readings, ()) == {}


def test_what_a_replica_had_is_no_size_to_roll_back_to(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.json")
    with store.update() as state:
        state.replicas = ("a",)
        state.control = replace(state.control, before_plan_bytes={"a": 4, "b": 9})
    readings: Any = {"a": SimpleNamespace(ignores_maxmemory=False, maxmemory_bytes=40, role="")}
    follow_roles(store, readings)
    assert store.now.replicas == ()
    assert store.now.control.before_plan_bytes == {"a": 40, "b": 9}
