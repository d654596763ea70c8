"""What a server needs of memory: one that evicts has filled its size, and no more than that."""

from __future__ import annotations

import pytest

from sidecar.servers.connection import reading_window
from sidecar.servers.connection.reading_window import LastingNeeds
from tests.sidecar.actuated_node import MB, fill
from tests.sidecar.fixtures import MakeNode, StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until


def test_who_evicts_is_full_whatever_a_look_sees_of_it(
    write_node: WriteNode, start_server: StartServer
) -> None:
    """Who burst a growing server just after each look had it seem to need nothing: it evicted
    beside memory that was planned for it."""
    servers = {name: start_server("16mb") for name in "ab"}
    with sidecar_in_thread(write_node(servers)) as sidecar:
        wait_until(lambda: sidecar._actuator.settled, sidecar.metrics.snapshot)
        watch = sidecar._actuator._watches["a"]
        assert watch.need().used_bytes < 8 << 20
        burst = servers["a"].client.pipeline(transaction=False)
        for key in range(20 * 1024):
            burst.set(str(key), b"x" * 1000)
        burst.flushall().execute()
        wait_until(lambda: watch.need().used_bytes >= 16 << 20, sidecar.metrics.snapshot)
        wait_until(lambda: watch.need().used_bytes < 8 << 20, sidecar.metrics.snapshot)


def test_who_evicted_in_a_size_set_by_hand_is_not_full_in_its_own(make_node: MakeNode) -> None:
    """It had seemed to fill all that it was given back, and to need as much again."""
    node = make_node("24mb")
    actuator, client = node.actuator, node.servers["s0"].client

    def evicted() -> int:
        return int(client.info("stats")["evicted_keys"])

    def is_read(size_bytes: int) -> bool:
        actuator.step()
        return actuator.readings["s0"].maxmemory_bytes == size_bytes

    fill(node.servers["s0"], 10)
    node.settle(24)
    actuator.watch()
    client.config_set("maxmemory", 8 * MB)
    wait_until(lambda: is_read(8 * MB), evicted)
    before = evicted()
    client.config_set("maxmemory", 6 * MB)
    wait_until(lambda: evicted() > before, evicted)
    client.config_set("maxmemory", 24 * MB)
    wait_until(lambda: is_read(24 * MB), evicted)
    assert actuator._watches["s0"].need().used_bytes <= 8 * MB


def test_a_need_lasts_that_was_there_for_a_whole_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an early plan a window of seconds had a client's subscriptions planned for hours."""
    now = 1000.0
    monkeypatch.setattr(reading_window.time, "monotonic", lambda: now)
    needs = LastingNeeds(3600.0)
    for seconds, held, lasting in (
        (0, 2, 2),
        (100, 20, 2),
        (200, 21, 2),
        (3600, 22, 2),
        (3601, 22, 20),
        (3800, 22, 21),
        (3900, 3, 3),
    ):
        now = 1000.0 + seconds
        assert needs.over("a", held) == lasting
    assert needs.over("b", 7) == 7
