"""The lifetimes of ``sidecar/curves/lifetimes.py`` in Python."""

from __future__ import annotations

import math
from collections.abc import Container

from sidecar.curves.lifetimes import LifetimeDistribution, TimedAccesses
from sidecar.samples.wire_format import Operation
from tests.oracles.copies_by_size import Copies, at_size, last_of, merged
from tests.oracles.corrections import Corrections
from tests.oracles.due_expiries import DueExpiries

# The clocks of two records of one object may differ by so much.
_CLOCK_GRAIN_SECONDS = 0.05
# TTLs are whole ms, and the last of them still belongs to the object's life.
_TTL_GRAIN_SECONDS = 0.001
# Weight of the newest expiry in the usual delay.
_DELAY_SHARE = 1 / 64


class Lifetimes:
    """Follows the sampled objects with a TTL of one server.

    An object that was evicted and read again has copies of different ages in caches of different
    sizes: the server filled it anew, a larger one still has the older copy, which expires sooner.
    So for each object the time when it expires is kept by cache size, as a list of ``(from size,
    expires at)``, sizes ascending from 0. When the server's own copy expires, the object leaves
    all sizes: a smaller cache may have had a younger copy, which is neglected.

    A server finds an expired object late, unless it is asked for; until then it takes memory.
    Those that other sizes would have are taken out with the delay that is usual.

    Attributes:
        distribution: of the lifetimes that are not told.
        shortest_seconds: the shortest lifetime since the last ``refresh`` but one; ``inf`` if no
            object had a TTL.
    """

    def __init__(self) -> None:
        self.distribution = LifetimeDistribution()
        self._copies: dict[int, Copies] = {}
        # The lifetime that each object was given last, for caches that fill it by themselves.
        self._given_seconds: dict[int, float] = {}
        # When the server filled an object whose lifetime is not told.
        self._filled_at: dict[int, float] = {}
        # Read, and not there: when copies of it expire that have just been made, as far as known.
        self._missed: dict[int, float] = {}
        self._due = DueExpiries()
        self._delay_seconds = 0.0
        self._shortest_seconds = self._shortest_before = math.inf

    def __len__(self) -> int:
        return len(self._copies)

    @property
    def waiting(self) -> int:
        """Return how many entries it keeps of what is to expire."""
        return len(self._due)

    @property
    def shortest_seconds(self) -> float:
        return min(
            self._shortest_seconds, self._shortest_before, self.distribution.shortest_seconds
        )

    def refresh(self, average_left_seconds: float) -> None:
        """Guess anew, see ``LifetimeDistribution.refresh``."""
        self.distribution.refresh(average_left_seconds)
        self._shortest_before, self._shortest_seconds = self._shortest_seconds, math.inf

    def take(self, accesses: TimedAccesses, resident_bytes: float) -> Corrections:
        """Take accesses in order. ``resident_bytes`` is the size that the server has itself;
        ``inf`` while it evicts nothing."""
        corrections = Corrections()
        copies = self._copies
        distances = iter(accesses.distances_bytes.tolist())
        for key, operation, left, now in zip(
            accesses.keys.tolist(),
            accesses.operations.tolist(),
            accesses.left_seconds.tolist(),
            accesses.times_seconds.tolist(),
            strict=True,
        ):
            if operation <= Operation.READ_MISS:
                distance = next(distances)
                if operation == Operation.READ_HIT and left < math.inf:
                    self._look(key, now + left, resident_bytes)
                if key not in copies:
                    continue
                if distance == math.inf:
                    self._drop(key)
                else:
                    self._read(key, operation, distance, resident_bytes, now, corrections)
            elif operation == Operation.WRITE:
                if left == math.inf:
                    self._drop(key)
                else:
                    self._write(key, left, now)
            elif key in copies and operation == Operation.EXPIRY:
                self._expire(key, now, resident_bytes)
            elif key in copies and operation == Operation.EVICTION:
                self._evict(key, now)
            elif operation == Operation.DELETE:
                self._drop(key)
        return corrections

    def _look(self, key: int, expires_at: float, resident_bytes: float) -> None:
        """The server has told when its copy expires."""
        copies = self._copies.get(key)
        if copies is not None:
            known = at_size(copies, resident_bytes)
            if abs(expires_at - known) <= _CLOCK_GRAIN_SECONDS:
                return
        # It was written before, or unnoticed.
        self._copies[key] = [(0.0, expires_at)]
        self._filled_at.pop(key, None)

    def _write(self, key: int, left: float, now: float) -> None:
        if math.isnan(left):
            left = self._guess(key, 0.0)
            self._filled_at[key] = now
        else:
            self._given_seconds[key] = left
            self._filled_at.pop(key, None)
            self._shortest_seconds = min(self._shortest_seconds, left)
        made = self._missed.pop(key, None)
        copies = self._copies.get(key)
        if made is None or copies is None:
            self._copies[key] = [(0.0, now + left)]
        else:
            # The fill of the miss: the larger caches that had it keep their copy.
            self._copies[key] = [(start, now + left if at == made else at) for start, at in copies]

    def _guess(self, key: int, age_seconds: float) -> float:
        """A lifetime that is not told, of an object that has lived for ``age_seconds``."""
        seconds = self._given_seconds.get(key)
        if seconds is None or seconds <= age_seconds:
            drawn = self.distribution.draw(age_seconds)
            if drawn is None:
                return math.inf
            seconds = self._given_seconds[key] = drawn
        return seconds

    def _expire(self, key: int, now: float, resident_bytes: float) -> None:
        filled_at = self._filled_at.get(key)
        if filled_at is not None:
            self.distribution.add(now - filled_at, expired=True)
            self._given_seconds[key] = now - filled_at
        else:
            late = now - at_size(self._copies[key], resident_bytes)
            self._delay_seconds += _DELAY_SHARE * (max(0.0, late) - self._delay_seconds)
        self._drop(key)

    def _evict(self, key: int, now: float) -> None:
        """Note an eviction: from now on nobody will tell when the object expires."""
        filled_at = self._filled_at.get(key)
        if filled_at is not None:
            self.distribution.add(now - filled_at, expired=False)
            self._outlives(key, now - filled_at)
        last = last_of(self._copies[key])
        if last < math.inf:
            self._due.add(last + self._delay_seconds, key, last)
            self._due.limit(len(self._copies), self._is_last)

    def _outlives(self, key: int, age_seconds: float) -> None:
        """The server's copy, whose lifetime is a guess, is older than that, or nothing was known
        when it was filled."""
        copies, filled_at = self._copies[key], self._filled_at[key]
        before = self._given_seconds.get(key, math.inf)
        if age_seconds < before < math.inf:
            return
        seconds = self._guess(key, age_seconds)
        if before < math.inf:
            self._copies[key] = [(start, at + seconds - before) for start, at in copies]
        else:
            self._copies[key] = [(0.0, filled_at + seconds)]

    def _read(
        self,
        key: int,
        operation: int,
        distance: float,
        resident_bytes: float,
        now: float,
        corrections: Corrections,
    ) -> None:
        at_least, kept_from = now, distance
        if operation == Operation.READ_HIT:
            filled_at = self._filled_at.get(key)
            if filled_at is not None:
                self._outlives(key, now - filled_at)
            # What expires as the server's own copy does is still alive.
            at_least = min(now, at_size(self._copies[key], resident_bytes))
            kept_from = min(distance, resident_bytes)
        elif resident_bytes < math.inf:
            kept_from = max(distance, resident_bytes)
        hits = self._hits(key, distance, at_least)
        corrections.replace(key, distance, hits)
        # For its own size the server has told whether there is a new copy.
        kept = hits if kept_from == distance else self._hits(key, kept_from, at_least)
        expires_at = now + self._given_seconds.get(key, math.inf)
        if expires_at == math.inf:
            # It was only ever read: as if it had been filled when that began.
            expires_at = last_of(self._copies[key])
        if operation == Operation.READ_MISS:
            self._missed[key] = expires_at
        self._refill(key, kept, expires_at)

    def _hits(self, key: int, distance: float, at_least: float) -> list[tuple[float, float]]:
        """Intervals of sizes, from ``distance`` up, in which a copy lives until ``at_least``."""
        copies = self._copies[key]
        hits: list[tuple[float, float]] = []
        for place, (start, expires_at) in enumerate(copies):
            end = copies[place + 1][0] if place + 1 < len(copies) else math.inf
            if end <= distance or expires_at < at_least - _TTL_GRAIN_SECONDS:
                continue
            start = max(start, distance)
            if hits and hits[-1][1] == start:
                start = hits.pop()[0]
            hits.append((start, end))
        return hits

    def _refill(self, key: int, hits: list[tuple[float, float]], expires_at: float) -> None:
        """There is a new copy in caches of all sizes but ``hits``."""
        before = self._copies[key]
        copies = [(0.0, expires_at)]
        for start, end in hits:
            for place, (from_bytes, at) in enumerate(before):
                until = before[place + 1][0] if place + 1 < len(before) else math.inf
                low, high = max(start, from_bytes), min(end, until)
                if low < high:
                    copies.append((low, at))
            if end < math.inf:
                copies.append((end, expires_at))
        self._copies[key] = merged(copies)

    def due(self, now_seconds: float) -> list[int]:
        """Objects that have expired in caches of every size since the last call."""
        gone = [key for key, at in self._due.pop_until(now_seconds) if self._is_last(key, at)]
        for key in gone:
            self._drop(key)
        return gone

    def _is_last(self, key: int, expires_at: float) -> bool:
        """Whether that is when the last copy expires."""
        copies = self._copies.get(key)
        return copies is not None and last_of(copies) == expires_at

    def _drop(self, key: int) -> None:
        self._copies.pop(key, None)
        self._missed.pop(key, None)
        self._filled_at.pop(key, None)

    def keep_only(self, wanted: Container[int]) -> None:
        """Forget all objects but the wanted ones."""
        for kept in (self._copies, self._given_seconds, self._filled_at, self._missed):
            for key in [key for key in kept if key not in wanted]:
                del kept[key]
        self._due.drop_stale(self._is_last)
