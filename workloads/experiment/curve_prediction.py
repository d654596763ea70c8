"""One server of one size sees a load, and predicts the miss ratios of servers of other sizes."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.remembered import CYCLE
from sidecar.samples.receiver import SampleReceiver
from sidecar.samples.wire_format import DEFAULT_MODULUS
from sidecar.servers.server_reading import ServerReading
from workloads.experiment.curve_cases import WARM_SHARE
from workloads.experiment.fast_replay import FastServer, Load, replay

FORMS = ("raw", "corrected", "anchored")
REQUESTS_PER_SECOND = 1000.0
_BUDGET_SHARE = 1.3
_UNLIMITED_BYTES = 1 << 40

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SampledBinary:
    """A server, and the module that samples it; ``None``: it is patched."""

    name: str
    binary: Path
    module: Path | None

    def settings(self, salt: int, endpoint: str) -> dict[str, object]:
        """So that it samples every key from the start."""
        load: dict[str, object] = {"loadmodule": self.module} if self.module else {}
        prefix = "spreds." if self.module else "spreds-"
        # Of these small working sets every key is sent, and the monitor keeps 8,192 of them.
        knobs = {"threshold": DEFAULT_MODULUS, "salt": salt, "endpoint": endpoint}
        return load | {f"{prefix}{name}": value for name, value in knobs.items()}


@dataclass(frozen=True)
class Run:
    """What one server measured and predicted after it was warm.

    Attributes:
        sizes_bytes: ``maxmemory`` of all servers of the case, and where curves were read.
        measured: its own miss ratio, by its own counters.
        predicted: for each of ``FORMS`` the miss ratios at ``sizes_bytes``.
        curve: points of the anchored curve, (bytes, miss ratio).
        curve_error_ratio, drift_ratio, sampled_objects: as in ``Estimate``.
        dropped: samples that did not arrive.
    """

    sizes_bytes: list[int]
    measured: float
    predicted: list[list[float]]
    curve: list[tuple[float, float]]
    curve_error_ratio: float
    drift_ratio: float
    sampled_objects: int
    dropped: int


class _Window:
    """A server under load with its samples going to a monitor."""

    def __init__(self, server: FastServer, receiver: SampleReceiver, budget_bytes: int) -> None:
        # Nothing fades, so that the curve stands for the time that is measured.
        self.monitor = ServerMonitor("experiment", cycle_seconds=1e12)
        self._server = server
        self._receiver = receiver
        self._budget_bytes = budget_bytes
        self.received = 0

    def wait_for_connection(self) -> None:
        """Return when the server's first batch is here: earlier ones are dropped."""
        deadline = time.monotonic() + 5
        while not self._receiver.receive(0.01) and time.monotonic() < deadline:
            self._server.advance(1.0)  # its next heartbeat

    def drain(self) -> None:
        while batches := self._receiver.receive(0.0):
            for batch in batches:
                self.received += len(batch.records)
                self.monitor.take(batch)

    def read(self) -> ServerReading:
        """The server's state, when the buffers of its clients have gone."""
        self._server.settle()
        deadline = time.monotonic() + 5
        while self.lost() and time.monotonic() < deadline:
            time.sleep(0.01)
            self.drain()
        client = self._server.client
        config = {str(key): str(value) for key, value in client.config_get("*").items()}
        seconds, microseconds = client.time()
        info = client.info("default", "commandstats")
        return ServerReading.parse(info, config, seconds + microseconds / 1e6)

    def lost(self) -> int:
        """Samples that the server made and that are not here (yet)."""
        counters = self._server.client.info("spreds")
        return int(counters["spreds_sampled"]) - self.received


def working_set(load: Load, binary: Path) -> tuple[int, int]:
    """Bytes that count for ``maxmemory`` before and after ``load``, if nothing is evicted or
    expires."""
    forever = Load(load.name, load.keys, load.sizes_bytes, np.zeros(len(load.sizes_bytes)))
    with FastServer({"maxmemory": _UNLIMITED_BYTES}, binary) as server:
        replay(server, forever, REQUESTS_PER_SECOND, lambda: None)
        server.settle()
        info = server.client.info("default", "commandstats")
        stats = ServerReading.parse(info, {}, 0.0)
    return stats.baseline_bytes, stats.counted_bytes


def measure(
    policy: str, load: Load, chosen: SampledBinary, sizes_bytes: list[int], place: int, salt: int
) -> Run:
    """Replay ``load`` into a server of ``sizes_bytes[place]``; curve and counters are those of the
    last three quarters of it."""
    budget_bytes = round(_BUDGET_SHARE * sizes_bytes[-1])
    with (
        tempfile.TemporaryDirectory(prefix="spreds-curves-") as folder,
        SampleReceiver(f"ipc://{folder}/samples") as receiver,
        FastServer(
            {
                "maxmemory": sizes_bytes[place],
                "maxmemory-policy": policy,
                **chosen.settings(salt, receiver.endpoint),
            },
            chosen.binary,
        ) as server,
    ):
        window = _Window(server, receiver, budget_bytes)
        monitor = window.monitor
        window.wait_for_connection()
        monitor.observe(window.read(), budget_bytes)
        warm_end = round(WARM_SHARE * len(load.keys))
        replay(server, load.part(0, warm_end), REQUESTS_PER_SECOND, window.drain)
        warm = window.read()
        monitor.observe(warm, budget_bytes)
        monitor.forget()
        rest = load.part(warm_end, len(load.keys))
        replay(server, rest, REQUESTS_PER_SECOND, window.drain)
        last = window.read()
        dropped = window.lost()
    hits = last.keyspace_hits - warm.keyspace_hits
    misses = last.keyspace_misses - warm.keyspace_misses
    estimate = monitor.observe(last, budget_bytes)
    assert estimate is not None
    corrected = estimate.raw_curve.miss_ratio(sizes_bytes)
    # Without the correction, sampled reads are all reads there are.
    histogram = monitor.counts.histogram
    sampled = float(histogram.counts.by(CYCLE).sum())
    factor = float(histogram.reads.by(CYCLE)) / max(1.0, sampled)
    forms = (np.minimum(1, corrected * factor), corrected, estimate.curve.miss_ratio(sizes_bytes))
    curve = estimate.curve
    return Run(
        sizes_bytes=sizes_bytes,
        measured=misses / (hits + misses),
        predicted=[form.tolist() for form in forms],
        curve=list(zip(curve.sizes_bytes.tolist(), curve.miss_ratios.tolist(), strict=True)),
        curve_error_ratio=estimate.curve_error_ratio,
        drift_ratio=estimate.drift_ratio,
        sampled_objects=estimate.sampled_objects,
        dropped=dropped,
    )
