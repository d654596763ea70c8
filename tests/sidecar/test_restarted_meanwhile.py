"""A server that is started anew while no sidecar runs gets its planned size, as one that a sidecar
sees; a size that somebody sets meanwhile is his."""

from __future__ import annotations

import pytest

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
        wait_until(lambda: len(sidecar._store.now.run_ids) == 3, sidecar.metrics.snapshot)
    assert sizes() == SIZES
    if is_restarted:
        servers["a"].restart()
        assert sizes()["a"] != SIZES["a"]
    else:
        servers["a"].client.config_set("maxmemory", 20 * MB)
    with sidecar_in_thread(path) as sidecar:
        wait_until(
            lambda: sidecar._actuator.settled and len(sidecar._actuator.readings) == 3,
            sidecar.metrics.snapshot,
        )
        assert sizes() == (SIZES if is_restarted else {**SIZES, "a": 20 * MB})
