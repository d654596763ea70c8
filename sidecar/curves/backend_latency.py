"""Measures backend latency, as the time from a sampled miss to the fill of the same key."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.kernel.library import library
from sidecar.samples.batch import Batch

FloatArray = npt.NDArray[np.float64]

# As in ``kernel/fills.h``.
WAIT_BINS = 27


class Fills:
    """Finds which write fills which miss, and what is written by chance.

    Pairs the first miss of each key, and the first hit of one key in eight, with what ends its
    wait: for a miss the next write, for a hit whatever changes the key; see ``kernel/fills.c``.

    A bounded number of each wait: at most ``most_pending``, each for ``longest_us``.

    Attributes:
        handle: the library's fills.
        waits: counts, shape (2, 3, ``WAIT_BINS``): of misses and of hits, those that a write ended,
            their seconds in all, and others. Bin i is of waits of 2^i up to 2^(i+1) microseconds,
            the last one of those that were given up. Whoever changes it changes what is counted.
    """

    def __init__(self, longest_us: float, most_pending: int) -> None:
        self._library = library()
        self._limits = (longest_us, most_pending)
        self.handle = self._library.spreds_fills_new()
        if not self.handle:
            raise MemoryError("not enough memory for fills")
        counts = ctypes.c_double * (2 * 3 * WAIT_BINS)
        found = counts.from_address(self._library.spreds_fills_waits(self.handle))
        self.waits: FloatArray = np.ctypeslib.as_array(found).reshape(2, 3, WAIT_BINS)

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._library.spreds_fills_free(self.handle)

    def take(
        self,
        keys: npt.NDArray[np.uint64],
        operations: npt.NDArray[np.uint8],
        times_us: FloatArray,
        now_us: float,
    ) -> None:
        """Take accesses in order, shapes (n,), of which the last was at ``now_us``. Raises
        MemoryError."""
        keys = np.ascontiguousarray(keys)
        operations = np.ascontiguousarray(operations)
        times_us = np.ascontiguousarray(times_us)
        if self._library.spreds_fills_take(
            self.handle,
            *(keys.ctypes.data, operations.ctypes.data, times_us.ctypes.data),
            *(len(keys), now_us, *self._limits),
        ):
            raise MemoryError("not enough memory for fills")

    def clear(self) -> None:
        """Forget the accesses that wait."""
        self._library.spreds_fills_clear(self.handle)


LONGEST_SECONDS = 60.0
# A write that comes later on average is no fill: some client overwrites the key by chance.
_LONGEST_MEAN_SECONDS = 10.0
# If chance alone brings more of the writes that come so late, it may bring all: missed keys are
# written more or less often than keys that are hit.
_MOST_CHANCE_RATIO = 0.2
_FEWEST_BY_CHANCE = 5.0
MOST_PENDING = 4096
_FEWEST_FILLS = 30
_FEWEST_FILL_RATIO = 0.2
_SURE_CHANCE_RATIO = 0.05


class _Fills(NamedTuple):
    """Counts misses that were filled, their seconds in all, and misses that were decided. It also
    counts how many of these ended by writes that may have come by chance."""

    fills: float
    seconds: float
    decided: float
    by_chance: float


class BackendLatency:
    """Estimates bd of equation (8.2) for look-aside clients: read, miss, ask the backend, write.

    What it measures, and where that differs from the latency that a user waits for:

    * *From the first miss to the first write.* Later readers of the same key wait less.
    * *Queues count.* Time that a client spends before it asks, or between answer and write (a
      connection pool, a batch of writes), counts: the estimate is biased upward.
    * *Writes by chance* are no fills. Where keys are written through, a key that was hit is written
      as soon as one that was missed. So hits wait for a write, too. They tell how many writes would
      come after as long a wait without any fill (by a life table: of those that waited so long, the
      share that is written within the same octave). An octave of waits does not count at all if
      that explains more than a fifth of its fills. Those after one in which misses and hits are
      written about as often do not count; nor does what comes after more than 10 s on average.
    * *What is never filled* within a minute is left out, and says nothing (backends that answer
      "no such object" may be faster): ``fill_ratio`` tells how much that is.
    * *What was sure stays known.* What was measured with decided hits, too, and hardly any write by
      chance, counts while nothing can be measured. Otherwise a server that has no misses any more,
      or is written through for a while, would keep whatever size it has.
    * *Resolution.* That of the server's clock: below a millisecond, with the module some ms.

    Memory: a bounded number of misses and hits wait for their write.

    Attributes:
        fills: pairs misses, and hits, with writes.
        sure_seconds: what it was when that was sure, ``None`` if it never was.
    """

    def __init__(self) -> None:
        self.fills = Fills(LONGEST_SECONDS * 1e6, MOST_PENDING)
        self.sure_seconds: float | None = None

    def take(self, batch: Batch) -> None:
        """Take the next batch of one server."""
        self.fills.take(batch.ids, batch.operations, batch.times_us, batch.last_time_us)

    def decay(self, factor: float) -> None:
        """Let what was seen so far count ``factor`` times as much; with 0 it is forgotten."""
        if not factor:
            self.sure_seconds = None
        elif self._is_sure(found := self._found()):
            self.sure_seconds = found.seconds / found.fills
        self.fills.waits *= factor

    def _is_sure(self, found: _Fills) -> bool:
        hits_decided = self.fills.waits[1, 0].sum() + self.fills.waits[1, 2].sum()
        may_be_chance = found.by_chance > _SURE_CHANCE_RATIO * found.decided
        return _is_known(found) and hits_decided >= _FEWEST_FILLS and not may_be_chance

    def clear_pending(self) -> None:
        """Forget the misses that wait, for example as the server has restarted."""
        self.fills.clear()

    @property
    def fill_ratio(self) -> float | None:
        """Return the share of the misses that were filled; ``None`` if none is decided yet."""
        found = self._found()
        # Faded counts are summed in two orders.
        return min(1.0, found.fills / found.decided) if found.decided else None

    @property
    def chance_ratio(self) -> float:
        """Return the share of the misses that a write followed which may have come by chance."""
        found = self._found()
        return min(1.0, found.by_chance / found.decided) if found.decided else 0.0

    @property
    def mean_seconds(self) -> float | None:
        """Return the mean latency while it is sure, else the last sure one, or ``None``. Sure takes
        30 fills, and a fill for one miss in five (the others would have to be guessed)."""
        found = self._found()
        return found.seconds / found.fills if _is_known(found) else self.sure_seconds

    def _found(self) -> _Fills:
        (written, seconds, unwritten), (hit_written, _, hit_unwritten) = self.fills.waits
        at_risk = _at_or_later(written + unwritten)
        hits_at_risk = _at_or_later(hit_written + hit_unwritten)
        by_chance = at_risk * hit_written / np.maximum(hits_at_risk, 1.0)
        is_chance = by_chance > _MOST_CHANCE_RATIO * written
        # Fills after the onset of chance are too rare to be told from it.
        is_onset = is_chance & (hit_written >= _FEWEST_BY_CHANCE)
        is_onset &= written >= _MOST_CHANCE_RATIO * by_chance
        counts = ~is_chance & ~np.logical_or.accumulate(is_onset)
        decided, fills = float(at_risk[0]), float(written[counts].sum())
        filled_seconds = float(seconds[counts].sum())
        if filled_seconds > _LONGEST_MEAN_SECONDS * fills:
            fills = filled_seconds = 0.0
        return _Fills(fills, filled_seconds, decided, float(written.sum()) - fills)


def _is_known(found: _Fills) -> bool:
    return found.fills >= max(_FEWEST_FILLS, _FEWEST_FILL_RATIO * found.decided)


def _at_or_later(ended: FloatArray) -> FloatArray:
    """Return how many waits ended in each bin or a later one; shape as given."""
    return np.asarray(np.cumsum(ended[::-1])[::-1])
