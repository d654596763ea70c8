"""Ways to take half of its memory from a server."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sidecar.base.metrics import Metrics
from sidecar.config.node import read_config
from sidecar.servers.actuator import Actuator
from sidecar.servers.redis_server import RedisServer
from sidecar.state.state_store import StateStore
from solver_lambda.documents.reader import Fields
from workloads.local_server import LocalServer

# Takes the server, its size from now on, and what says that the measurement is over.
Way = Callable[[LocalServer, int, threading.Event], None]


def nothing(_server: LocalServer, _size_bytes: int, over: threading.Event) -> None:
    """The same load on the same server, which keeps its size."""
    over.wait()


def by_hand(server: LocalServer, size_bytes: int, over: threading.Event) -> None:
    """One CONFIG SET, as an operator would."""
    server.client.config_set("maxmemory", size_bytes)
    over.wait()


def by_sidecar(server: LocalServer, size_bytes: int, over: threading.Event) -> None:
    """As the sidecar carries out a maximum that was lowered: nothing presses."""
    _shrink(server, size_bytes, over, gradual=True)


def by_sidecar_at_once(server: LocalServer, size_bytes: int, over: threading.Event) -> None:
    """As where memory is missing, so that all is taken at once."""
    _shrink(server, size_bytes, over, gradual=False)


def _shrink(server: LocalServer, size_bytes: int, over: threading.Event, *, gradual: bool) -> None:
    with running_actuator(server, gradual=gradual) as actuator:
        shrink_to(actuator, size_bytes)
        over.wait()


@contextmanager
def running_actuator(server: LocalServer, *, gradual: bool) -> Iterator[Actuator]:
    """The sidecar's actuator for a server, which it finds as it is: that is all its budget."""
    before_bytes = int(str(server.client.config_get("maxmemory")["maxmemory"]))
    with tempfile.TemporaryDirectory(prefix="spreds-shrink-") as folder:
        table = {
            "node": "shrink",
            "state_file": "state.json",
            "memory": {"budget": before_bytes},
            "sampling": {"endpoint": f"ipc://{folder}/samples"},
            "server": [{"name": "server", "url": server.url}],
        }
        config = read_config(Fields(table, "shrink"), Path(folder))
        actuator = Actuator(
            [RedisServer(one) for one in config.servers],
            config.memory,
            config.sampling,
            StateStore(config.state_file),
            Metrics(),
            gradual=gradual,
        )
        actuator.set_targets({"server": before_bytes}, "as it is")
        actuator.step()
        actuator.start()
        try:
            yield actuator
        finally:
            actuator.stop()


def shrink_to(actuator: Actuator, size_bytes: int) -> None:
    """As a maximum that was lowered: nobody wants the memory, so that it would be kept."""
    actuator.intermediate_sizes.bounds_bytes = {"server": (0, size_bytes)}
    actuator.set_targets({"server": size_bytes}, "less of it")


def grow_to(actuator: Actuator, size_bytes: int) -> None:
    """As a plan says it: memory comes as it is filled."""
    actuator.intermediate_sizes.bounds_bytes = {}
    actuator.set_targets({"server": size_bytes}, "more of it")


WAYS: dict[str, Way] = {
    "nothing": nothing,
    "by hand": by_hand,
    "at once": by_sidecar_at_once,
    "paced": by_sidecar,
}
