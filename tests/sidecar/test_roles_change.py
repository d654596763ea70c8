"""A replica counts with what it uses, and loses nothing when it is promoted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.servers.returned_room import can_shrink, least_size_bytes, reached_bytes
from sidecar.servers.unevictable import HEADROOM_BYTES
from tests.sidecar.actuated_node import MB, fill
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.monitored_load import STATS
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer, free_port

BUDGET = 48 * MB


def follow(replica: LocalServer, primary: LocalServer) -> None:
    """As an operator or Sentinel has it."""
    port = free_port()
    primary.client.config_set("port", port)
    replica.client.config_set("repl-diskless-sync-delay", 0)
    primary.client.config_set("repl-diskless-sync-delay", 0)
    replica.client.replicaof("127.0.0.1", port)


def test_a_failover_there_and_back_evicts_nothing(
    write_node: WriteNode, start_server: StartServer
) -> None:
    """Its own file has less than its primary holds: without SPREDS all above that would go."""
    sizes = {"a": "24mb", "b": "8mb", "c": "16mb"}
    servers = {name: start_server(size) for name, size in sizes.items()}
    fill(servers["a"], 14)
    fill(servers["c"], 4)
    keys = servers["a"].client.dbsize()

    def used(name: str) -> int:
        return int(servers[name].client.info("memory")["used_memory"])

    def limit(name: str) -> int:
        return int(servers[name].client.config_get("maxmemory")["maxmemory"])

    def is_up(name: str) -> bool:
        return servers[name].client.info("replication").get("master_link_status") == "up"

    def evicted() -> int:
        return sum(one.client.info("stats")["evicted_keys"] for one in servers.values())

    with sidecar_in_thread(write_node(servers, memory='rss_wait = "0s"')) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        for primary, replica in (("a", "b"), ("b", "a"), ("a", "b")):
            servers[primary].client.replicaof("NO", "ONE")
            follow(servers[replica], servers[primary])
            wait_until(lambda name=replica: is_up(name), sidecar.metrics.snapshot)
            wait_until(lambda name=replica: limit(name) > used(name), sidecar.metrics.snapshot)
            wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
            assert sum(map(limit, servers)) <= BUDGET
        servers["b"].client.replicaof("NO", "ONE")
        wait_until(
            lambda: sidecar._actuator.readings["b"].role == "master", sidecar.metrics.snapshot
        )
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        assert limit("b") > used("b")
        assert evicted() == 0
        assert servers["b"].client.dbsize() == keys


def test_what_a_replica_does_not_use_goes_to_the_others(
    write_node: WriteNode, start_server: StartServer
) -> None:
    servers = {name: start_server("16mb") for name in "abc"}
    fill(servers["a"], 4)
    with sidecar_in_thread(write_node(servers, memory='rss_wait = "0s"')) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        follow(servers["b"], servers["a"])

        def planned() -> dict[str, int]:
            return sidecar._actuator.targets()

        wait_until(lambda: planned()["b"] < 8 * MB, sidecar.metrics.snapshot)
        assert planned()["a"] == planned()["c"] > 19 * MB


@pytest.mark.parametrize(("ignores", "gives"), [("yes", True), ("no", False)])
def test_a_replica_that_keeps_to_its_maxmemory_keeps_its_size(ignores: str, gives: bool) -> None:
    reading = replace(
        STATS,
        role="slave",
        counted_bytes=2 * MB,
        maxmemory_bytes=32 * MB,
        config={"replica-ignore-maxmemory": ignores},
    )
    assert not reading.evicts
    assert can_shrink(reading, "a", {}, 16 * MB) == gives
    assert (least_size_bytes(reading, "a", {}) is not None) == gives
    assert reached_bytes(reading, "a", {}, MB) == (2 * MB + HEADROOM_BYTES if gives else MB)
