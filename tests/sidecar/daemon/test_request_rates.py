"""The request rate that a plan is made by is that of the clients, however short the cycle is."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from tests.sidecar.fixtures import StartServer, WriteNode
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer

REQUESTS = 20
PERIOD_SECONDS = 0.008
OBSERVATIONS = 2
STEP_SECONDS = 0.25  # a twelfth of a cycle
CYCLE = """
[cycle]
samples = 1000000000
maximum_age = "3s"
[controller]
kind = "embedded"
"""


class SteadyLoad:
    """Reads at one pace, in a thread; what it has sent, and since when.

    The pace is a schedule's (an open loop): what a busy machine held up is sent right after.
    """

    def __init__(self, server: LocalServer) -> None:
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent: list[float] = []

    def _run(self) -> None:
        draw = np.random.default_rng(0)
        due = time.time()
        while not self._stop.is_set():
            pipeline = self._server.client.pipeline(transaction=False)
            for key in draw.integers(0, 2000, REQUESTS):
                pipeline.get(f"key:{key}")
            pipeline.execute()
            self.sent.append(time.time())
            due += PERIOD_SECONDS
            self._stop.wait(max(due - time.time(), 0))

    def __enter__(self) -> SteadyLoad:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def rates_per_second(self, since: float, until: float) -> list[float]:
        """Return each step's rate: on a busy machine some are less, then more, than scheduled."""
        starts = np.arange(since, until - STEP_SECONDS, STEP_SECONDS)
        return [
            REQUESTS * sum(start < at <= start + STEP_SECONDS for at in self.sent) / STEP_SECONDS
            for start in starts
        ]


@pytest.mark.parametrize("rate", [0.02, 1.0])
def test_it_is_that_of_a_steady_load(
    start_server: StartServer, write_node: WriteNode, rate: float
) -> None:
    server = start_server("16mb")
    node = write_node({"a": server.url}, more=CYCLE)
    node.write_text(node.read_text().replace("rate = 0.5", f"rate = {rate}"))
    seen: dict[int, tuple[float, float]] = {}

    def has_seen_enough() -> bool:
        observation = sidecar.last_observation
        if observation is not None:
            said = observation.servers[0].request_rate_per_second
            seen[observation.cycle] = (observation.made_at_seconds, said)
        return len(seen) > OBSERVATIONS

    with SteadyLoad(server) as load, sidecar_in_thread(node) as sidecar:
        began = time.time()
        wait_until(has_seen_enough, sidecar.metrics.snapshot)
    for made_at_seconds, said in list(seen.values())[1:]:
        rates = load.rates_per_second(began, made_at_seconds)
        assert 0.8 * min(rates) <= said <= 1.2 * max(rates)
