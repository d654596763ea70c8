"""A node whose applications are YCSB processes: a server each, equal shares or SPREDS."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from workloads.experiment.study import StudyError
from workloads.local_server import free_port, running_servers, settled_sizes
from workloads.lookaside import Tally
from workloads.node_programs import NodeServer, NodeSettings, moves_in, running_sidecar
from workloads.ycsb.client import YcsbClient, YcsbError, YcsbLoad, running_ycsb


@dataclass(frozen=True)
class Application:
    """A server, and what YCSB asks of it."""

    name: str
    load: YcsbLoad


@dataclass(frozen=True)
class Played:
    """What one run measured of one application.

    Attributes:
        whole, late: reads of the whole run, and of what came after ``settle_seconds``.
        late_percentiles_seconds: access time of the late ones.
        asked_reads_per_second: what the load asks for, the same in all ways.
        maxmemory_bytes: at the end.
    """

    whole: Tally
    late: Tally
    late_percentiles_seconds: dict[str, float]
    asked_reads_per_second: float
    operations_per_second: float
    maxmemory_bytes: int


@dataclass(frozen=True)
class Run:
    """Holds all applications of one run, by name; ``moves``: plans that changed sizes."""

    applications: dict[str, Played]
    moves: int

    @property
    def late_access_seconds(self) -> float:
        """Return the mean over late reads: (8.1), all servers of one weight, f as it is asked for.

        By the reads that a run happened to make, two runs would weigh the applications otherwise.
        """
        return self._mean(lambda tally: tally.effective_access_time_seconds)

    @property
    def late_hit_ratio(self) -> float:
        """Return the hit ratio of late reads, each application in the same proportion."""
        return self._mean(lambda tally: tally.hit_ratio)

    def _mean(self, of: Callable[[Tally], float]) -> float:
        played = self.applications.values()
        return sum(one.asked_reads_per_second * of(one.late) for one in played) / sum(
            one.asked_reads_per_second for one in played
        )


def play(
    applications: Sequence[Application], budget_bytes: int, cycle_seconds: float | None
) -> Run:
    """Play all of them at once, from empty caches; equal shares if ``cycle_seconds`` is ``None``.

    Raises:
        StudyError: YCSB cannot be built, or failed.
        RuntimeError, OSError: a server or the sidecar failed.
    """
    with tempfile.TemporaryDirectory(prefix="spreds-ycsb-") as name, ExitStack() as stack:
        folder = Path(name)
        ports = {one.name: free_port() for one in applications}
        share = {"bind": "127.0.0.1", "maxmemory": budget_bytes // len(applications)}
        running = stack.enter_context(
            running_servers({name: {"port": port, **share} for name, port in ports.items()})
        )
        if cycle_seconds is not None:
            node = NodeSettings(
                [NodeServer(a.name, 1.0, a.load.backend_latency_seconds) for a in applications],
                budget_bytes,
                cycle_seconds,
                cycle_seconds / 60,
            )
            stack.enter_context(running_sidecar(node, running, folder))
        try:
            clients = {
                one.name: stack.enter_context(
                    running_ycsb(one.load, ports[one.name], folder / f"{one.name}.log")
                )
                for one in applications
            }
            for client in clients.values():
                client.wait()
        except YcsbError as error:
            raise StudyError(str(error)) from error
        sizes = settled_sizes(running)
        return Run(
            {one.name: _played(one, clients[one.name], sizes[one.name]) for one in applications},
            0 if cycle_seconds is None else moves_in(folder),
        )


def _played(application: Application, client: YcsbClient, maxmemory_bytes: int) -> Played:
    load = application.load
    assert load.rate_per_second is not None
    early = [window for window in client.windows if window.seconds <= load.settle_seconds + 0.5]
    before = early[-1].tally if early else Tally()
    return Played(
        client.tally,
        client.tally.minus(before),
        client.settled_seconds,
        load.rate_per_second * load.read_ratio,
        client.summary["OVERALL"]["Throughput(ops/sec)"],
        maxmemory_bytes,
    )
