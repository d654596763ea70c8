"""How long objects live whose TTL is not told: learnt from those that were seen to expire."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import deque
from itertools import accumulate

_MOST_OBSERVED = 2048
_FEWEST_EXPIRIES = 20


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
