"""Runs a mix against simulated servers whose memory somebody divides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.experiment.gain.mix import CACHE_LATENCY_SECONDS, Mix, Requests
from workloads.experiment.gain.simulated_server import REDIS_SAMPLES, Served, SimulatedServer

FloatArray = npt.NDArray[np.float64]
STEPS_A_CYCLE = 60


class Division:
    """Somebody who divides the memory; sizes are bytes, in the mix's order of servers.

    Attributes:
        applied: how often it has decided on other sizes.
    """

    applied = 0

    def begin(self, mix: Mix, servers: list[SimulatedServer]) -> None:
        """Begin, before the first request."""

    def follow(self, place: int, served: Served) -> None:
        """Follow what a server was asked, and what became of it."""

    def sizes_bytes(self, now_seconds: float) -> Sequence[int] | None:  # noqa: ARG002
        """Return the sizes at the end of each step; ``None``: as they are."""
        return None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a division came to.

    Attributes:
        reads, misses: by cycle and server, shape (cycles, servers).
        sizes_bytes: at the end of each cycle, same shape.
        moves: how often other sizes were decided on.
        changes: of servers' sizes: a move may take several.
        moved_bytes: that servers were given, in all.
    """

    mix: Mix
    reads: FloatArray
    misses: FloatArray
    sizes_bytes: FloatArray
    moves: int = 0
    changes: int = 0
    moved_bytes: int = 0

    def access_seconds(self, first: int = 0, last: int | None = None) -> float:
        """Weighted mean access time of cycles, the first is 0; 0 without reads."""
        weights = np.array([server.weight for server in self.mix.servers])
        backends = np.array([server.backend_latency_seconds for server in self.mix.servers])
        part = slice(first, last)
        reads, misses = self.reads[part].sum(axis=0), self.misses[part].sum(axis=0)
        seconds = (reads - misses) * CACHE_LATENCY_SECONDS + misses * backends
        asked = float(weights @ reads)
        return float(weights @ seconds) / asked if asked else 0.0

    def cycles_seconds(self) -> list[float]:
        """The weighted mean access time of each cycle."""
        return [self.access_seconds(cycle, cycle + 1) for cycle in range(len(self.reads))]


MakeServer = Callable[[int, Requests, int], SimulatedServer]


def redis_like(
    number: int,
    requests: Requests,
    maxmemory: int,
    lru_clock_seconds: float = 1.0,
    beside_bytes: int | None = None,
) -> SimulatedServer:
    """A server that evicts by as many samples as Redis does; see ``SimulatedServer``."""
    return SimulatedServer(
        number,
        requests.sizes_bytes,
        maxmemory,
        ttls_seconds=requests.ttl_seconds,
        samples=REDIS_SAMPLES,
        lru_clock_seconds=lru_clock_seconds,
        beside_bytes=beside_bytes,
    )


def exact_lru(number: int, requests: Requests, maxmemory: int) -> SimulatedServer:
    """A server that evicts what was not read for longest, which the oracle's curves are of."""
    return SimulatedServer(
        number, requests.sizes_bytes, maxmemory, ttls_seconds=requests.ttl_seconds
    )


def simulate(
    mix: Mix,
    requests: Sequence[Requests],
    division: Division,
    start_bytes: Sequence[int] | None = None,
    make_server: MakeServer = redis_like,
) -> Outcome:
    """The whole mix; servers start with equal shares unless it is said otherwise.

    ``make_server`` is given a server's number, what is asked of it, and its ``maxmemory``.
    """
    count = len(mix.servers)
    start = start_bytes or [mix.budget_bytes // count] * count
    servers = [
        make_server(place + 1, one, size)
        for place, (one, size) in enumerate(zip(requests, start, strict=True))
    ]
    division.begin(mix, servers)
    reads, misses, sizes = (np.zeros((mix.cycles, count)) for _ in range(3))
    changes = moved = 0
    length = mix.cycle_seconds / STEPS_A_CYCLE
    for cycle in range(mix.cycles):
        steps = [one.steps(cycle, STEPS_A_CYCLE) for one in requests]
        for step in range(STEPS_A_CYCLE):
            begin = cycle * mix.cycle_seconds + step * length
            for place, server in enumerate(servers):
                keys = steps[place][step]
                served = server.read(keys, begin, begin + length)
                reads[cycle, place] += len(keys)
                misses[cycle, place] += len(keys) - np.count_nonzero(served.hit)
                division.follow(place, served)
            wanted = division.sizes_bytes(begin + length)
            if wanted is not None:
                assert sum(wanted) <= mix.budget_bytes, "the budget"
                had = np.array([server.maxmemory_bytes for server in servers])
                gains = np.array(wanted) - had
                changes += int(np.count_nonzero(gains))
                moved += int(gains[gains > 0].sum())
                for place in np.argsort(gains, kind="stable").tolist():  # shrink before growing
                    servers[place].resize(wanted[place])
        sizes[cycle] = [server.maxmemory_bytes for server in servers]
    return Outcome(mix, reads, misses, sizes, division.applied, changes, moved)
