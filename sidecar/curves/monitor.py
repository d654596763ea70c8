"""One server's monitor: samples in, an estimate of its miss-ratio curve out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sidecar.curves.anchoring import Anchor
from sidecar.curves.backend_latency import BackendLatency
from sidecar.curves.calibration import FIRST_OBJECT_BYTES, Calibration
from sidecar.curves.curve_points import curve_through
from sidecar.curves.estimate import Estimate as Estimate
from sidecar.curves.lifetimes import Corrections, Lifetimes, TimedAccesses
from sidecar.curves.miniature_simulation import EvictionSettings, MiniatureSimulation
from sidecar.curves.miss_ratio_histogram import EDGES_BYTES, MissRatioHistogram
from sidecar.curves.references import References, object_ids
from sidecar.curves.shards import Shards
from sidecar.curves.warm_up import BLOCK_READS, WarmUp
from sidecar.samples.batch import FLAG_TTL, Batch
from sidecar.servers.reading_window import ReadingWindow
from sidecar.servers.server_reading import ServerReading
from solver_lambda.planning.quiet import QUIET_READS

FloatArray = npt.NDArray[np.float64]

HALF_LIFE_SECONDS = 3600.0
# Modelled as exact LRU, whatever maxmemory-samples is: against the usual 5, 3 raised the miss ratio
# by 0.0040 at most, and 10 lowered it by 0.0022 at most (Redis 7.0.15; Twitter, orm-busy and Zipf
# 0.99; 10 and 40 % of the working set). At the present size the anchor knows of it.
STACK_POLICIES = ("allkeys-lru", "volatile-lru")
SIMULATED_POLICIES = ("allkeys-lfu",)
# Objects deeper than the budget by this are dropped: sizes are only known about so well.
_DEPTH_MARGIN = 1.25
# Weights in the stack are put right when they are off by more.
_REWEIGH_RATIO = 0.01
_FULL_RATIO = 0.97
_FEWEST_SAMPLES = 100
# Of the reads that the sampler saw: if the server counts fewer, its counters were put back.
_RESET_SHARE = 0.9
# Of the present size: how far down a plan may be expected to go.
_LEAST_SHARE = 0.1
# From the budget down, a fifth smaller each: to 1/256 of it.
_SIMULATED_SHARES = np.geomspace(1 / 256, 1, 31)


class ServerMonitor:
    """Follows one server across windows, and across its restarts.

    ``half_life_seconds``: after it, a read counts half in the curve. Recency is never reset, only
    what was counted fades. ``live_objects`` as for ``Shards``.
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
        self.calibration = Calibration()
        self.latency = BackendLatency()
        self.anchor = Anchor()
        self.lifetimes = Lifetimes()
        self.samples_since_observation = 0
        self.warm_up = WarmUp(half_life_seconds)
        # Reads sampled under the present policy.
        self._samples_taken = 0
        self._successor: Shards | None = None
        self._successor_since_us = 0
        self._previous: ServerReading | None = None
        self._last: Batch | None = None
        self._faded_at_us: int | None = None
        self._depth_bytes = self._resident_bytes = np.inf
        self._window_misses = self._window_reads = 0.0

    def take(self, batch: Batch) -> None:
        """Take the next batch of this server."""
        last = self._last
        if last is not None and last.instance != batch.instance:
            # A restarted server is empty (or loaded a file, which is as unknown to us).
            self.shards.clear()
            self.latency.clear_pending()
            self.lifetimes.keep_only(())
            self._successor = last = None
        self._fade(batch.last_time_us)
        self.shards.expire(self.lifetimes.due(batch.first_time_us / 1e6))
        references = self._references(self.shards, batch)
        corrections = self._expiries(references, batch)
        if self._successor is not None:
            self._references(self._successor, batch)
        self._samples_taken += len(references.distances_bytes)
        if references.rate > 0:
            weight = 1 / references.rate
            self.histogram.add(references.distances_bytes, weight, references.ids)
            missed = int(np.count_nonzero(references.distances_bytes > self._depth_bytes))
            if corrections is not None:
                self.histogram.move(corrections, weight)
                missed += sum(size > self._depth_bytes for size, _ in corrections.added)
                missed -= sum(size > self._depth_bytes for size, _ in corrections.removed)
            self._window_misses += weight * missed
        reads = self._true_reads(last, batch, references)
        self.histogram.reads += reads
        self._window_reads += reads
        self.warm_up.take(
            len(references.distances_bytes), references.unseen_hits, batch.last_time_us
        )
        self._warm_up()
        self.latency.take(batch)
        self.samples_since_observation += len(batch.records)
        self._last = batch

    def _references(self, shards: Shards, batch: Batch) -> References:
        known = self.calibration
        default_bytes = round(known.object_bytes or FIRST_OBJECT_BYTES)
        return shards.take(batch, known.overhead_bytes, default_bytes, known.keys_bytes)

    def _expiries(self, references: References, batch: Batch) -> Corrections | None:
        """What TTLs change in the distances; ``None`` if no object has one."""
        records = references.records
        has_ttl = (records["flags"] & FLAG_TTL) != 0
        if not len(self.lifetimes) and not np.any(has_ttl):
            return None
        accesses = TimedAccesses(
            object_ids(records).tolist(),
            records["operation"].tolist(),
            has_ttl.tolist(),
            references.distances_bytes.tolist(),
            (batch.first_time_us + batch.last_time_us) / 2e6,
        )
        return self.lifetimes.take(accesses, self._resident_bytes)

    def _fade(self, now_us: int) -> None:
        if self._faded_at_us is None or now_us < self._faded_at_us:
            self._faded_at_us = now_us  # also when the machine's clock steps back
        seconds = (now_us - self._faded_at_us) / 1e6
        if seconds > self.half_life_seconds / 100:
            self.decay(0.5 ** (seconds / self.half_life_seconds))
            self._faded_at_us = now_us

    def decay(self, factor: float) -> None:
        """Let all that was counted so far count ``factor`` times as much."""
        self.latency.decay(factor)
        self._decay_curve(factor)

    def _decay_curve(self, factor: float) -> None:
        self.histogram.decay(factor)
        self.anchor.decay(factor)
        if self.shards.simulation is not None:
            self.shards.simulation.misses *= factor

    def _warm_up(self, least_reads: int = BLOCK_READS) -> None:
        """Forget what was counted by guesses."""
        if self.warm_up.must_forget(least_reads):
            self._decay_curve(0.0)
            if self.shards.simulation is not None:
                self.shards.simulation.take_window()
            self._samples_taken = 0
            self._window_misses = self._window_reads = 0.0

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

    def observe(
        self, reading: ServerReading, budget_bytes: int, window: ReadingWindow | None = None
    ) -> Estimate | None:
        """Close the window that the previous call opened; the first call only opens one.

        ``budget_bytes`` is how far the curve must reach, ``window`` what was read of the server
        meanwhile. ``None`` also after a restart of the server, and when no time has passed.
        """
        self._warm_up(_FEWEST_SAMPLES)
        previous, self._previous = self._previous, reading
        window_misses, self._window_misses = self._window_misses, 0.0
        window_reads, self._window_reads = self._window_reads, 0.0
        depth_bytes, self.samples_since_observation = self._depth_bytes, 0
        self._calibrate(reading)
        self._follow_policy(reading, budget_bytes)
        self.shards.forget_below(_DEPTH_MARGIN * budget_bytes)
        self._widen()
        self.lifetimes.keep_only(self.shards.stack)
        self.lifetimes.distribution.refresh(reading.average_ttl_seconds)
        if self.shards.volatile:
            self.shards.know_pinned(reading.keys - reading.keys_with_ttl)
        baseline = window.usual_baseline_bytes if window else reading.baseline_bytes
        empty_bytes = self.calibration.empty_bytes(baseline)
        self._depth_bytes = max(0.0, float(reading.maxmemory_bytes - empty_bytes))
        simulation = self.shards.simulation
        if simulation is not None:
            window_misses = float(
                np.interp(depth_bytes, simulation.sizes_bytes, simulation.take_window())
            )
        is_full = reading.counted_bytes >= _FULL_RATIO * reading.maxmemory_bytes > 0
        self._resident_bytes = self._depth_bytes if is_full else np.inf
        if previous is None or previous.instance != reading.instance:
            return None
        seconds = reading.at_seconds - previous.at_seconds
        if seconds <= 0:
            return None
        hits = reading.keyspace_hits - previous.keyspace_hits
        misses = reading.keyspace_misses - previous.keyspace_misses
        if min(hits, misses) < 0 or hits + misses < _RESET_SHARE * window_reads:
            # CONFIG RESETSTAT: since the last one there is less, but of one kind.
            hits, misses = reading.keyspace_hits, reading.keyspace_misses
            scale = max(1.0, window_reads / max(1, hits + misses))
            hits, misses = round(hits * scale), round(misses * scale)
        reads = hits + misses
        if reads and window_reads and _was_full(previous, reading):
            self.anchor.add(misses, window_misses / window_reads * reads, reads)
        depths, raw = self._miss_ratios()
        swing_bytes = window.baseline_swing_bytes if window else 0
        error = self._error_ratio(budget_bytes, raw, swing_bytes)
        keep_reason = self._keep_reason(reading, reads)
        if keep_reason is not None and reads and self._samples_taken < _FEWEST_SAMPLES:
            # All that is known is what the server says of the size that it has.
            raw = np.full(len(depths), misses / reads)
        return Estimate(
            curve=curve_through(empty_bytes, depths, self.anchor.anchored(raw), budget_bytes),
            raw_curve=curve_through(empty_bytes, depths, raw, budget_bytes),
            curve_error_ratio=error,
            drift_ratio=self.anchor.drift_ratio,
            sampled_objects=len(self.shards),
            mean_object_bytes=self.calibration.object_bytes,
            request_rate_per_second=reads / seconds,
            miss_ratio=misses / reads if reads else None,
            window_seconds=seconds,
            measured_backend_latency_seconds=self.latency.mean_seconds,
            fill_ratio=self.latency.fill_ratio,
            unevictable_bytes=reading.baseline_bytes + round(self.shards.pinned_bytes),
            keep_reason=keep_reason,
        )

    def _calibrate(self, reading: ServerReading) -> None:
        heavier = round(self.calibration.look(reading, self.shards))
        weight = self.calibration.object_bytes
        if weight is not None and abs(heavier) > _REWEIGH_RATIO * weight:
            self.histogram.stretch(weight / max(1.0, weight - heavier))
            self.shards.reweigh(heavier)
            self.calibration.overhead_bytes += heavier

    def _follow_policy(self, reading: ServerReading, budget_bytes: int) -> None:
        volatile = reading.maxmemory_policy == "volatile-lru"
        if volatile != self.shards.volatile:
            # What was counted before belongs to another policy, and pinned keys have no history.
            self._decay_curve(0.0)
            self._samples_taken = 0
            self.warm_up = WarmUp(self.half_life_seconds)
            self.shards.volatile = volatile
        simulation = self.shards.simulation
        if reading.maxmemory_policy not in SIMULATED_POLICIES:
            self.shards.simulation = None
            return
        settings = EvictionSettings(
            True, reading.maxmemory_samples, reading.lfu_log_factor, reading.lfu_decay_time_minutes
        )
        sizes = _SIMULATED_SHARES * budget_bytes
        if simulation is None or simulation.settings != settings:
            # What was counted before belongs to another policy.
            self.decay(0.0)
            self._samples_taken = 0
            self.shards.simulation = MiniatureSimulation(sizes, settings)
            self.shards.simulation.set_rate(self.shards.rate)
        elif simulation.sizes_bytes[-1] != sizes[-1]:
            simulation.sizes_bytes = sizes
            simulation.set_rate(self.shards.rate)

    def _widen(self) -> None:
        """Raise the sampling rate when few objects are left, or the server's rate was raised.

        The objects of a higher rate have no history. So a successor learns beside the present
        stack, and takes its place when it has seen as much.
        """
        last, shards = self._last, self.shards
        if last is None or shards.threshold is None or shards.threshold >= last.threshold:
            self._successor = None
            return
        if self._successor is None:
            if shards.live_objects is None or len(shards) < shards.live_objects // 4:
                self._successor = Shards(shards.live_objects)
                self._successor_since_us = last.last_time_us
            return
        successor = self._successor
        successor.volatile = shards.volatile
        age_seconds = (last.last_time_us - self._successor_since_us) / 1e6
        seen_as_much = successor.rate > 0 and (
            successor.stack.total_weight / successor.rate
            >= 0.9 * shards.stack.total_weight / max(shards.rate, 1e-18)
        )
        if seen_as_much or age_seconds > self.half_life_seconds:
            successor.simulation, self._successor = shards.simulation, None
            if successor.simulation is not None:
                successor.simulation.set_rate(successor.rate)
            self.shards = successor

    def _miss_ratios(self) -> tuple[FloatArray, FloatArray]:
        """Depths in bytes, and the miss ratio of a server that holds so many bytes of keys."""
        simulation = self.shards.simulation
        if simulation is None:
            return EDGES_BYTES, self.histogram.miss_ratios()
        ratios = np.clip(simulation.misses / max(1.0, self.histogram.reads), 0.0, 1.0)
        return simulation.sizes_bytes, np.minimum.accumulate(ratios)

    def _error_ratio(self, budget_bytes: int, miss_ratios: FloatArray, swing_bytes: int) -> float:
        """See ``Estimate.curve_error_ratio``. ``swing_bytes`` is what there is less for keys at
        times than the curve says, of which half is counted."""
        # Somebody may have set a maxmemory far above the budget.
        least_bytes = min(_LEAST_SHARE * self._depth_bytes, budget_bytes)
        first, last = np.searchsorted(EDGES_BYTES, [least_bytes, budget_bytes])
        swing = 0.0
        if swing_bytes and self.shards.simulation is None:
            less = np.interp(np.maximum(EDGES_BYTES - swing_bytes, 0), EDGES_BYTES, miss_ratios)
            swing = float((less - miss_ratios)[first : last + 1].max()) / 2
        sampling = float(self.histogram.standard_errors()[first : last + 1].max())
        return min(1.0, max(sampling, abs(self.anchor.drift_ratio), swing))

    def _keep_reason(self, reading: ServerReading, reads: int) -> str | None:
        if fixed := reading.keep_reason():
            return fixed
        if reading.maxmemory_policy not in STACK_POLICIES + SIMULATED_POLICIES:
            return f"no_model: for maxmemory-policy {reading.maxmemory_policy}"
        # A server that is hardly read loses memory slowly, whatever is known of it: see the plan's
        # rules. What has faded since it was known is known well enough for that.
        if self.warm_up.is_on and reads >= QUIET_READS:
            return (
                f"warming_up: {self.warm_up.unseen_share:.0%} of the last reads were of keys that "
                "were there before the sampler"
            )
        if self._samples_taken < _FEWEST_SAMPLES and reads >= QUIET_READS:
            return f"few_samples: {self._samples_taken} reads sampled so far"
        return None


def _was_full(previous: ServerReading, reading: ServerReading) -> bool:
    """Whether the server stood at one ``maxmemory`` for the whole window, and used it."""
    size = reading.maxmemory_bytes
    least = min(previous.counted_bytes, reading.counted_bytes)
    return previous.maxmemory_bytes == size > 0 and least >= _FULL_RATIO * size
