"""One server that loses half of its memory under load: what its clients feel, and its memory."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.experiment.shrink.clients import VALUE, Clients, running_clients
from workloads.experiment.shrink.ways import Way
from workloads.local_server import LocalServer

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


@dataclass(frozen=True)
class Percentiles:
    """Of latencies, in seconds."""

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
    """What was found. ``shrink_seconds``: until the server uses no more than it may.
    ``rss_seconds``: until resident memory followed, ``None`` if it had not when the time was over.
    """

    clients: str
    way: str
    before: Percentiles
    during: Percentiles
    after: Percentiles
    shrink_seconds: float
    rss_seconds: float | None
    rss_bytes: tuple[int, int]

    def document(self) -> dict[str, Any]:
        """For JSON."""
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
    """When it was small enough, monotonic."""
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
    """When resident memory had followed, looked at until then."""
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
