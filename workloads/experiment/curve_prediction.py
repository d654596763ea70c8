"""One server of one size sees a load, and predicts the miss ratios of servers of other sizes."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.base.metrics import Metrics
from sidecar.curves.curve_points import curve_through
from sidecar.curves.decaying_counts import CYCLE, STEPS_A_CYCLE
from sidecar.curves.monitor import ServerMonitor
from sidecar.samples.endpoint import bind_endpoint
from sidecar.samples.wire_format import DEFAULT_MODULUS
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.curve import MissRatioCurve
from workloads.experiment.curve_cases import (
    LEARNT_SHARE,
    WARM_SHARE,
    Case,
    LookedSamples,
    SampleSource,
    SentSamples,
)
from workloads.experiment.fast_replay import FastServer, Load, Replay, replay

# As sampled; with the reads that were not sampled; looking ahead, as a plan is made of it; and bent
# to what the server says of its own size.
FORMS = ("raw", "corrected", "planned", "anchored")
REQUESTS_PER_SECOND = 1000.0
_BUDGET_SHARE = 1.3
_CYCLES_LEARNT = 2
# Samples are waited for after so many steps of the clock, but for those of a batch that is
# open (678 at most).
_STEPS_AHEAD = 20
_LEFT_IN_BATCH = 1000
_UNLIMITED_BYTES = 1 << 40

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SampledBinary:
    """A server, and the module that samples it; ``None``: it is patched, or ``is_looked_at`` from
    outside."""

    name: str
    binary: Path
    module: Path | None
    is_looked_at: bool = False

    def settings(self, salt: int, endpoint: str) -> dict[str, object]:
        """Return settings with which it samples every key from the start."""
        if self.is_looked_at:
            return {}
        load: dict[str, object] = {"loadmodule": self.module} if self.module else {}
        prefix = "spreds." if self.module else "spreds-"
        # Of these small working sets every key is sent, and the monitor keeps some of them.
        knobs: dict[str, object] = {
            "threshold": DEFAULT_MODULUS,
            "salt": salt,
            "endpoint": endpoint,
        }
        return load | {f"{prefix}{name}": value for name, value in knobs.items()}


class ToldPolicy(NamedTuple):
    """What is told of another policy, or of more samples; the error at the server's own size."""

    value: str
    miss_ratios: list[float]
    error_ratio: float


@dataclass(frozen=True)
class Run:
    """What one server measured and predicted after it was warm.

    Attributes:
        sizes_bytes: ``maxmemory`` of all servers of the case, and where curves were read.
        learnt: its own miss ratio while the curve was learnt, by its own counters, which fade as
            what the curve is made of.
        measured: the same of what came then.
        predicted: for each of ``FORMS`` the miss ratios at ``sizes_bytes``.
        curve: points of the anchored curve, (bytes, miss ratio).
        curve_error_ratio, drift_ratio, sampled_objects: as in ``Estimate``.
        dropped: samples that did not arrive.
        other_policies: what it is told to miss under them.
    """

    sizes_bytes: list[int]
    learnt: float
    measured: float
    predicted: list[list[float]]
    curve: list[tuple[float, float]]
    curve_error_ratio: float
    drift_ratio: float
    sampled_objects: int
    dropped: int
    other_policies: list[ToldPolicy]


class _Window:
    """A server under load with its samples going to a monitor."""

    def __init__(
        self, server: FastServer, load: Load, samples: SampleSource, monitor: ServerMonitor
    ) -> None:
        self.monitor = monitor
        self._server = server
        self._replay = Replay(server, load)
        self._steps = 0
        self.samples = samples
        self._counted = (0, 0)
        self.faded_reads = self.faded_misses = 0.0

    def drain(self) -> None:
        for batch in self.samples.batches(self.monitor.shards):
            self.monitor.take(batch)

    def _after_step(self) -> None:
        """The server must not be so far ahead that the queue between the two overflows."""
        self.drain()
        self._steps += 1
        if self._steps % _STEPS_AHEAD == 0:
            self._wait_for(_LEFT_IN_BATCH)

    def _wait_for(self, left: int) -> None:
        """Take samples until at most so many are missing; five seconds at most."""
        deadline = time.monotonic() + 5
        while self.samples.lost() > left and time.monotonic() < deadline:
            time.sleep(0.001)
            self.drain()

    def replay(self, first: int, last: int) -> None:
        """Send the load's requests from ``first`` to ``last`` and take their samples; the monitor
        steps as in a sidecar, and what the server counts fades beside."""
        step_seconds = self.monitor.cycle_seconds / STEPS_A_CYCLE
        parts = max(1, round((last - first) / REQUESTS_PER_SECOND / step_seconds))
        for start, end in pairwise(np.linspace(first, last, parts + 1).astype(int).tolist()):
            self._replay.send(start, end, REQUESTS_PER_SECOND, self._after_step)
            seconds = (end - start) / REQUESTS_PER_SECOND
            self.monitor.step(seconds)
            self._count(0.5 ** (seconds / self.monitor.cycle_seconds))

    def _count(self, factor: float) -> None:
        reading = self._reading()
        counted = reading.keyspace_hits, reading.keyspace_misses
        hits, misses = (now - then for now, then in zip(counted, self._counted, strict=True))
        self._counted = counted
        self.faded_reads = factor * self.faded_reads + hits + misses
        self.faded_misses = factor * self.faded_misses + misses

    def forget(self) -> None:
        """Begin as if nothing had been counted."""
        self.monitor.forget()
        self.faded_reads = self.faded_misses = 0.0

    def read(self) -> ServerReading:
        """The server's state, when the buffers of its clients have gone."""
        self._server.settle()
        self._wait_for(0)
        return self._reading()

    def _reading(self) -> ServerReading:
        client = self._server.client
        config = {str(key): str(value) for key, value in client.config_get("*").items()}
        seconds, microseconds = client.time()
        info = client.info("default", "commandstats")
        reading = ServerReading.parse(info, config, seconds + microseconds / 1e6)
        return self.samples.left_out(reading)


def working_set(load: Load, chosen: SampledBinary) -> tuple[int, int]:
    """Return bytes that count for ``maxmemory`` before and after ``load``, if nothing is evicted or
    expires; with the sampler at work, which takes memory, too."""
    forever = replace(load, ttls_seconds=np.zeros(len(load.sizes_bytes)))
    with (
        tempfile.TemporaryDirectory(prefix="spreds-curves-") as folder,
        FastServer(
            {"maxmemory": _UNLIMITED_BYTES, **chosen.settings(0, f"ipc://{folder}/nobody")},
            chosen.binary,
        ) as server,
    ):
        replay(server, forever, REQUESTS_PER_SECOND, lambda: None)
        server.settle()
        info = server.client.info("default", "commandstats")
        stats = ServerReading.parse(info, {}, 0.0)
    return stats.baseline_bytes, stats.counted_bytes


def measure(
    case: Case,
    load: Load,
    chosen: SampledBinary,
    sizes_bytes: list[int],
    place: int,
    salt: int,
    live_objects: int,
) -> Run:
    """Replay ``load`` into a server of ``sizes_bytes[place]``: warm it, learn a curve, and measure
    what comes then. What was counted fades as in a sidecar that plans every cycle; the time to
    learn has two of them."""
    budget_bytes = round(_BUDGET_SHARE * sizes_bytes[-1])
    warm_end = round(WARM_SHARE * len(load.keys))
    learnt_end = round((WARM_SHARE + LEARNT_SHARE) * len(load.keys))
    learn_seconds = (learnt_end - warm_end) / REQUESTS_PER_SECOND
    monitor = ServerMonitor(
        "experiment", live_objects=live_objects, cycle_seconds=learn_seconds / _CYCLES_LEARNT
    )
    with (
        tempfile.TemporaryDirectory(prefix="spreds-curves-") as folder,
        bind_endpoint(f"ipc://{folder}/samples", Metrics()) as receiver,
        FastServer(
            {
                "maxmemory": sizes_bytes[place],
                "maxmemory-policy": case.policy,
                "maxmemory-samples": case.samples,
                **chosen.settings(salt, f"ipc://{folder}/samples"),
            },
            chosen.binary,
        ) as server,
        ExitStack() as stack,
    ):
        samples: SampleSource = SentSamples(server, receiver)
        if chosen.is_looked_at:
            samples = LookedSamples(server, live_objects)
        stack.callback(samples.close)
        window = _Window(server, load, samples, monitor)
        samples.wait_for_connection()
        monitor.observe(window.read(), budget_bytes)
        window.replay(0, warm_end)
        monitor.observe(window.read(), budget_bytes)
        window.forget()
        for start, end in pairwise(
            np.linspace(warm_end, learnt_end, _CYCLES_LEARNT + 1).astype(int).tolist()
        ):
            window.replay(start, end)
            learnt = window.read()
            estimate = monitor.observe(learnt, budget_bytes)
        planned, correction = _looking_ahead(monitor, budget_bytes), _correction(monitor)
        learnt_ratio = window.faded_misses / window.faded_reads
        dropped = samples.lost()
        window.replay(learnt_end, len(load.keys))
        last = window.read()
    assert estimate is not None
    corrected = estimate.raw_curve.miss_ratio(sizes_bytes)
    forms = (
        np.minimum(1, corrected * correction),
        corrected,
        planned.miss_ratio(sizes_bytes),
        estimate.curve.miss_ratio(sizes_bytes),
    )
    curve = estimate.curve
    return Run(
        sizes_bytes=sizes_bytes,
        learnt=learnt_ratio,
        measured=_miss_ratio(learnt, last),
        predicted=[form.tolist() for form in forms],
        curve=list(zip(curve.sizes_bytes.tolist(), curve.miss_ratios.tolist(), strict=True)),
        curve_error_ratio=estimate.curve_error_ratio,
        drift_ratio=estimate.drift_ratio,
        sampled_objects=estimate.sampled_objects,
        dropped=dropped,
        other_policies=[
            ToldPolicy(
                one.value,
                one.curve.miss_ratio(sizes_bytes).tolist(),
                one.error_ratio(sizes_bytes[place]),
            )
            for one in estimate.other_policies
        ],
    )


def _looking_ahead(monitor: ServerMonitor, budget_bytes: int) -> MissRatioCurve:
    """Return what the monitor would say for a plan, of the memory that it has anyway."""
    counts = monitor.counts
    depths, ratios = counts.miss_ratios(CYCLE)
    ahead = counts.growth_margin.depths(depths)
    return curve_through(counts.empty_bytes, ahead, monitor.anchor.anchored(ratios), budget_bytes)


def _correction(monitor: ServerMonitor) -> float:
    """Return the factor that makes a miss ratio of all reads one of the sampled reads."""
    histogram = monitor.counts.histogram
    return float(histogram.reads.by(CYCLE)) / max(1.0, float(histogram.counts.by(CYCLE).sum()))


def _miss_ratio(begin: ServerReading, end: ServerReading) -> float:
    hits = end.keyspace_hits - begin.keyspace_hits
    misses = end.keyspace_misses - begin.keyspace_misses
    return misses / (hits + misses)
