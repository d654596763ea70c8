"""One server's monitor: samples in, an estimate of its miss-ratio curve out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidecar.anchoring import anchored
from sidecar.calibration import FIRST_OVERHEAD_BYTES, key_overhead_bytes, memory_per_key_bytes
from sidecar.curve_points import simplified
from sidecar.miss_ratio_histogram import EDGES_BYTES, MissRatioHistogram
from sidecar.samples import Batch
from sidecar.server_stats import ServerStats
from sidecar.shards import References, Shards
from solver_lambda.curve import MissRatioCurve

HALF_LIFE_SECONDS = 3600.0
# Objects deeper than the budget by this are dropped: sizes are only known about so well.
_DEPTH_MARGIN = 1.25
# Weights in the stack are put right when they are off by more.
_REWEIGH_RATIO = 0.01
_FULL_RATIO = 0.97
_FEWEST_SAMPLES = 100


@dataclass(frozen=True)
class Estimate:
    """What one window, and those before it, say of a server.

    Attributes:
        curve: miss ratio over ``maxmemory``, up to the budget.
        raw_curve: the same without anchoring.
        curve_error_ratio: expected absolute error of the curve's miss ratio.
        sampled_objects: live in the stack.
        mean_object_bytes: memory that a key takes, ``None`` if unknown.
        request_rate_per_second: reads, by the server's counters.
        miss_ratio: of the window, by the server's counters; ``None`` without reads.
        measured_backend_latency_seconds: ``None`` if no fill was seen.
        keep_reason: why this server's size must not change, or ``None``.
    """

    curve: MissRatioCurve
    raw_curve: MissRatioCurve
    curve_error_ratio: float
    sampled_objects: int
    mean_object_bytes: float | None
    request_rate_per_second: float
    miss_ratio: float | None
    window_seconds: float
    measured_backend_latency_seconds: float | None
    keep_reason: str | None


class ServerMonitor:
    """Follows one server across windows, and across its restarts.

    ``half_life_seconds``: after it, a read counts half in the curve. Recency is never reset, only
    the histogram fades. ``live_objects`` as for ``Shards``.
    """

    def __init__(
        self,
        name: str,
        *,
        live_objects: int | None = 8192,
        half_life_seconds: float = HALF_LIFE_SECONDS,
    ) -> None:
        self.name = name
        self.half_life_seconds = half_life_seconds
        self.shards = Shards(live_objects)
        self.histogram = MissRatioHistogram()
        self.overhead_bytes = FIRST_OVERHEAD_BYTES
        self.samples_since_observation = 0
        self._resident_bytes = 0.0
        self._object_bytes: float | None = None
        self._previous: ServerStats | None = None
        self._last: Batch | None = None
        self._faded_at_us: int | None = None

    def take(self, batch: Batch) -> None:
        """Take the next batch of this server."""
        last = self._last
        if last is not None and last.instance != batch.instance:
            # A restarted server is empty (or loaded a file, which is as unknown to us).
            self.shards.stack.clear()
            last = None
        self._fade(batch.last_time_us)
        references = self.shards.take(
            batch,
            self.overhead_bytes,
            round(self._object_bytes or 2 * FIRST_OVERHEAD_BYTES),
            self._resident_bytes,
        )
        if references.rate > 0:
            self.histogram.add(references.distances_bytes, 1 / references.rate, references.groups)
        self.histogram.reads += self._true_reads(last, batch, references)
        self.samples_since_observation += len(batch.records)
        self._last = batch

    def _fade(self, now_us: int) -> None:
        if self._faded_at_us is None:
            self._faded_at_us = now_us
        seconds = (now_us - self._faded_at_us) / 1e6
        if seconds > self.half_life_seconds / 100:
            self.histogram.decay(0.5 ** (seconds / self.half_life_seconds))
            self._faded_at_us = now_us

    def _true_reads(self, last: Batch | None, batch: Batch, references: References) -> float:
        """Reads that the batch stands for: by the server's count, less what went with lost
        batches. Of the first batch seen only its samples tell."""
        if last is None and batch.sequence:
            return len(references.distances_bytes) / references.rate if references.rate else 0.0
        reads, sampled = batch.seen_reads, batch.sampled
        if last is not None:
            reads -= last.seen_reads
            sampled -= last.sampled
        received = len(batch.records)
        share = received / sampled if sampled > received else 1.0
        return max(0, reads) * share

    def observe(self, stats: ServerStats, budget_bytes: int) -> Estimate | None:
        """Close the window that the previous call opened; the first call only opens one.

        ``budget_bytes`` is how far the curve must reach. ``None`` also after a restart of the
        server, and when the window has no length.
        """
        previous, self._previous = self._previous, stats
        self.samples_since_observation = 0
        self._resident_bytes = max(0.0, float(stats.used_memory_bytes - stats.baseline_bytes))
        self._calibrate(stats)
        self.shards.forget_below(_DEPTH_MARGIN * budget_bytes)
        if previous is None or previous.instance != stats.instance:
            return None
        window = stats.at_seconds - previous.at_seconds
        if window <= 0:
            return None
        hits = stats.keyspace_hits - previous.keyspace_hits
        misses = stats.keyspace_misses - previous.keyspace_misses
        if hits < 0 or misses < 0:  # CONFIG RESETSTAT
            hits, misses = stats.keyspace_hits, stats.keyspace_misses
        observed = misses / (hits + misses) if hits + misses else None
        raw = self.histogram.miss_ratios()
        at = _edge_of(stats.maxmemory_bytes - stats.baseline_bytes)
        settled = (
            stats.maxmemory_bytes == previous.maxmemory_bytes
            and stats.used_memory_bytes >= _FULL_RATIO * stats.maxmemory_bytes > 0
            and previous.used_memory_bytes >= _FULL_RATIO * stats.maxmemory_bytes
        )
        ratios = raw
        if observed is not None and settled:
            ratios = anchored(raw, float(raw[at]), observed)
        return Estimate(
            curve=_as_curve(ratios, stats.baseline_bytes, budget_bytes),
            raw_curve=_as_curve(raw, stats.baseline_bytes, budget_bytes),
            curve_error_ratio=float(min(1.0, self.histogram.standard_errors()[at])),
            sampled_objects=len(self.shards.stack),
            mean_object_bytes=self._object_bytes,
            request_rate_per_second=(hits + misses) / window,
            miss_ratio=observed,
            window_seconds=window,
            measured_backend_latency_seconds=None,
            keep_reason=self._keep_reason(stats),
        )

    def _calibrate(self, stats: ServerStats) -> None:
        self._object_bytes = memory_per_key_bytes(stats) or self._object_bytes
        overhead = key_overhead_bytes(stats, self.shards, self.overhead_bytes)
        if overhead is None or self._object_bytes is None:
            return
        more = overhead - self.overhead_bytes
        if abs(more) > _REWEIGH_RATIO * self._object_bytes:
            before = max(1.0, self._object_bytes - more)
            self.histogram.stretch(self._object_bytes / before)
            self.shards.reweigh(more)
            self.overhead_bytes = overhead

    def _keep_reason(self, stats: ServerStats) -> str | None:
        if stats.role != "master":
            return f"replica: role is {stats.role}, and a replica ignores maxmemory"
        if stats.maxmemory_policy == "noeviction":
            return "noeviction: a smaller maxmemory would make writes fail"
        if stats.maxmemory_policy not in ("allkeys-lru", "volatile-lru"):
            return f"no_model: for maxmemory-policy {stats.maxmemory_policy}"
        if self.histogram.samples < _FEWEST_SAMPLES:
            return f"few_samples: {self.histogram.samples:.0f} reads sampled so far"
        return None


def _edge_of(size_bytes: float) -> int:
    """Index of the histogram's edge nearest below ``size_bytes``, 0 at least."""
    return max(0, int(np.searchsorted(EDGES_BYTES, size_bytes, side="right")) - 1)


def _as_curve(
    miss_ratios: np.ndarray[tuple[int], np.dtype[np.float64]],
    baseline_bytes: int,
    budget_bytes: int,
) -> MissRatioCurve:
    """Miss ratios at the edges as a curve over ``maxmemory``, up to ``budget_bytes``."""
    sizes = np.concatenate(([0.0], EDGES_BYTES)) + baseline_bytes
    ratios = np.concatenate(([1.0], miss_ratios))
    within = sizes < budget_bytes
    end = np.interp(budget_bytes, sizes, ratios)
    sizes = np.append(sizes[within], float(budget_bytes))
    ratios = np.append(ratios[within], end)
    return simplified(sizes, ratios)
