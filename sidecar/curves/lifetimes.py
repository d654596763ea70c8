"""Finds out when TTLs would end copies of objects that this server no longer has.

Samples tell how long a key will live when it is written, and what is left of that when it is read.
An object that was evicted would still be in a larger cache, until then. Where the TTL's length is
not told (some samples of the module's), it is guessed from those objects that the server keeps
until they expire.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Collection
from ctypes import CFUNCTYPE, byref, c_double, c_int, c_uint64
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from sidecar.kernel.library import library

_MOST_OBSERVED = 2048
_FEWEST_EXPIRIES = 20


class LifetimeDistribution:
    """Estimates lifetimes from those seen to their end and those cut short by an eviction. This is
    Kaplan and Meier's product-limit estimator, over the most recent 2,048."""

    def __init__(self, seed: int = 0) -> None:
        self._observed: deque[tuple[float, bool]] = deque(maxlen=_MOST_OBSERVED)
        self._ends: list[float] = []
        self._died: list[float] = []
        self._fallback_seconds: float | None = None
        self._random = random.Random(seed)

    @property
    def shortest_seconds(self) -> float:
        """Return the shortest lifetime of the last estimate; infinite if nothing was seen to
        expire."""
        return self._ends[0] if self._ends else math.inf

    def add(self, seconds: float, expired: bool) -> None:
        """Count an object that lived for ``seconds`` and then expired, or else was evicted."""
        self._observed.append((seconds, expired))

    def refresh(self, average_left_seconds: float) -> None:
        """Estimate anew. ``average_left_seconds`` is the server's own mean of what is left of its
        keys' TTLs (0 is unknown). It is all there is to go by when nothing lives to its end."""
        observed = sorted(self._observed)
        ends, hazards = [], []
        for place, (seconds, expired) in enumerate(observed):
            if expired:
                ends.append(seconds)
                hazards.append(1 / (len(observed) - place))
        survival = list(accumulate((1 - h for h in hazards), lambda a, b: a * b))
        self._ends = ends if len(ends) >= _FEWEST_EXPIRIES else []
        self._died = [1 - s for s in survival] if self._ends else []
        ages = [seconds for seconds, expired in observed if not expired]
        self._fallback_seconds = (
            # Resident keys are on average half as old as those that are being evicted.
            average_left_seconds + sum(ages) / len(ages) / 2
            if ages and average_left_seconds > 0
            else None
        )

    def draw(self, age_seconds: float) -> float | None:
        """Return a lifetime of an object that has lived for ``age_seconds``; ``None`` if nothing
        tells."""
        place = bisect_right(self._ends, age_seconds)
        if place < len(self._ends):
            died = self._died[place - 1] if place else 0.0
            level = died + self._random.random() * (1 - died)
            drawn = bisect_right(self._died, level, lo=place)
            # An object that outlives all that was seen lives as long as the longest.
            return self._ends[min(drawn, len(self._ends) - 1)]
        if self._fallback_seconds is None:
            return None
        return max(self._fallback_seconds, age_seconds)


_DRAW = CFUNCTYPE(c_double, c_double)
_ADD = CFUNCTYPE(None, c_double, c_int)

FloatArray = npt.NDArray[np.float64]
# Sizes in bytes, and the ids of the objects that reads at them were of; shapes (n,).
Moves = tuple[FloatArray, npt.NDArray[np.uint64]]


@dataclass(frozen=True)
class TimedAccesses:
    """Holds columns of one length, but for ``distances_bytes``, which has one for each read; the
    times are on the server's clock. What is left of the object's life is ``inf`` without a TTL, and
    ``nan`` where its length is not told."""

    keys: npt.NDArray[np.uint64]
    operations: npt.NDArray[np.uint8]
    left_seconds: FloatArray
    distances_bytes: FloatArray
    times_seconds: FloatArray


class MovedReads:
    """Holds what expiries change in the distances of one batch's reads, until more accesses are
    taken.

    A read at distance d is a hit from size d upward; but where the copy has expired it is a miss
    again. In a histogram that is summed from above, a hit in sizes [a, b) makes three entries: a
    count at a, one taken away at b, and one at infinity.
    """

    def __init__(self, lifetimes: Lifetimes) -> None:
        self._lifetimes = lifetimes

    def moves(self) -> tuple[Moves, Moves]:
        """Return where reads are to be counted, and where they are not to be counted any more."""
        return self._lifetimes.moves(added=True), self._lifetimes.moves(added=False)


class Lifetimes:
    """Follows the sampled objects with a TTL of one server; see ``kernel/lifetimes.c``. Lifetimes
    that are not told are guessed in Python.

    An object that was evicted and read again has copies of different ages in caches of different
    sizes: the server filled it anew, a larger one still has the older copy, which expires sooner.
    So for each object the time when it expires is kept by cache size. When the server's own copy
    expires, the object leaves all sizes: a smaller cache may have had a younger copy, which is
    neglected.

    A server finds an expired object late, unless it is asked for; until then it takes memory.
    Those that other sizes would have are taken out with the delay that is usual.

    All of its methods raise MemoryError if there is not enough.

    Attributes:
        distribution: of the lifetimes that are not told.
        handle: the library's lifetimes.
    """

    def __init__(self) -> None:
        self.distribution = LifetimeDistribution()
        self._library = library()
        self._shortest_before = math.inf
        # Kept: the library calls them.
        self._draw, self._add = _DRAW(self._draw_one), _ADD(self._add_one)
        self.handle = self._library.spreds_lifetimes_new(self._draw, self._add)
        if not self.handle:
            raise MemoryError("not enough memory for lifetimes")

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._library.spreds_lifetimes_free(self.handle)

    def _draw_one(self, age_seconds: float) -> float:
        drawn = self.distribution.draw(age_seconds)
        return math.inf if drawn is None else drawn

    def _add_one(self, seconds: float, expired: int) -> None:
        self.distribution.add(seconds, bool(expired))

    def __len__(self) -> int:
        return int(self._library.spreds_lifetimes_alive(self.handle))

    @property
    def waiting(self) -> int:
        """Return how many entries it keeps of what is to expire."""
        return int(self._library.spreds_lifetimes_waiting(self.handle))

    @property
    def shortest_seconds(self) -> float:
        """Return the shortest lifetime since the last ``refresh`` but one; ``inf`` if no object had
        a TTL."""
        return min(
            float(self._library.spreds_lifetimes_shortest(self.handle, False)),
            self._shortest_before,
            self.distribution.shortest_seconds,
        )

    def refresh(self, average_left_seconds: float) -> None:
        """Guess anew, see ``LifetimeDistribution.refresh``."""
        self.distribution.refresh(average_left_seconds)
        self._shortest_before = self._library.spreds_lifetimes_shortest(self.handle, True)

    def take(self, accesses: TimedAccesses, resident_bytes: float) -> MovedReads:
        """Take accesses in order. ``resident_bytes`` is the size that the server has itself;
        ``inf`` while it evicts nothing."""
        columns = (
            np.ascontiguousarray(accesses.keys, np.uint64),
            np.ascontiguousarray(accesses.operations, np.uint8),
            np.ascontiguousarray(accesses.left_seconds, np.float64),
            np.ascontiguousarray(accesses.distances_bytes, np.float64),
            np.ascontiguousarray(accesses.times_seconds, np.float64),
        )
        if self._library.spreds_lifetimes_take(
            self.handle,
            *(column.ctypes.data for column in columns),
            len(columns[0]),
            resident_bytes,
        ):
            raise MemoryError("not enough memory for lifetimes")
        return MovedReads(self)

    def moves(self, *, added: bool) -> Moves:
        """Return the moves of the accesses that were taken last."""
        count = self._library.spreds_lifetimes_moves(self.handle, added, None, None)
        sizes, ids = np.empty(count), np.empty(count, np.uint64)
        self._library.spreds_lifetimes_moves(self.handle, added, sizes.ctypes.data, ids.ctypes.data)
        return sizes, ids

    def due(self, now_seconds: float) -> list[int]:
        """Return the objects that have expired in caches of every size since the last call."""
        key, gone = c_uint64(), []
        while self._library.spreds_lifetimes_due(self.handle, now_seconds, byref(key)):
            gone.append(key.value)
        return gone

    def keep_only(self, wanted: Collection[int]) -> None:
        """Forget all objects but the wanted ones."""
        keys = np.sort(np.fromiter(wanted, np.uint64))
        self._library.spreds_lifetimes_keep_only(self.handle, keys.ctypes.data, len(keys))
