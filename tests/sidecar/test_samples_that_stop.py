"""Real servers whose samples stop while they are read on: they are not planned as idle."""

from __future__ import annotations

import contextlib

import pytest
import redis

from sidecar.daemon import Sidecar
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.test_controllers_close_the_loop import Load, wait_for
from workloads.local_node import sidecar_in_thread
from workloads.local_server import BUILD

MORE = """
[cycle]
samples = 1000000000
maximum_age = "1s"
[planning]
minimum_gain_ratio = 0.0
forecast = "last"  # sizes are taken at once: to fill a server takes long on a busy machine
[controller]
kind = "embedded"
"""
LOCAL = {"enable-module-command": "local"}
MODULE = BUILD / "lib" / "spreds.so"


class PatientLoad(Load):
    """One that outlives a restart of its server."""

    def _run(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(redis.ConnectionError):
                super()._run()


@pytest.mark.skipif(not MODULE.exists(), reason="build/lib/spreds.so is not built")
@pytest.mark.parametrize("way", ["the module is unloaded", "its socket is gone"])
def test_a_server_that_is_read_and_not_sampled_keeps_its_size(
    start_server: StartServer, write_node: WriteNode, way: str
) -> None:
    stock = BUILD / "bin" / "redis-server-stock"
    servers = [start_server("8mb", stock, loadmodule=MODULE, **LOCAL) for _ in range(2)]
    urls = {f"s{place}": server.url for place, server in enumerate(servers)}
    node = write_node(urls, budget="16mb", memory='rss_wait = "0s"', more=MORE)
    with PatientLoad(servers), sidecar_in_thread(node) as sidecar:
        wait_for(lambda: sidecar.cycles >= 2 and rate(sidecar) > 100, sidecar)
        if way == "its socket is gone":
            (node.parent / "samples").unlink()
            servers[1].restart()
            wait_for(lambda: keep_code(sidecar) == "silent", sidecar)
        else:
            servers[1].client.execute_command("MODULE", "UNLOAD", "spreds")
            wait_for(lambda: keep_code(sidecar) == "no_sampler", sidecar)
        wait_for(lambda: is_planned(sidecar), sidecar)
        kept = planned_bytes(sidecar)
        cycles = sidecar.cycles
        wait_for(lambda: sidecar.cycles >= cycles + 4, sidecar)
        assert planned_bytes(sidecar) == kept
        assert rate(sidecar) > 100
        problems = " ".join(sidecar.status()["problems"])
        told = {"silent": "s1 has sent no samples for ", "no_sampler": "s1 has neither"}
        assert told[keep_code(sidecar)] in problems


def rate(sidecar: Sidecar) -> float:
    """That the second server is planned by."""
    observation = sidecar.last_observation
    return observation.servers[1].request_rate_per_second if observation else 0.0


def keep_code(sidecar: Sidecar) -> str:
    observation = sidecar.last_observation
    reason = observation.servers[1].keep_reason if observation else None
    return (reason or "").partition(":")[0]


def is_planned(sidecar: Sidecar) -> bool:
    """Whether the last observation has its plan, and the server the size that it is to keep: a move
    that began before is carried on while the plan is made."""
    plan, observation = sidecar.last_plan, sidecar.last_observation
    if plan is None or observation is None or plan.cycle != observation.cycle:
        return False
    size_bytes = sidecar.status()["servers"][1]["maxmemory_bytes"]
    return bool(size_bytes == planned_bytes(sidecar) == observation.servers[1].maxmemory_bytes)


def planned_bytes(sidecar: Sidecar) -> int:
    plan = sidecar.last_plan
    assert plan is not None
    return plan.servers[1].maxmemory_bytes
