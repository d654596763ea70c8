"""An actuator over real servers, for tests that make its steps."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from pathlib import Path

from sidecar.base.metrics import Metrics
from sidecar.config.node import SidecarConfig
from sidecar.servers.actuator import Actuator
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.state.state_store import StateStore
from workloads.local_server import LocalServer, settled_sizes

MB = 1 << 20
BUDGET = 48 * MB
PAUSE_SECONDS = 0.005  # a step takes less


class ActuatedNode:
    """An actuator over started servers; steps are made by the test, or by its own thread."""

    def __init__(
        self,
        config: SidecarConfig,
        servers: dict[str, LocalServer],
        state_file: Path,
        *,
        gradual: bool,
    ) -> None:
        self.config = config
        self.gradual = gradual
        self.servers = servers
        self.store = StateStore(state_file)
        self.metrics = Metrics()
        self.actuator = self.make()

    def make(self) -> Actuator:
        """Another one; of the former nothing is heard again."""
        self.__dict__.pop("actuator", None)
        gc.collect()  # with it go its locks on the servers
        return Actuator(
            [RedisServer(server) for server in self.config.servers],
            self.config.memory,
            self.config.sampling,
            self.store,
            self.metrics,
            gradual=self.gradual,
        )

    def maxmemory(self) -> dict[str, int]:
        return settled_sizes(self.servers)

    def knob(self, name: str, knob: str) -> str:
        return str(self.servers[name].client.config_get(knob)[knob])

    def want(self, *mebibytes: int) -> None:
        """Targets of ``s0`` and so on, for the steps to come."""
        sizes = {f"s{place}": size * MB for place, size in enumerate(mebibytes)}
        self.actuator.set_targets(sizes, "test")

    def begin(self, *mebibytes: int) -> None:
        """Make one step towards these targets."""
        self.want(*mebibytes)
        self.actuator.step()

    def settle(self, *mebibytes: int) -> float:
        """Step until nothing moves, towards these targets if there are any; the greatest sum."""
        if mebibytes:
            self.want(*mebibytes)
        return self.step_until(lambda: self.actuator.settled)

    def step_until(self, done: Callable[[], bool]) -> float:
        """Greatest sum seen after any step."""
        greatest = 0.0
        for _ in range(5000):
            self.actuator.step()
            greatest = max(greatest, sum(value or math.inf for value in self.maxmemory().values()))
            if done():
                return greatest
            time.sleep(PAUSE_SECONDS)
        raise AssertionError(f"never done: {self.maxmemory()}, {self.metrics.snapshot()}")


def fill(server: LocalServer, megabytes: int) -> None:
    """Fill a server with keys of 1 KB."""
    write(server, range(megabytes * 1024))


def write(server: LocalServer, keys: range, prefix: str = "key") -> None:
    """Let the server itself write: to send each key takes six times the processor time."""
    text = "for key = ARGV[1], ARGV[2] - 1 do redis.call('SET', ARGV[3] .. key, ARGV[4]) end"
    server.client.eval(text, 0, keys.start, keys.stop, prefix, b"x" * 1000)
