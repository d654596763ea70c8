"""TTLs: when copies of an object expire that this server no longer has.

Samples tell that a key has a TTL, not how long it is. An object that the server keeps until it
expires shows its lifetime: its expiry comes as a record. From those, the lifetimes of objects that
were evicted before are estimated; a larger cache would still hold them, until then.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Container
from dataclasses import dataclass
from itertools import accumulate

from sidecar.samples.wire_format import Operation

_MOST_OBSERVED = 2048
_FEWEST_EXPIRIES = 20
_MOST_COPIES = 8


class LifetimeDistribution:
    """Lifetimes from those seen to their end and those cut short by an eviction
    (Kaplan and Meier's product-limit estimator, over the most recent 2,048)."""

    def __init__(self, seed: int = 0) -> None:
        self._observed: deque[tuple[float, bool]] = deque(maxlen=_MOST_OBSERVED)
        self._ends: list[float] = []
        self._died: list[float] = []
        self._fallback_seconds: float | None = None
        self._random = random.Random(seed)

    @property
    def shortest_seconds(self) -> float:
        """As of the last estimate; infinite if nothing was seen to expire."""
        return self._ends[0] if self._ends else math.inf

    def add(self, seconds: float, expired: bool) -> None:
        """An object lived for ``seconds`` and then expired, or else was evicted."""
        self._observed.append((seconds, expired))

    def refresh(self, average_left_seconds: float) -> None:
        """Estimate anew. ``average_left_seconds`` is the server's own mean of what is left of its
        keys' TTLs (0 is unknown): all there is to go by when nothing lives to its end."""
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
        """A lifetime of an object that has lived for ``age_seconds``; ``None`` if nothing tells."""
        place = bisect_right(self._ends, age_seconds)
        if place < len(self._ends):
            died = self._died[place - 1] if place else 0.0
            level = died + self._random.random() * (1 - died)
            drawn = bisect_right(self._died, level, lo=place)
            # What outlives all that was seen: as long as the longest.
            return self._ends[min(drawn, len(self._ends) - 1)]
        if self._fallback_seconds is None:
            return None
        return max(self._fallback_seconds, age_seconds)


@dataclass(frozen=True)
class TimedAccesses:
    """Columns of one length, but for ``distances_bytes``, which has one for each read; the times
    are on the server's clock."""

    keys: list[int]
    operations: list[int]
    has_ttl: list[bool]
    distances_bytes: list[float]
    times_seconds: list[float]


class Corrections:
    """What expiries change in the distances of one batch's reads.

    A read at distance d is a hit from size d upward; but where the copy has expired it is a miss
    again. In a histogram that is summed from above, a hit in sizes [a, b) is a count at a, one
    taken away at b, and one at infinity.

    Attributes:
        added, removed: lists of (size in bytes, object id).
    """

    def __init__(self) -> None:
        self.added: list[tuple[float, int]] = []
        self.removed: list[tuple[float, int]] = []

    def replace(self, key: int, distance: float, hits: list[tuple[float, float]]) -> None:
        """A read that counts as a hit from ``distance`` upward is one in the intervals ``hits``."""
        if hits == [(distance, math.inf)]:
            return
        self.removed.append((distance, key))
        for start, end in hits:
            self.added.append((start, key))
            if end < math.inf:
                self.removed.append((end, key))
        if not hits or hits[-1][1] < math.inf:
            self.added.append((math.inf, key))


class Lifetimes:
    """Follows the sampled objects with a TTL of one server.

    An object that was evicted and read again has copies of different ages in caches of different
    sizes: the server filled it anew, a larger one still has the older copy, which expires sooner.
    So for each object the time of its fill is kept by cache size, as a list of ``(from size,
    filled at)``, sizes ascending from 0. When the server's own copy expires, the object leaves
    all sizes: a smaller cache may have had a younger copy, which is neglected.
    """

    def __init__(self) -> None:
        self.distribution = LifetimeDistribution()
        self._fills: dict[int, list[tuple[float, float]]] = {}
        self._seconds: dict[int, float] = {}
        self._missed: set[int] = set()
        self._due: list[tuple[float, int, float]] = []

    def __len__(self) -> int:
        return len(self._fills)

    def take(self, accesses: TimedAccesses, resident_bytes: float) -> Corrections:
        """Take accesses in order. ``resident_bytes`` is the size that the server has itself;
        ``inf`` while it evicts nothing."""
        corrections = Corrections()
        fills = self._fills
        distances = iter(accesses.distances_bytes)
        for key, operation, has_ttl, now in zip(
            accesses.keys,
            accesses.operations,
            accesses.has_ttl,
            accesses.times_seconds,
            strict=True,
        ):
            if operation <= Operation.READ_MISS:
                distance = next(distances)
                if key not in fills:
                    continue
                if distance == math.inf:
                    self._drop(key)
                    continue
                self._read(key, operation, distance, resident_bytes, now, corrections)
            elif operation == Operation.WRITE:
                if not has_ttl:
                    self._drop(key)
                elif key in self._missed:
                    # The fill of the miss: the larger caches that had it keep their copy.
                    self._missed.discard(key)
                else:
                    self._fills[key] = [(0.0, now)]
            elif key in fills and operation in (Operation.EXPIRY, Operation.EVICTION):
                filled_at = _at_size(fills[key], resident_bytes)
                expired = operation == Operation.EXPIRY
                self.distribution.add(now - filled_at, expired)
                if expired:
                    self._drop(key)
                    self._seconds[key] = now - filled_at
                else:
                    self._schedule(key, now)
            elif operation == Operation.DELETE:
                self._drop(key)
        return corrections

    def _lifetime(self, key: int, age_seconds: float) -> float:
        seconds = self._seconds.get(key)
        if seconds is None:
            drawn = self.distribution.draw(age_seconds)
            if drawn is None:
                return math.inf
            seconds = self._seconds[key] = drawn
        return seconds

    def _hits(
        self, key: int, distance: float, alive_at_bytes: float, now: float
    ) -> list[tuple[float, float]]:
        """Intervals of sizes, from ``distance`` upward, in which the copy is still alive: the one
        of a cache of ``alive_at_bytes`` is, and so are younger ones."""
        fills = self._fills[key]
        if len(fills) == 1:
            return [(distance, math.inf)]
        alive = _at_size(fills, alive_at_bytes)
        if alive + self._seconds.get(key, math.inf) <= now:
            del self._seconds[key]  # it lives longer than that
        seconds = self._lifetime(key, now - alive)
        hits: list[tuple[float, float]] = []
        for place, (start, filled_at) in enumerate(fills):
            end = fills[place + 1][0] if place + 1 < len(fills) else math.inf
            if end <= distance or (filled_at < alive and filled_at + seconds <= now):
                continue
            start = max(start, distance)
            if hits and hits[-1][1] == start:
                start = hits.pop()[0]
            hits.append((start, end))
        return hits

    def _read(
        self,
        key: int,
        operation: int,
        distance: float,
        resident_bytes: float,
        now: float,
        corrections: Corrections,
    ) -> None:
        if operation == Operation.READ_HIT:
            alive_at = resident_bytes
            kept_from = min(distance, resident_bytes)
        else:
            self._missed.add(key)
            alive_at = 0.0
            kept_from = max(distance, resident_bytes) if resident_bytes < math.inf else distance
        hits = self._hits(key, distance, alive_at, now)
        corrections.replace(key, distance, hits)
        # For its own size the server has told whether there is a new copy.
        kept = hits if kept_from == distance else self._hits(key, kept_from, alive_at, now)
        self._refill(key, kept, now)

    def _refill(self, key: int, hits: list[tuple[float, float]], now: float) -> None:
        """There is a new copy in caches of all sizes but ``hits``."""
        before = self._fills[key]
        fills = [(0.0, now)]
        for start, end in hits:
            for place, (from_bytes, filled_at) in enumerate(before):
                until = before[place + 1][0] if place + 1 < len(before) else math.inf
                low, high = max(start, from_bytes), min(end, until)
                if low < high:
                    fills.append((low, filled_at))
            if end < math.inf:
                fills.append((end, now))
        self._fills[key] = fills[:_MOST_COPIES]

    def _schedule(self, key: int, now: float) -> None:
        """Now that the server has evicted it, nobody will tell when the object expires."""
        filled_at = self._fills[key][0][1]
        seconds = self._lifetime(key, now - filled_at)
        if seconds < math.inf:
            heapq.heappush(self._due, (filled_at + seconds, key, filled_at))

    def due(self, now_seconds: float) -> list[int]:
        """Objects that have expired in caches of every size since the last call."""
        gone = []
        while self._due and self._due[0][0] <= now_seconds:
            _, key, filled_at = heapq.heappop(self._due)
            if key in self._fills and self._fills[key][0][1] == filled_at:
                self._drop(key)
                gone.append(key)
        return gone

    def _drop(self, key: int) -> None:
        self._fills.pop(key, None)
        self._missed.discard(key)

    def keep_only(self, wanted: Container[int]) -> None:
        """Forget all objects but the wanted ones."""
        self._fills = {key: fills for key, fills in self._fills.items() if key in wanted}
        self._seconds = {key: s for key, s in self._seconds.items() if key in wanted}
        self._missed = {key for key in self._missed if key in wanted}
        self._due = [due for due in self._due if due[1] in self._fills]
        heapq.heapify(self._due)


def _at_size(fills: list[tuple[float, float]], size_bytes: float) -> float:
    """When the copy of a cache of ``size_bytes`` was filled."""
    filled_at = fills[0][1]
    for start, at in fills:
        if start > size_bytes:
            break
        filled_at = at
    return filled_at
