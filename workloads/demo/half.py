"""One half of the demonstration: the load against running servers, watched all the time.

Which share of the possible gain the demonstration kept, by the exact curves of its load.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from workloads.demo.scenario import CACHE_LATENCY_SECONDS, DemoServer
from workloads.experiment.gain.mix import Mix, MixServer, Requests, Targets
from workloads.experiment.gain.oracle import Oracle
from workloads.load import Load
from workloads.local_server import LocalServer, free_port, running_servers, settled_sizes
from workloads.lookaside import LookAsideClient, Tally, replay
from workloads.table import percent
from workloads.ycsb.client import running_ycsb

WATCH_SECONDS = 0.05
SAMPLE_SECONDS = 1.0
LINE_SECONDS = 10.0  # between lines of progress when they do not overwrite each other

Adaptation = Callable[[dict[str, LocalServer]], AbstractContextManager[object]]


class _Client(Protocol):
    """Stands for our client or YCSB."""

    tally: Tally


@dataclass(frozen=True)
class Sample:
    """The servers at one moment.

    Attributes:
        seconds: since the load began.
        maxmemory_bytes: by server.
        hit_ratio: by server, since the sample before.
        tallies: by server, since the load began.
    """

    seconds: float
    maxmemory_bytes: dict[str, int]
    hit_ratio: dict[str, float]
    tallies: dict[str, Tally]


@dataclass
class HalfResult:
    """What one half measured, over the whole load, the time it takes to converge included.

    Attributes:
        samples: one a second, and one at the end.
        max_total_maxmemory_bytes: greatest sum seen, looked at every ``WATCH_SECONDS``.
    """

    samples: list[Sample] = field(default_factory=list)
    max_total_maxmemory_bytes: int = 0

    @property
    def maxmemory_bytes(self) -> dict[str, int]:
        """Return the size of each server at the end."""
        return self.samples[-1].maxmemory_bytes

    @property
    def tallies(self) -> dict[str, Tally]:
        """Return the tally of each server, of the whole load."""
        return self.samples[-1].tallies

    @property
    def late_tallies(self) -> dict[str, Tally]:
        """Return the tally of each server, of the second half of the load, in time."""
        middle = self.samples[-1].seconds / 2
        early = next(sample for sample in self.samples if sample.seconds >= middle)
        return {name: tally.minus(early.tallies[name]) for name, tally in self.tallies.items()}


def mean_access_time_seconds(servers: list[DemoServer], tallies: dict[str, Tally]) -> float:
    """Σ wᵢfᵢEATᵢ / Σ wᵢfᵢ, as measured."""
    seconds = sum(server.weight * tallies[server.name].access_seconds for server in servers)
    return seconds / sum(server.weight * tallies[server.name].requests for server in servers)


def run_half(
    name: str, servers: list[DemoServer], budget_bytes: int, adaptation: Adaptation
) -> HalfResult:
    """Start the servers with equal shares, and ``adaptation`` with them; replay, stop all again.

    Raises:
        RuntimeError, OSError: a server failed; everything is stopped.
    """
    result = HalfResult()
    with ExitStack() as stack:
        # YCSB's Redis client knows no Unix sockets.
        ports = {server.name: free_port() if server.ycsb else 0 for server in servers}
        share = {"bind": "127.0.0.1", "maxmemory": budget_bytes // len(servers)}
        running = stack.enter_context(
            running_servers({name: {"port": port, **share} for name, port in ports.items()})
        )
        stack.enter_context(adaptation(running))
        ours = {
            server.name: stack.enter_context(
                LookAsideClient(
                    running[server.name].url, cache_latency_seconds=CACHE_LATENCY_SECONDS
                )
            )
            for server in servers
            if not server.ycsb
        }
        stop = threading.Event()
        pool = stack.enter_context(ThreadPoolExecutor(len(servers)))
        stack.callback(stop.set)
        replays = [
            pool.submit(
                replay,
                server.load,
                ours[server.name],
                rate_per_second=server.rate_per_second,
                stop=stop,
            )
            for server in servers
            if not server.ycsb
        ]
        clients: dict[str, _Client] = dict(ours)
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spreds-ycsb-")))
        for server in servers:
            if server.ycsb:
                # Begun last: where all ends early, it is ended first, and nobody waits for it.
                client = stack.enter_context(
                    running_ycsb(server.ycsb, ports[server.name], logs / server.name)
                )
                clients[server.name] = client
                replays.append(pool.submit(client.wait))
        watch = _Watch(name, running, {one.name: clients[one.name] for one in servers}, result)
        while not all(done.done() for done in replays):
            watch.look()
            time.sleep(WATCH_SECONDS)
            for failed in replays:
                if failed.done():
                    failed.result()
        watch.look(last=True)
    return result


class _Watch:
    """Reads the servers' sizes and the clients' tallies, and shows progress."""

    def __init__(
        self,
        name: str,
        running: dict[str, LocalServer],
        clients: dict[str, _Client],
        result: HalfResult,
    ) -> None:
        self._name = name
        self._running = running
        self._clients = clients
        self._result = result
        self._began = time.monotonic()
        self._sampled_at = 0.0
        self._line_at = 0.0
        self._tallies = {server: Tally() for server in clients}

    def look(self, last: bool = False) -> None:
        sizes = settled_sizes(self._running)
        result = self._result
        result.max_total_maxmemory_bytes = max(
            result.max_total_maxmemory_bytes, sum(sizes.values())
        )
        seconds = time.monotonic() - self._began
        if seconds - self._sampled_at < SAMPLE_SECONDS and not last:
            return
        self._sampled_at = seconds
        tallies = {name: client.tally.copy() for name, client in self._clients.items()}
        recent = {
            name: tally.minus(self._tallies[name]).hit_ratio for name, tally in tallies.items()
        }
        self._tallies = tallies
        result.samples.append(Sample(seconds, sizes, recent, tallies))
        self._show(seconds, sizes, recent, last)

    def _show(
        self, seconds: float, sizes: dict[str, int], recent: dict[str, float], last: bool
    ) -> None:
        on_terminal = sys.stderr.isatty()
        if not on_terminal and seconds - self._line_at < LINE_SECONDS and not last:
            return
        self._line_at = seconds
        parts = [
            f"{name} {sizes[name] / (1 << 20):5.1f} MiB, hits {percent(recent[name]):>6}"
            for name in sizes
        ]
        line = f"{self._name:6} {seconds:4.0f} s | " + " | ".join(parts)
        sys.stderr.write(f"\r{line}\x1b[K" if on_terminal else f"{line}\n")
        if on_terminal and last:
            sys.stderr.write("\n")
        sys.stderr.flush()


def kept_gain(
    servers: list[DemoServer], budget_bytes: int, static: HalfResult, spreds: HalfResult
) -> dict[str, Any]:
    """Tell what gain was kept, of the whole load and of its second half (``late``).

    What was kept is the measured difference to equal shares. What was possible is that of exact
    LRU between equal shares and the best sizes for each half of the load.

    Returns:
        ``possible_ms`` and ``kept_ratio``, ``late_possible_ms`` and ``late_kept_ratio``; a ratio is
        ``None`` where nothing could be gained. ``has_drawn_load``: what was possible is that of a
        load drawn as YCSB draws.
    """
    mix = mix_of_halves(
        "demo",
        budget_bytes,
        [MixServer(one.name, one.weight, one.backend_latency_seconds, ()) for one in servers],
    )
    oracle = Oracle(mix, [requests_of(one.load) for one in servers])
    equal = oracle.outcome(np.full((2, len(servers)), budget_bytes // len(servers)))
    best = oracle.best_of_each_window()
    result: dict[str, Any] = {"has_drawn_load": any(one.ycsb for one in servers)}
    for prefix, first, before, after in (
        ("", 0, static.tallies, spreds.tallies),
        ("late_", 1, static.late_tallies, spreds.late_tallies),
    ):
        possible = equal.access_seconds(first) - best.access_seconds(first)
        kept = mean_access_time_seconds(servers, before) - mean_access_time_seconds(servers, after)
        result[f"{prefix}possible_ms"] = possible * 1000
        result[f"{prefix}kept_ratio"] = kept / possible if possible > 0 else None
    return result


def kept_in_words(kept: dict[str, Any]) -> str:
    """A sentence without its full stop."""
    if kept["kept_ratio"] is None or kept["late_kept_ratio"] is None:
        return "Other sizes than equal ones could have gained nothing"
    ratios = kept["kept_ratio"], kept["late_kept_ratio"]
    words = (
        f"SPREDS kept {percent(ratios[0])} of what the best sizes for each half of the "
        f"load would have gained, and {percent(ratios[1])} in the second half"
    )
    if kept["has_drawn_load"]:
        words += (
            "; the best sizes are those of a load drawn as YCSB draws, which does not tell its "
            "keys, so that it can be more than 100 %"
        )
    elif max(ratios) > 1:
        words += (
            "; more than 100 %, for what was kept is measured, and what the best sizes would have "
            "gained is computed, for exact LRU"
        )
    return words


def mix_of_halves(name: str, budget_bytes: int, servers: Sequence[MixServer]) -> Mix:
    """Make a mix for an oracle that knows two halves' requests, as ``requests_of`` has them."""
    return Mix(
        name=name,
        description="",
        budget_bytes=budget_bytes,
        cycles=2,
        cycle_seconds=1.0,
        changes=True,
        targets=Targets(),
        servers=tuple(servers),
    )


def requests_of(load: Load) -> Requests:
    """The two halves of a load, with what its objects take in a server."""
    _, places, keys = np.unique(load.keys, return_index=True, return_inverse=True)
    sizes = allocated_bytes(np.array(load.sizes_bytes)[places])
    return Requests(np.array_split(keys.astype(np.int64), 2), sizes.astype(np.uint32))


def allocated_bytes(sizes_bytes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return what the allocator gives for sizes: it has four of them between powers of two.

    Without it the exact curves would promise a tenth more room than there is.
    """
    exponents = np.ceil(np.log2(np.maximum(8, sizes_bytes))).astype(np.int64)
    steps = np.left_shift(1, exponents - 3)
    return -(-sizes_bytes // steps) * steps
