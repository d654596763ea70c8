"""Says how much ``maxmemory`` fits into a server's own cgroup: the kernel ends who takes more.

A container or a slice may have less than the budget of all. ``maxmemory`` counts neither
fragmentation, nor the program, nor what a fork copies, nor replicas' buffers; the cgroup counts all
of it. How much that is, is learnt of each server while it is full.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sidecar.base.machine_memory import anonymous_bytes, least_limit, machine_memory_bytes
from sidecar.base.server_process import server_process
from sidecar.config.node import ServerConfig
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.resident_budget import FULL_RATIO, IDLE_BYTES
from solver_lambda.documents.units import format_size

log = logging.getLogger(__name__)

# The kernel's files are read so often, and not more often whatever servers say; a container may be
# given another limit while it runs.
LOOK_SECONDS, LEAST_PAUSE_SECONDS = 10.0, 1.0
# Of a limit, what stays free: a server writes on while it is made smaller.
MARGIN_RATIO = 0.05
# A server that is as full as this has all the pages that its size needs.
_PROVEN_RATIO = 0.95
_FORKS_FADE_SECONDS = 3600.0
# Pages for each byte in use, of a server that was not full yet.
_FIRST_PAGES_RATIO = 1.1
# People are told of a limit that differs by so much from the one that they were told.
_TOLD_RATIO = 0.05

Limit = tuple[int, Path]


def limit_of(reading: ServerReading) -> Limit | None:
    """Return the least limit of the cgroups that hold a server's process, and whose it is; ``None``
    if it has none below the machine's, or the process is not seen."""
    number = reading.process_id
    if not number or server_process("", number) is None:
        return None
    found = least_limit(Path(f"/proc/{number}"))
    return found if found is not None and found[0] < machine_memory_bytes() else None


class OwnLimits:
    """Gives servers a maximum that their own cgroups have room for; any thread may ask. A cgroup
    that holds several servers is no matter of one of them."""

    def __init__(self, find: Callable[[ServerReading], Limit | None] = limit_of) -> None:
        self._find, self._lock = find, threading.Lock()
        self._looked_at = -math.inf
        self._processes: dict[str, int] = {}
        # Of a process, by the server's name.
        self._pages_ratio: dict[str, tuple[str, float]] = {}
        self._forks: dict[str, tuple[str, float]] = {}
        self._most: dict[str, int] = {}
        self._told: dict[str, int] = {}

    def within(
        self, servers: Sequence[ServerConfig], readings: Mapping[str, ServerReading]
    ) -> Sequence[ServerConfig]:
        """Return the servers, with a maximum that fits, but not below their minimum. Who does not
        answer keeps the last one."""
        with self._lock:
            waited, now = time.monotonic() - self._looked_at, time.monotonic()
            processes = {name: one.process_id for name, one in readings.items()}
            is_new = processes != self._processes and waited >= LEAST_PAUSE_SECONDS
            if is_new or waited >= LOOK_SECONDS:
                self._looked_at, self._processes = now, processes
                self._look(readings)
            return [self._capped(server) for server in servers] if self._most else servers

    def _capped(self, server: ServerConfig) -> ServerConfig:
        most = self._most.get(server.name)
        if most is None or (server.maximum_bytes is not None and server.maximum_bytes <= most):
            return server
        return replace(server, maximum_bytes=max(most, server.minimum_bytes))

    def _look(self, readings: Mapping[str, ServerReading]) -> None:
        found = {name: self._find(reading) for name, reading in readings.items()}
        times = Counter(limit[1] for limit in found.values() if limit is not None)
        for name, limit in found.items():
            if limit is None or times[limit[1]] > 1:
                self._most.pop(name, None)
                continue
            self._most[name] = most = self._fits(name, readings[name], *limit)
            told = self._told.get(name)
            if told is None or abs(most - told) > _TOLD_RATIO * told:
                self._told[name] = most
                words = "server %s: its cgroup %s has %s, so maxmemory may be %s at most"
                log.info(words, name, limit[1], format_size(limit[0]), format_size(most))

    def _fits(self, name: str, reading: ServerReading, limit_bytes: int, cgroup: Path) -> int:
        others = max(0, anonymous_bytes(cgroup) - reading.rss_bytes)
        forks = min(self._copied(name, reading), reading.rss_bytes)
        beside = others + forks + reading.not_counted_bytes + IDLE_BYTES
        # Of a small one most pages are the program's, and one without a limit is never full.
        full_bytes = max(IDLE_BYTES, FULL_RATIO * (reading.maxmemory_bytes or math.inf))
        if reading.counted_bytes >= full_bytes:
            pages = reading.rss_bytes - reading.not_counted_bytes - IDLE_BYTES
            self._pages_ratio[name] = reading.run_id, max(1.0, pages / reading.counted_bytes)
        run_id, learnt = self._pages_ratio.get(name, ("", 0.0))
        ratio = learnt if run_id == reading.run_id else _FIRST_PAGES_RATIO
        fits = max(1, int(((1 - MARGIN_RATIO) * limit_bytes - beside) / ratio))
        # Where it is full and goes on, what it has fits, however near to the limit it is.
        is_proven = reading.counted_bytes >= _PROVEN_RATIO * (reading.maxmemory_bytes or math.inf)
        has_room = reading.rss_bytes + others + forks <= limit_bytes
        return max(fits, reading.maxmemory_bytes) if is_proven and has_room else fits

    def _copied(self, name: str, reading: ServerReading) -> float:
        """Return the most that a fork copied; an earlier one counts half after an hour."""
        run_id, before = self._forks.get(name, ("", 0.0))
        faded = before * 0.5 ** (LOOK_SECONDS / _FORKS_FADE_SECONDS)
        most = max(float(reading.copied_bytes), faded if run_id == reading.run_id else 0.0)
        self._forks[name] = reading.run_id, most
        return most
