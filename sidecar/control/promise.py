"""What a plan promised, against what came after it, and against no plan at all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sidecar.curves.read_counts import ReadCounts
from sidecar.curves.served_reads import FULL_RATIO
from sidecar.plans.plan_harm import reasons_for_a_loss
from sidecar.servers.server_reading import ServerReading
from solver_lambda.documents.observation import Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan, ServerPlan
from solver_lambda.documents.server_settings import BOUNDS
from solver_lambda.documents.words import time_words

# Codes of reasons of plans that may cost the mean access time: they keep to bounds, or go back.
_NOT_FOR_A_GAIN = (
    *("bounds", "no_limit", "over_budget", "back"),
    *(setting.option for setting in BOUNDS.values()),
)
# Standard errors by which a promise must be missed.
_ERRORS = 2.0
_FEWEST_READS = 1000
# A window's own curve explains what the server saw if it is no farther off, in miss ratio, beside
# its stated error.
_EXPLAINED = 0.02
# By so much of its size a cache grows that is still filling.
_FILLING_RATIO = 0.02


@dataclass(frozen=True)
class Check:
    """What became of a plan.

    Attributes:
        predicted_seconds, observed_seconds, without_seconds: the node's weighted mean access time
            by the reads that came: with the hit ratios that the plan predicted, as it was, and as
            the sizes before would have made it.
        error_seconds: so much may be error.
        verdict: ``failed``: the sizes before would have been better by more than the error;
            otherwise ``kept``: the promise, or ``worse``: it was missed; or ``not_checked``.
        words: for people.
        at_seconds: Unix time.
    """

    cycle: int
    verdict: str
    words: str
    predicted_seconds: float | None = None
    observed_seconds: float | None = None
    without_seconds: float | None = None
    error_seconds: float | None = None
    at_seconds: float | None = None

    @property
    def predicted_ratio(self) -> float | None:
        """The same, as it was promised."""
        if self.predicted_seconds is None or not self.without_seconds:
            return None
        return 1 - self.predicted_seconds / self.without_seconds

    @property
    def realised_ratio(self) -> float | None:
        """By how much the mean access time was less than without the plan, of that."""
        if self.observed_seconds is None or not self.without_seconds:
            return None
        return 1 - self.observed_seconds / self.without_seconds


class _Promised:
    """Of one server."""

    def __init__(self, seen: ServerObservation, plan: ServerPlan, before_bytes: int) -> None:
        self.name = plan.name
        self.weight = seen.weight
        self.hit_seconds = seen.cache_latency_seconds
        self.miss_seconds = max(seen.backend_latency_seconds, seen.cache_latency_seconds)
        self.is_changed = plan.maxmemory_bytes != before_bytes
        self._before_bytes = before_bytes
        # What is predicted for a size in between is about in between.
        self._predicted = sorted(
            (size_bytes, ratio)
            for size_bytes, ratio in (
                (plan.maxmemory_before_bytes, plan.hit_ratio_before),
                (plan.maxmemory_bytes, plan.hit_ratio),
            )
            if ratio is not None
        )
        self._miss_ratio_before = seen.miss_ratio
        self._curve_error = seen.curve_error_ratio
        self._first: ServerReading | None = None
        self._last: ServerReading | None = None
        # Weighted by reads: what it held, and its limit.
        self.hits = self.misses = self._read_bytes = self._limit_bytes = 0.0
        self._step_reads = self._step_read_bytes = 0.0
        # By the window's own curve: reads, and misses with the sizes that it had and had before.
        self._curve_reads = self._curve_misses = self._curve_misses_before = 0.0

    @property
    def reads(self) -> float:
        return self.hits + self.misses

    @property
    def miss_ratio(self) -> float:
        return self.misses / self.reads if self.reads else 0.0

    def look(self, reading: ServerReading) -> None:
        last, self._last = self._last, reading
        if last is None or last.run_id != reading.run_id:
            self._first = reading
            return
        hits = reading.keyspace_hits - last.keyspace_hits
        misses = reading.keyspace_misses - last.keyspace_misses
        if hits < 0 or misses < 0:
            return  # RESETSTAT
        self.hits += hits
        self.misses += misses
        self._limit_bytes += (hits + misses) * reading.size_bytes
        held = min(reading.counted_bytes, reading.maxmemory_bytes or reading.counted_bytes)
        self._read_bytes += (hits + misses) * held
        self._step_reads += hits + misses
        self._step_read_bytes += (hits + misses) * held

    def step(self, counts: ReadCounts, seconds: float) -> None:
        reads, read_bytes = self._step_reads, self._step_read_bytes
        self._step_reads = self._step_read_bytes = 0.0
        if not reads:
            return
        sizes = np.array([read_bytes / reads, float(self._before_bytes)])
        now, before = counts.misses(sizes, None) * seconds
        self._curve_reads += counts.reads(None) * seconds
        self._curve_misses += float(now)
        self._curve_misses_before += float(before)

    @property
    def predicted_miss_ratio(self) -> float:
        if not self.is_changed or not self.reads or not self._predicted:
            return self.miss_ratio
        # What a cache that is still filling does not hold cannot be hit, whatever its limit is.
        read_bytes = self._read_bytes if self._is_filling else self._limit_bytes
        sizes, ratios = zip(*self._predicted, strict=True)
        return 1.0 - float(np.interp(read_bytes / self.reads, sizes, ratios))

    @property
    def predicts(self) -> bool:
        """Whether the plan said what would come of another size."""
        return bool(self._predicted) or not self.is_changed

    @property
    def _is_filling(self) -> bool:
        if self._first is None or self._last is None:
            return False
        size_bytes = self._last.size_bytes
        filled_bytes = self._last.counted_bytes - self._first.counted_bytes
        is_full = self._last.counted_bytes >= FULL_RATIO * size_bytes
        return filled_bytes > _FILLING_RATIO * size_bytes and not is_full

    @property
    def error(self) -> float:
        """Standard error of the prediction and of what was counted, of a miss ratio."""
        if not self.is_changed or not self.reads:
            return 0.0
        ratio = self.miss_ratio
        return math.hypot(self._curve_error, math.sqrt(ratio * (1 - ratio) / self.reads))

    @property
    def miss_ratio_without(self) -> float:
        """As the size before would have made it.

        By the curve of the window itself, if that explains what was seen: the load may be another
        one now. Otherwise the curve is what is wrong, and only what the server said before the plan
        is left.
        """
        ratio = self.miss_ratio
        if not self.is_changed or not self.reads:
            return ratio
        if self._curve_reads:
            now = self._curve_misses / self._curve_reads
            before = self._curve_misses_before / self._curve_reads
            if abs(now - ratio) <= _EXPLAINED + _ERRORS * self.error:
                return min(1.0, max(0.0, ratio + before - now))
        return ratio if self._miss_ratio_before is None else self._miss_ratio_before


class PlanPromise:
    """Of one plan that was carried out, from then to the next observation; ``before_bytes`` were
    the sizes in force (0: no limit)."""

    def __init__(
        self, observation: Observation, plan: AdaptationPlan, before_bytes: Mapping[str, int]
    ) -> None:
        seen = {server.name: server for server in observation.servers}
        self._plan = plan
        # By what we saw ourselves: anybody can write a reason.
        sizes_bytes = {server.name: server.maxmemory_bytes for server in plan.servers}
        self._excuses = reasons_for_a_loss(sizes_bytes, observation)
        self._floor_ratio = observation.planning.minimum_gain_ratio
        self._servers = [
            _Promised(
                seen[server.name],
                server,
                before_bytes.get(server.name) or server.maxmemory_before_bytes,
            )
            for server in plan.servers
        ]

    def look(self, readings: Mapping[str, ServerReading | None]) -> None:
        """Count what the servers say, again and again."""
        for server in self._servers:
            reading = readings.get(server.name)
            if reading is not None:
                server.look(reading)

    def step(self, counts: Mapping[str, ReadCounts], seconds: float) -> None:
        """A step of the curves is over that took so long."""
        for server in self._servers:
            server.step(counts[server.name], seconds)

    def check(self) -> Check:
        """At the end."""
        cycle = self._plan.cycle
        code = self._plan.reason.partition(":")[0]
        if code in _NOT_FOR_A_GAIN and code in self._excuses:
            words = f"plan {cycle} was not made for a gain ({code}), and is not judged by one"
            return Check(cycle, "not_checked", words)
        reads = sum(server.reads for server in self._servers)
        weighted = sum(server.weight * server.reads for server in self._servers)
        if reads < _FEWEST_READS or not weighted:
            words = f"plan {cycle} could not be judged: only {reads:.0f} reads came after it"
            return Check(cycle, "not_checked", words)
        observed = self._mean([server.miss_ratio for server in self._servers])
        predicted = None
        if all(server.predicts for server in self._servers):
            predicted = self._mean([server.predicted_miss_ratio for server in self._servers])
        without = self._mean([server.miss_ratio_without for server in self._servers])
        errors = [
            server.weight
            * server.reads
            / weighted
            * (server.miss_seconds - server.hit_seconds)
            * server.error
            for server in self._servers
        ]
        error = _ERRORS * math.hypot(*errors) + self._floor_ratio * observed
        verdict = "kept"
        if observed > without + error:
            verdict = "failed"
        elif predicted is None or observed > predicted + error:
            verdict = "worse" if predicted is not None else "not_checked"
        words = self._words(verdict, predicted, observed, without, error)
        return Check(cycle, verdict, words, predicted, observed, without, error)

    def _mean(self, miss_ratios: Sequence[float]) -> float:
        total = sum(server.weight * server.reads for server in self._servers)
        return sum(
            server.weight
            * server.reads
            / total
            * (server.hit_seconds + ratio * (server.miss_seconds - server.hit_seconds))
            for server, ratio in zip(self._servers, miss_ratios, strict=True)
        )

    def _words(
        self, verdict: str, predicted: float | None, observed: float, without: float, error: float
    ) -> str:
        told = "no mean access time" if predicted is None else "a mean access time of "
        told += "" if predicted is None else time_words(predicted)
        said = (
            f"plan {self._plan.cycle} predicted {told}, and it was {time_words(observed)} (up to "
            f"{time_words(error)} more may be chance)"
        )
        if verdict in ("kept", "not_checked"):
            return f"{said}; without it, it would have been {time_words(without)}"
        if verdict == "worse":
            return (
                f"{said}; the load has changed: with the sizes before it would have been "
                f"{time_words(without)}"
            )
        worst = max(
            (server for server in self._servers if server.is_changed),
            key=lambda server: (
                server.weight
                * server.reads
                * server.miss_seconds
                * (server.miss_ratio - server.predicted_miss_ratio)
            ),
        )
        return (
            f"{said}, where the sizes before would have made it {time_words(without)}; most by "
            f"{worst.name}, whose hit ratio is {1 - worst.miss_ratio:.1%} instead of "
            f"{1 - worst.predicted_miss_ratio:.1%}"
        )
