"""Says what a server's own counters tell of its memory. Does the server fill it, and does it miss
less often with it than its curve says?"""

from __future__ import annotations

import math

import numpy as np

from sidecar.curves.served_reads import FULL_RATIO, ServedReads, is_as_much, tells_of_its_size
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.curve import MissRatioCurve

# Fewer reads of a window refute no curve, and nor does what is less of the miss ratio.
_FEWEST_READS, _LEAST_EXCESS_RATIO = 1_000, 0.02
# Standard errors of a sample.
_ERRORS = 3.0


class UnfilledMemory:
    """Watches whether one server fills its memory, and misses less often than its curve says."""

    def __init__(self) -> None:
        self._since_seconds: float | None = None
        self._most_bytes = 0
        # The least that served the last window so, and by how much its own samples would have
        # missed more.
        self._served_by_bytes = 0
        self._excess_ratio = self._miss_ratio = 0.0

    def take_reading(
        self, previous: ServerReading | None, reading: ServerReading, most_bytes: int = 0
    ) -> None:
        """Take the reading that ends a window, the one that began it, and the most that was used
        between them: a job may come and go. A server that evicted keys between them was full, even
        if neither reading shows it."""
        most_bytes = max(most_bytes, reading.counted_bytes)
        self._excess_ratio, self._served_by_bytes = 0.0, reading.maxmemory_bytes
        if previous is not None and reading.evicted_keys == previous.evicted_keys:
            filled_bytes = round(max(most_bytes, previous.counted_bytes) / FULL_RATIO)
            self._served_by_bytes = min(filled_bytes, reading.maxmemory_bytes)
        if (
            previous is None
            or previous.instance != reading.instance
            or most_bytes >= FULL_RATIO * reading.maxmemory_bytes
            or not tells_of_its_size(previous, reading)
            or reading.evicted_keys > previous.evicted_keys
            or not is_as_much(previous.counted_bytes, most_bytes)
        ):
            self._since_seconds, self._most_bytes = None, 0
            return
        if self._since_seconds is None:
            self._since_seconds = previous.at_seconds
        self._most_bytes = max(self._most_bytes, previous.counted_bytes, most_bytes)

    def compare(self, served: ServedReads, missed: float, rate: float) -> None:
        """Take what the window that was looked at last served, and what it would have missed by its
        own samples. These are a share of ``rate`` of its reads. What these may be off by chance
        refutes nothing: it cost up to two points of a gain at a rate of 1 %."""
        if served.miss_ratio is None or served.reads < _FEWEST_READS:
            return
        self._miss_ratio, sampled = served.miss_ratio, min(1.0, missed / served.reads)
        chance = _ERRORS * math.sqrt(sampled * (1 - sampled) / (rate * served.reads))
        if (excess := sampled - served.miss_ratio) > max(_LEAST_EXCESS_RATIO, chance):
            self._excess_ratio = excess

    def agreed(
        self, curve: MissRatioCurve, reading: ServerReading, for_seconds: float
    ) -> tuple[MissRatioCurve, int | None]:
        """Return the curve as far as the server does not refute it, and its ``enough_bytes``. Where
        it hits each read of a loop, more memory cannot gain what a curve says that is off by its
        edge."""
        size_bytes = reading.maxmemory_bytes
        if enough_bytes := self.enough_bytes(reading.at_seconds, for_seconds):
            curve = level_from(curve, enough_bytes, size_bytes)
        if self._served_by_bytes and self._excess_ratio:
            most = max(self._miss_ratio, float(curve.miss_ratio(size_bytes)) - self._excess_ratio)
            curve = at_most_from(curve, self._served_by_bytes, most)
        return curve, enough_bytes

    def enough_bytes(self, now_seconds: float, for_seconds: float) -> int | None:
        """Return the most that it held for so long or longer; ``None`` if it filled its memory in
        it, or if what it holds changes."""
        since = self._since_seconds
        if since is None or now_seconds - since < for_seconds:
            return None
        return self._most_bytes


def level_from(curve: MissRatioCurve, from_bytes: int, size_bytes: int) -> MissRatioCurve:
    """Return the curve of a server that misses as often with ``from_bytes`` as with ``size_bytes``,
    which it has. What it does not use, or would not, keeps no key."""
    level = float(curve.miss_ratio(size_bytes))
    below = curve.sizes_bytes < from_bytes
    end_bytes = max(float(curve.sizes_bytes[-1]), from_bytes + 1.0)
    return MissRatioCurve(
        np.append(curve.sizes_bytes[below], (float(from_bytes), end_bytes)),
        np.append(np.maximum(curve.miss_ratios[below], level), (level, level)),
    )


def at_most_from(curve: MissRatioCurve, from_bytes: int, miss_ratio: float) -> MissRatioCurve:
    """Return the curve of a server that misses no more often than that with ``from_bytes``, nor
    with more."""
    below, beyond = curve.sizes_bytes < from_bytes - 1, curve.sizes_bytes > from_bytes
    before = float(curve.miss_ratio(from_bytes - 1))
    most = min(miss_ratio, float(curve.miss_ratio(from_bytes)))
    edge = np.array([from_bytes - 1.0, float(from_bytes)])
    return MissRatioCurve(
        np.concatenate([curve.sizes_bytes[below], edge, curve.sizes_bytes[beyond]]),
        np.concatenate(
            [curve.miss_ratios[below], [before, most], np.minimum(curve.miss_ratios[beyond], most)]
        ),
    )
