"""Turns one server's samples into an estimate of its miss-ratio curve."""

from __future__ import annotations

import math

import numpy as np

from sidecar.config.sampling import LIVE_OBJECTS
from sidecar.curves.anchoring import Anchor
from sidecar.curves.backend_latency import BackendLatency
from sidecar.curves.batch_by_parts import Parts, references_of
from sidecar.curves.calibration import FIRST_OBJECT_BYTES, Calibration
from sidecar.curves.compiled_batch import CompiledBatch
from sidecar.curves.curve_error import least_depth_bytes, stated_error
from sidecar.curves.curve_points import FloatArray, curve_through
from sidecar.curves.curve_readiness import FEWEST_SAMPLES, unknown_reason
from sidecar.curves.decaying_counts import CYCLE, HalfLife
from sidecar.curves.estimate import Estimate as Estimate
from sidecar.curves.lifetimes import Lifetimes
from sidecar.curves.miniature_caches import EvictionSettings
from sidecar.curves.miniature_simulation import MiniatureSimulation, simulated_sizes
from sidecar.curves.other_policies import OtherPolicy, SimulatedLfu, other_policies
from sidecar.curves.policies import SIMULATED_POLICIES, VOLATILE_POLICIES, eviction_samples
from sidecar.curves.read_counts import ReadCounts
from sidecar.curves.served_reads import (
    ServedReads,
    batch_reads,
    is_full,
    read_rate,
    served_between,
    tells_of_its_size,
)
from sidecar.curves.shards import Shards
from sidecar.curves.unfilled_memory import UnfilledMemory
from sidecar.curves.warm_up import BLOCK_READS, WarmUp
from sidecar.curves.whole_databases import DatabaseNumbers
from sidecar.samples.batch import Batch
from sidecar.servers.connection.reading_window import ReadingWindow
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.curve import MissRatioCurve

# The successor knows enough when it has seen this share of what the present stack has seen, less so
# many standard errors of that: a few objects hardly tell how much it was.
_SEEN_SHARE, _ERRORS = 0.9, 2.0


class RateIncrease:
    """The objects of a higher rate have no history. So a successor learns beside the present stack,
    and takes its place when it has seen as much.

    Attributes:
        successor: takes the same batches as the present stack; ``None``: none is needed.
    """

    def __init__(self, half_life_seconds: float) -> None:
        self._half_life_seconds = half_life_seconds
        self._since_us = 0
        self.successor: Shards | None = None

    def give_up(self) -> None:
        """The server is empty, and the present stack as well."""
        self.successor = None

    def take(self, batch: Batch, parts: Parts) -> Shards:
        """Return the stack to go on with. The successor, if there is one, takes what the present
        one has taken."""
        shards = parts.shards
        if shards.threshold is None or shards.threshold >= batch.threshold:
            self.successor = None
            return shards
        if self.successor is None:
            if shards.live_objects is None or len(shards) < shards.live_objects // 4:
                self.successor = Shards(shards.live_objects)
                self._since_us = batch.last_time_us
            return shards
        successor = self.successor
        references_of(successor, batch, parts)
        successor.volatile = shards.volatile
        age_seconds = (batch.last_time_us - self._since_us) / 1e6
        if not self._has_seen_as_much(shards) and age_seconds <= self._half_life_seconds:
            return shards
        successor.simulation, self.successor = shards.simulation, None
        if successor.simulation is not None:
            successor.fit_simulation()
        return successor

    def _has_seen_as_much(self, shards: Shards) -> bool:
        successor = self.successor
        if successor is None or not successor.rate or len(successor) < len(shards):
            return False
        seen = successor.stack.total_weight / successor.rate
        share = max(0.0, _SEEN_SHARE - _ERRORS / math.sqrt(max(1, len(shards))))
        return seen >= share * shards.stack.total_weight / max(shards.rate, 1e-18)


# So many records per live object bring at most as many objects.
RECORDS_PER_OBJECT = 4


class ObjectsBeside:
    """Prunes lifetimes and simulated caches to the objects of the stack, after so many records
    that they may have become many. An observation prunes them as well, but may be an hour away."""

    def __init__(self, live_objects: int | None) -> None:
        self._most_records = RECORDS_PER_OBJECT * (live_objects or LIVE_OBJECTS)
        self._records = 0

    def take(self, records: int, shards: Shards, lifetimes: Lifetimes) -> None:
        """So many more have been taken."""
        self._records += records
        if self._records > self._most_records:
            self.prune(shards, lifetimes)
            shards.prune_simulation()

    def prune(self, shards: Shards, lifetimes: Lifetimes) -> None:
        """Forget lifetimes of objects that are not in the stack."""
        lifetimes.keep_only(shards.stack)
        self._records = 0


CYCLE_SECONDS = 3600.0
# Objects deeper than the budget by this are dropped: sizes are only known about so well.
_DEPTH_MARGIN = 1.25
# Weights in the stack are put right when they are off by more.
_REWEIGH_RATIO = 0.01


class ServerMonitor:
    """Follows one server across windows, and across its restarts.

    Recency is never reset, only what was counted fades, by each half-life. ``live_objects`` as
    for ``Shards``; ``cycle_seconds`` is the longest time between two plans.

    Attributes:
        counts: of its reads.
        samples_since_observation: of the window that is open.
        samples_taken: reads that were sampled under the present policy.
        last_batch, previous: the last that it took, and the reading that began the window.
    """

    def __init__(
        self,
        name: str,
        *,
        live_objects: int | None = LIVE_OBJECTS,
        cycle_seconds: float = CYCLE_SECONDS,
    ) -> None:
        self.name = name
        self.cycle_seconds = cycle_seconds
        self.shards = Shards(live_objects)
        self.counts = ReadCounts()
        self.calibration, self.latency = Calibration(), BackendLatency()
        self.anchor, self.lifetimes = Anchor(), Lifetimes()
        self._beside = ObjectsBeside(live_objects)
        self.samples_since_observation = self.samples_taken = 0
        self.warm_up = WarmUp(self.cycle_seconds)
        self._rate_increase, self._unfilled = RateIncrease(cycle_seconds), UnfilledMemory()
        self._lfu: SimulatedLfu | None = None
        self._databases, self._take = DatabaseNumbers(), CompiledBatch().take
        self.previous: ServerReading | None = None
        self.last_batch: Batch | None = None
        self._depth_bytes = self._resident_bytes = self._most_depth_bytes = np.inf
        self._window_misses = self._window_reads = 0.0

    def take(self, batch: Batch) -> None:
        """Take the next batch of this server."""
        last = self.last_batch
        if last is not None and last.population != batch.population:
            # A restarted server is empty, as far as is known; by another salt, others are sampled.
            self.shards.clear()
            self.latency.clear_pending()
            self.lifetimes.keep_only(())
            self._rate_increase.give_up()
            self.counts.growth_margin.forget()
            self._lfu = None
            last = last if last.instance == batch.instance else None
        parts, numbered = self._parts(), self._databases.numbered(batch)
        taken = self._take(numbered, parts)
        self.shards = self._rate_increase.take(numbered, parts)
        self.samples_taken += taken.reads
        self._window_misses += taken.missed
        reads = batch_reads(last, batch, taken.reads, taken.rate)
        self.counts.histogram.reads.new += reads
        self._window_reads += reads
        if self._lfu is not None:
            self._lfu.take(numbered, parts, reads)
        self.warm_up.take(taken.reads, taken.unseen_hits, batch.last_time_us)
        self._warm_up()
        self.samples_since_observation += len(batch.records)
        self._beside.take(len(batch.records), self.shards, self.lifetimes)
        self.last_batch = batch

    def _parts(self) -> Parts:
        return Parts(
            *(self.shards, self.lifetimes, self.counts, self.latency, self.calibration),
            *(self._depth_bytes, self._resident_bytes),
        )

    def step(self, seconds: float) -> None:
        """Close a step that took so long; until the next one, what comes is counted apart."""
        cycles = seconds / self.cycle_seconds
        self.counts.object_bytes = self.calibration.object_bytes or FIRST_OBJECT_BYTES
        self.counts.step(seconds, cycles)
        self.counts.rate = rate = self.shards.rate
        weight_bytes = self.shards.stack.total_weight / rate if rate else 0.0
        # Each observation drops deeper objects, and their return is no growth.
        self.counts.growth_margin.step(min(weight_bytes, self._most_depth_bytes), len(self.shards))
        self.counts.follow_eviction()
        self.latency.decay(0.5**cycles)
        self.anchor.decay(0.5**cycles)
        if self._lfu is not None:
            self._lfu.step(cycles)

    def forget(self) -> None:
        """Forget all reads that were counted."""
        self.counts.forget()
        self.anchor.decay(0.0)
        if self._lfu is not None:
            self._lfu.forget()

    def _warm_up(self, least_reads: int = BLOCK_READS) -> None:
        """Forget what was counted by guesses."""
        if self.warm_up.must_forget(least_reads):
            self.forget()
            if self.shards.simulation is not None:
                self.shards.simulation.take_window()
            self.samples_taken = 0
            self._window_misses = self._window_reads = 0.0

    def observe(
        self,
        reading: ServerReading,
        budget_bytes: int,
        window: ReadingWindow | None = None,
        half_life: HalfLife | None = None,
    ) -> Estimate | None:
        """Close the window that the previous call opened; the first call only opens one.

        ``budget_bytes`` is how far the curve must reach, ``window`` what was read of the server
        meanwhile. With a ``half_life`` its rate and curve are what is expected from now on. Without
        one they are what was in the last window, the curve with the windows before it. ``None``
        also after a restart of the server, and when no time has passed.
        """
        self._warm_up(FEWEST_SAMPLES)
        previous, self.previous = self.previous, reading
        window_misses, self._window_misses = self._window_misses, 0.0
        window_reads, self._window_reads = self._window_reads, 0.0
        depth_bytes, self.samples_since_observation = self._depth_bytes, 0
        self._tend_stack(reading, budget_bytes)
        baseline = window.usual_baseline_bytes if window else reading.baseline_bytes
        empty_bytes = self.counts.empty_bytes = self.calibration.empty_bytes(baseline)
        self._depth_bytes = max(0.0, float(reading.maxmemory_bytes - empty_bytes))
        if (simulation := self.shards.simulation) is not None:
            window_misses = simulation.take_window(depth_bytes)
        self._simulate_lfu(reading)
        evicts = is_full(reading)
        self._resident_bytes = self._depth_bytes if evicts else np.inf
        self.counts.know_eviction(
            eviction_samples(reading),
            self._depth_bytes if evicts else 0.0,
            self.shards.pinned_bytes,
        )
        self._unfilled.take_reading(previous, reading, window.most_used_bytes if window else 0)
        if previous is None or previous.instance != reading.instance:
            return None
        if (seconds := reading.at_seconds - previous.at_seconds) <= 0:
            return None
        served = served_between(previous, reading, window_reads)
        if served.reads and window_reads and tells_of_its_size(previous, reading):
            missed = window_misses / window_reads * served.reads
            self.anchor.add(served.misses, missed, served.reads)
            self._unfilled.compare(served, missed, self.shards.rate)
        if not self.counts.seconds.by(CYCLE):
            half_life = None  # no step is over: there is nothing to look ahead from
        swing = window.baseline_swing_bytes if window else 0
        return self._estimate(
            reading, served, window_reads, seconds, budget_bytes, swing, half_life
        )

    def _estimate(
        self,
        reading: ServerReading,
        served: ServedReads,
        window_reads: float,
        seconds: float,
        budget_bytes: int,
        swing_bytes: int,
        half_life: HalfLife | None,
    ) -> Estimate:
        depths, raw = self.counts.miss_ratios(half_life.shape if half_life else CYCLE)
        empty_bytes = self.counts.empty_bytes
        least = least_depth_bytes(self._depth_bytes, budget_bytes) + empty_bytes
        self.counts.end_window(least, budget_bytes, self.shards.rate)
        error = self._error(half_life, (depths, raw), budget_bytes, swing_bytes)
        keep_reason = unknown_reason(
            reading, self.warm_up, samples=self.samples_taken, served=served
        )
        if keep_reason and served.miss_ratio is not None and self.samples_taken < FEWEST_SAMPLES:
            # All that is known is what the server says of the size that it has.
            raw = np.full(len(depths), served.miss_ratio)
        ahead = self.counts.growth_margin.depths(depths) if half_life else depths
        remembered = self.counts.reads(half_life) if half_life else None
        curve = curve_through(empty_bytes, ahead, self.anchor.anchored(raw), budget_bytes)
        others = () if keep_reason else self._others(reading, half_life, budget_bytes)
        curve, enough_bytes = self._unfilled.agreed(curve, reading, self.cycle_seconds)
        self.counts.window_error.predict(curve)
        return Estimate(
            curve=curve,
            raw_curve=curve_through(empty_bytes, depths, raw, budget_bytes),
            curve_error_ratio=error,
            drift_ratio=self.anchor.drift_ratio,
            sampled_objects=len(self.shards),
            mean_object_bytes=self.calibration.object_bytes,
            request_rate_per_second=read_rate(served, window_reads, seconds, remembered),
            miss_ratio=served.miss_ratio,
            inserted_per_read=served.inserted_per_read,
            window_seconds=seconds,
            measured_backend_latency_seconds=self.latency.mean_seconds,
            fill_ratio=self.latency.fill_ratio,
            chance_ratio=self.latency.chance_ratio,
            pinned_bytes=round(self.shards.pinned_bytes),
            enough_bytes=enough_bytes,
            keep_reason=keep_reason,
            other_policies=others,
        )

    def _others(
        self, reading: ServerReading, half_life: HalfLife | None, budget_bytes: int
    ) -> tuple[OtherPolicy, ...]:
        def curve_of(depths: FloatArray, ratios: FloatArray) -> MissRatioCurve:
            ahead = self.counts.growth_margin.depths(depths) if half_life else depths
            return curve_through(
                self.counts.empty_bytes, ahead, self.anchor.anchored(ratios), budget_bytes
            )

        length = half_life.shape if half_life else CYCLE
        return other_policies(reading, self.counts, self._lfu, length, curve_of)

    def _error(
        self,
        half_life: HalfLife | None,
        curve: tuple[FloatArray, FloatArray],
        budget_bytes: int,
        swing_bytes: int,
    ) -> float:
        if half_life and (unknown := self.counts.growth_margin.error_ratio):
            return unknown
        return stated_error(
            self.counts,
            half_life.shape if half_life else CYCLE,
            curve,
            self.anchor.drift_ratio,
            depth_bytes=self._depth_bytes,
            budget_bytes=budget_bytes,
            swing_bytes=swing_bytes,
            first_share=self.shards.first_share(),
        )

    def _tend_stack(self, reading: ServerReading, budget_bytes: int) -> None:
        self._calibrate(reading)
        self._follow_policy(reading, budget_bytes)
        self._most_depth_bytes = _DEPTH_MARGIN * budget_bytes
        self.shards.forget_below(self._most_depth_bytes)
        self.shards.is_libc = reading.allocator == "libc"
        self._beside.prune(self.shards, self.lifetimes)
        self.lifetimes.refresh(reading.average_ttl_seconds)
        if self.shards.volatile:
            self.shards.know_pinned(reading.keys - reading.keys_with_ttl)
        self.shards.fit_simulation()

    def _calibrate(self, reading: ServerReading) -> None:
        heavier = round(self.calibration.take_reading(reading, self.shards))
        weight = self.calibration.object_bytes
        if weight is not None and abs(heavier) > _REWEIGH_RATIO * weight:
            self.counts.histogram.stretch(weight / max(1.0, weight - heavier))
            self.shards.reweigh(heavier)
            if self._lfu is not None:
                self._lfu.reweigh(heavier)
            self.calibration.overhead_bytes += heavier

    def _simulate_lfu(self, reading: ServerReading) -> None:
        """Simulate it beside a policy that takes any key. What a look tells does not count how
        often a key was read."""
        settings, held_bytes = EvictionSettings.of(reading), self._depth_bytes
        is_wanted = reading.maxmemory_policy in ("allkeys-lru", "allkeys-random")
        if not is_wanted or reading.is_looked_at or not 0 < held_bytes < np.inf:
            self._lfu = None
        elif self._lfu is None or not self._lfu.is_for(settings, held_bytes):
            self._lfu = SimulatedLfu(settings, held_bytes)

    def _follow_policy(self, reading: ServerReading, budget_bytes: int) -> None:
        volatile = reading.maxmemory_policy in VOLATILE_POLICIES
        if volatile != self.shards.volatile:
            # Earlier counts belong to another policy, and pinned keys have no history.
            self.forget()
            self.samples_taken = 0
            self.warm_up = WarmUp(self.cycle_seconds)
            self.shards.volatile = volatile
        simulation = self.shards.simulation
        if reading.maxmemory_policy not in SIMULATED_POLICIES:
            self.counts.simulation = self.shards.simulation = None
            return
        settings = EvictionSettings.of(reading)
        sizes = simulated_sizes(budget_bytes)
        if simulation is None or simulation.settings != settings:
            # Earlier counts belong to another policy.
            self.forget()
            self.latency.decay(0.0)
            self.samples_taken = 0
            self.counts.simulation = simulation = MiniatureSimulation(sizes, settings)
            self.shards.simulate(
                simulation, round(self.calibration.object_bytes or 1), round(reading.at_seconds)
            )
        else:
            simulation.sizes_bytes = sizes
