"""Real servers whose samples stop while they are read on: they are not planned as idle."""

from __future__ import annotations

import contextlib

import pytest
import redis

from sidecar.daemon import Sidecar
from solver_lambda.documents.observation import ServerObservation
from tests.sidecar.daemon.test_closed_loop import Load, wait_for
from tests.sidecar.fixtures import StartServer, WriteNode
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
    """Is a load that outlives a restart of its server."""

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
    keys = 'backend_latency = "50ms"\nsampler = "module"'
    node = write_node(urls, "16mb", memory='rss_wait = "0s"', more=MORE, server_keys=keys)
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
        wait_for(lambda: planned_bytes(sidecar) and rate(sidecar) > 100, sidecar)
        assert planned_bytes(sidecar) == kept
        problems = " ".join(sidecar.status()["problems"])
        told = {
            "silent": "s1 has sent no samples for ",
            "no_sampler": "s1 is not sampled, for neither patch",
        }
        assert told[keep_code(sidecar)] in problems


def seen(sidecar: Sidecar) -> ServerObservation | None:
    """The second server in the last observation; on a busy machine it may not have answered."""
    observation = sidecar.last_observation
    servers = observation.servers if observation else ()
    return next((server for server in servers if server.name == "s1"), None)


def rate(sidecar: Sidecar) -> float:
    """That the second server is planned by."""
    server = seen(sidecar)
    return server.request_rate_per_second if server else 0.0


def keep_code(sidecar: Sidecar) -> str:
    server = seen(sidecar)
    return ((server.keep_reason if server else None) or "").partition(":")[0]


def is_planned(sidecar: Sidecar) -> bool:
    """Whether the last observation has its plan, and the server the size that it is to keep: a move
    that began before is carried on while the plan is made."""
    plan, observation = sidecar.last_plan, sidecar.last_observation
    if plan is None or observation is None or plan.cycle != observation.cycle:
        return False
    size_bytes, server = sidecar.status()["servers"][1]["maxmemory_bytes"], seen(sidecar)
    return server is not None and size_bytes == planned_bytes(sidecar) == server.maxmemory_bytes


def planned_bytes(sidecar: Sidecar) -> int | None:
    servers = sidecar.last_plan.servers if sidecar.last_plan else ()
    return next((server.maxmemory_bytes for server in servers if server.name == "s1"), None)
