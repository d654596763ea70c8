"""One server that loses half of its memory under load: what its clients feel, and its memory."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sidecar.base.metrics import Metrics
from sidecar.config.node import read_config
from sidecar.servers.actuator import Actuator
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.state.state_store import StateStore
from solver_lambda.documents.reader import Fields
from workloads.experiment.shrink.clients import VALUE, Clients, running_clients
from workloads.local_server import LocalServer

# Takes the server, its size from now on, and what says that the measurement is over.
Way = Callable[[LocalServer, int, threading.Event], None]
# Key, value and what Redis 7.0 needs for them.
ENTRY_BYTES = 640
BEFORE_SECONDS = 8.0
WARM_UP_SECONDS = 2.0
# Of a server that does not shrink.
LEAST_DURING_SECONDS = 5.0
SHRINK_LIMIT_SECONDS = 900.0
LOOK_SECONDS = 0.1
# Resident memory within so much of what is used counts as given back.
RSS_RATIO = 1.15
PARTS = 50


def nothing(_server: LocalServer, _size_bytes: int, over: threading.Event) -> None:
    """Wait while the same load goes on, on the same server, which keeps its size."""
    over.wait()


def by_hand(server: LocalServer, size_bytes: int, over: threading.Event) -> None:
    """Shrink with one CONFIG SET, as an operator would."""
    server.client.config_set("maxmemory", size_bytes)
    over.wait()


def by_sidecar(
    server: LocalServer, size_bytes: int, over: threading.Event, *, gradual: bool
) -> None:
    """Shrink as the sidecar carries out a lowered maximum, where nothing presses. If not
    ``gradual``, all is taken at once, as where memory is missing."""
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
    """Shrink as for a lowered maximum: nobody wants the memory, so that else it would be kept."""
    actuator.intermediate_sizes.bounds_bytes = {"server": (0, size_bytes)}
    actuator.set_targets({"server": size_bytes}, "less of it")


def grow_to(actuator: Actuator, size_bytes: int) -> None:
    """Grow as a plan says it: memory comes as it is filled."""
    actuator.intermediate_sizes.bounds_bytes = {}
    actuator.set_targets({"server": size_bytes}, "more of it")


WAYS: dict[str, Way] = {
    "nothing": nothing,
    "by hand": by_hand,
    "at once": partial(by_sidecar, gradual=False),
    "paced": partial(by_sidecar, gradual=True),
}


@dataclass(frozen=True)
class Percentiles:
    """Holds percentiles of latencies, in seconds."""

    p50: float
    p99: float
    p999: float
    maximum: float
    requests: int

    @classmethod
    def of(cls, seconds: npt.NDArray[np.float64]) -> Percentiles:
        """Raises ValueError if there are none."""
        if not len(seconds):
            raise ValueError("no request was made in the time that counts")
        p50, p99, p999 = np.quantile(seconds, [0.5, 0.99, 0.999]).tolist()
        return cls(p50, p99, p999, float(seconds.max()), len(seconds))


@dataclass(frozen=True)
class Shrink:
    """Tells what was found. ``shrink_seconds``: until the server uses no more than it may.
    ``rss_seconds``: until resident memory followed, ``None`` if it had not when the time was
    over."""

    clients: str
    way: str
    before: Percentiles
    during: Percentiles
    after: Percentiles
    shrink_seconds: float
    rss_seconds: float | None
    rss_bytes: tuple[int, int]

    def document(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)


def measure(clients: Clients, name: str, way: Way, size_mib: int, after_seconds: float) -> Shrink:
    """Half of ``size_mib`` MiB away, on a fresh server."""
    over = threading.Event()
    count = (size_mib << 20) // ENTRY_BYTES
    with LocalServer({"maxmemory-policy": "allkeys-lru", "enable-debug-command": "yes"}) as server:
        _fill(server, count)
        full_bytes = int(server.client.info("memory")["used_memory"]) + (1 << 20)
        server.client.config_set("maxmemory", full_bytes)
        size_bytes = full_bytes // 2
        thread = threading.Thread(target=way, args=(server, size_bytes, over), name=name)
        with running_clients(clients, server.socket, 4 * count) as latencies:
            time.sleep(WARM_UP_SECONDS + BEFORE_SECONDS)
            rss_before = _memory(server)["used_memory_rss"]
            began = time.monotonic()
            thread.start()
            try:
                small_at = _wait(server, size_bytes, began, shrinks=name != "nothing")
                rss_at = _follow_rss(server, size_bytes, small_at + after_seconds)
                rss_after = _memory(server)["used_memory_rss"]
            finally:
                over.set()
                thread.join()
    return Shrink(
        clients.name,
        name,
        Percentiles.of(latencies.between(began - BEFORE_SECONDS, began)),
        Percentiles.of(latencies.between(began, small_at)),
        Percentiles.of(latencies.between(small_at, small_at + after_seconds)),
        small_at - began,
        rss_at - began if rss_at is not None and name != "nothing" else None,
        (rss_before, rss_after),
    )


def _wait(server: LocalServer, size_bytes: int, began: float, *, shrinks: bool) -> float:
    """Return when it was small enough, monotonic."""
    while True:
        time.sleep(LOOK_SECONDS)
        now = time.monotonic()
        used = _memory(server)["used_memory"]
        if now - began >= LEAST_DURING_SECONDS and not shrinks:
            return now
        if shrinks and used <= size_bytes + (1 << 20):
            return now
        if now - began > SHRINK_LIMIT_SECONDS:
            raise RuntimeError(f"it uses {used} bytes after {SHRINK_LIMIT_SECONDS:g} s")


def _follow_rss(server: LocalServer, size_bytes: int, until: float) -> float | None:
    """Return when resident memory had followed, looked at until then."""
    found = None
    while (now := time.monotonic()) < until:
        if found is None and _memory(server)["used_memory_rss"] <= RSS_RATIO * size_bytes:
            found = now
        time.sleep(LOOK_SECONDS)
    return found


def _fill(server: LocalServer, count: int) -> None:
    client: Any = server.client
    for part in range(PARTS):  # one would take longer than a client waits
        client.execute_command("DEBUG", "POPULATE", count // PARTS, f"key{part}", len(VALUE))


def _memory(server: LocalServer) -> dict[str, int]:
    found: dict[str, int] = server.client.info("memory")
    return found
