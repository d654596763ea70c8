"""Compares what a plan promised of one server with what came."""

from __future__ import annotations

import math

import numpy as np

from sidecar.curves.read_counts import ReadCounts
from sidecar.curves.served_reads import FULL_RATIO
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.observation import ServerObservation
from solver_lambda.documents.plan import ServerPlan
from solver_lambda.planning.effective_access_time import AccessCost

# Standard errors by which a promise must be missed.
ERRORS = 2.0
# A window's own curve explains what the server saw if it is no farther off, in miss ratio, beside
# its stated error.
_EXPLAINED = 0.02
# A cache that is still filling grows by so much of its size.
_FILLING_RATIO = 0.02
# So many of a window's reads may be sampled in the next one.
_LATE_RATIO = 0.05
# A curve is refuted at once by so many reads if so many more miss than it says, and beyond so many
# standard errors. For sampled keys these errors are some twice those for reads.
_REFUTING_READS = 1000
_REFUTED_RATIO = 0.05
_REFUTING_ERRORS = 3.0
_OF_KEYS = 2.0
# Buffers may be so much of its size, such as those of a client that writes large values.
_USUAL_RATIO = 1 / 8
# It evicts in so many spans in a row, each of so many seconds.
_EVICTING_TIMES, _EVICTING_SECONDS = 3, 1.0


class EvictingSteadily:
    """Tells whether a server evicts for its own keys. One of large values is full as it is, however
    far below its limit each eviction takes it. A server evicts for a client's buffers while they
    last, and then fills without evicting."""

    def __init__(self) -> None:
        self._first: ServerReading | None = None
        self._is_usual = True
        self._times = 0

    def take_reading(self, reading: ServerReading, *, is_usual: bool) -> bool:
        """Whether it evicts for its own keys. ``is_usual``: nothing but keys takes memory now."""
        first = self._first = self._first or reading
        self._is_usual &= is_usual
        if reading.at_seconds >= first.at_seconds + _EVICTING_SECONDS:
            evicts = self._is_usual and reading.evicted_keys > first.evicted_keys
            self._times = self._times + 1 if evicts else 0
            self._first, self._is_usual = reading, is_usual
        return self._times >= _EVICTING_TIMES


class ServerOutcome:
    """Counts what one server says from a plan on.

    Attributes:
        is_changed: the plan gave it another size.
        is_restarted: it is another process now than at first.
    """

    def __init__(self, seen: ServerObservation, plan: ServerPlan, before_bytes: int) -> None:
        self.name = plan.name
        self.weight = seen.weight
        self.cost = AccessCost.of(seen)
        self.is_changed = plan.maxmemory_bytes != before_bytes
        self.is_restarted = False
        self._before_bytes = before_bytes
        # The prediction for a size in between is about in between.
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
        self._last: ServerReading | None = None
        self._refills = False
        self._evicting = EvictingSteadily()
        self._least_baseline_bytes = math.inf
        self._count_from_now_on()

    def _count_from_now_on(self) -> None:
        self._first: ServerReading | None = None
        # Weighted by reads: what it held, and its limit.
        self.hits = self.misses = self._read_bytes = self._limit_bytes = 0.0
        self._step_reads = self._step_read_bytes = 0.0
        # Counts by the window's own curve: reads, and misses with its present and former size.
        self._curve_reads = self._curve_misses = self._curve_misses_before = 0.0
        self._sampled_reads = 0.0

    def _is_full_of_keys(self, reading: ServerReading) -> bool:
        """Whether keys fill it, whatever else takes memory just now."""
        usual_bytes = FULL_RATIO * reading.size_bytes - self._least_baseline_bytes
        return reading.counted_bytes - reading.baseline_bytes >= usual_bytes

    def begin_anew(self) -> None:
        """It has lost keys to something that passes: nothing counts until it is full again."""
        self._refills, self._evicting = True, EvictingSteadily()
        self._count_from_now_on()

    @property
    def harm_seconds(self) -> float:
        """Return how much longer all its reads took, by its weight, than with the size before."""
        per_miss = self.weight * self.cost.penalty_seconds
        return per_miss * self.reads * (self.miss_ratio - self.miss_ratio_without)

    @property
    def reads(self) -> float:
        return self.hits + self.misses

    @property
    def miss_ratio(self) -> float:
        return self.misses / self.reads if self.reads else 0.0

    def take_reading(self, reading: ServerReading, *, counts: bool = True) -> None:
        last, self._last = self._last, reading
        self.is_restarted |= last is not None and last.run_id != reading.run_id
        if last is None or last.run_id != reading.run_id:
            self._first = reading
            return
        self._least_baseline_bytes = min(self._least_baseline_bytes, reading.baseline_bytes)
        usual_bytes = self._least_baseline_bytes + _USUAL_RATIO * reading.size_bytes
        evicts = self._evicting.take_reading(
            reading, is_usual=reading.baseline_bytes <= usual_bytes
        )
        self._refills = self._refills and not (evicts or self._is_full_of_keys(reading))
        if not counts or self._refills:
            return
        self._first = self._first or reading
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

    def know(self, error_ratio: float) -> None:
        """Its curve may be off by so much, or by what was known before, if that is less."""
        self._curve_error = min(self._curve_error, error_ratio)

    def step(self, counts: ReadCounts, seconds: float) -> None:
        reads, read_bytes = self._step_reads, self._step_read_bytes
        self._step_reads = self._step_read_bytes = 0.0
        if not reads:
            return
        sizes = np.array([read_bytes / reads, float(self._before_bytes)])
        now, before = counts.misses(sizes, None) * seconds
        self._curve_reads += counts.reads(None) * seconds
        self._sampled_reads += counts.reads(None) * seconds * counts.rate
        self._curve_misses += float(now)
        self._curve_misses_before += float(before)

    @property
    def predicted_miss_ratio(self) -> float:
        if not self.is_changed or not self.reads or not self._predicted:
            return self.miss_ratio
        # While a cache is filling, only what it holds can be hit, whatever its limit is.
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
        """Return the standard error of the prediction and of what was counted, of a miss ratio."""
        if not self.is_changed or not self.reads:
            return 0.0
        ratio = self.miss_ratio
        return math.hypot(self._curve_error, math.sqrt(ratio * (1 - ratio) / self.reads))

    @property
    def gain_error(self) -> float:
        """Return the standard error of what another size changed, of a miss ratio. On a curve that
        explains what was seen, two points are farther off together than one is from the other. The
        reads between them are what is sampled; what they leave unexplained counts as well."""
        if not self.is_changed or not self.reads or not self._explains_what_came:
            return self.error
        ratio, now = self.miss_ratio, self._curve_misses / self._curve_reads
        sampled = max(1.0, self._sampled_reads)
        between = abs(self._curve_misses_before / self._curve_reads - now)
        variance = max(between * (1 - between), 1 / sampled) / sampled
        counted = math.sqrt(ratio * (1 - ratio) / self.reads)
        found = math.hypot(_OF_KEYS * math.sqrt(variance), counted, ratio - now)
        return min(self.error, found)

    @property
    def _explains_what_came(self) -> bool:
        """Whether the curve of the reads since the plan does."""
        if not self._curve_reads:
            return False
        now = self._curve_misses / self._curve_reads
        return abs(now - self.miss_ratio) <= _EXPLAINED + ERRORS * self.error

    @property
    def refuted_at(self) -> float | None:
        """Return the most that its curves can make of its miss ratio, where it misses more with
        less than it had. It misses more than the plan expected, and than the reads since then
        explain. ``None``: it does not, or too little has come. More was not missed before the plan,
        either."""
        reads = self.reads - self._step_reads
        if self._last is None or reads < _REFUTING_READS or self._miss_ratio_before is None:
            return None
        if 0 < self._before_bytes <= self._last.size_bytes or not self._predicted:
            return None
        # Look-ups that no sampler sees, such as EXISTS, tell nothing of a curve.
        if self._curve_reads < (1 - _LATE_RATIO) * reads:
            return None
        ratio, now = self.miss_ratio, self._curve_misses / self._curve_reads
        expected = max(self.predicted_miss_ratio, now, self._miss_ratio_before)
        sampling = _OF_KEYS * math.sqrt(ratio * (1 - ratio) / max(1.0, self._sampled_reads))
        error = max(_REFUTED_RATIO, _REFUTING_ERRORS * math.hypot(self.error, sampling))
        return expected if ratio > expected + error else None

    @property
    def miss_ratio_without(self) -> float:
        """Return the miss ratio that the size before would have made.

        It goes by the curve of the window, if that explains what was seen: the load may be another
        one now. Otherwise the curve is what is wrong, and only what the server said before the plan
        is left.
        """
        ratio = self.miss_ratio
        if not self.is_changed or not self.reads:
            return ratio
        if self._explains_what_came:
            more = (self._curve_misses_before - self._curve_misses) / self._curve_reads
            return min(1.0, max(0.0, ratio + more))
        if self._miss_ratio_before is None:
            return ratio
        # Any client can send look-ups such as EXISTS: the server counts them, and no size helps.
        looked_up = 1 - self._curve_reads / self.reads
        if looked_up < _LATE_RATIO or not self._curve_reads:
            looked_up = 0.0
        without = self._miss_ratio_before * (1 - looked_up) + looked_up
        return max(self._miss_ratio_before, min(ratio, without))
