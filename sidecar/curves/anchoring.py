"""Anchoring bends a curve so that it says, at the sizes the server had, what the server saw."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_FEWEST_MISSES = 100.0
# A factor beyond these says that the model is wrong, which a factor on misses cannot mend.
_LEAST_FACTOR, _MOST_FACTOR = 0.5, 2.0


class Anchor:
    """Bends a curve through one point: mean observed over mean predicted miss ratio, of the
    windows that tell of the server's size (``tells_of_its_size``); faded.

    Where the server misses more than twice as often as predicted, all hits are scaled. Otherwise
    larger caches than at that point have their misses scaled, and smaller ones their hits. So the
    curve stays within [0, 1] and never increases. The form is chosen by experiment: forms were
    compared on the same recordings of allkeys-lru on Redis 7.0.15. There were ten loads (Twitter,
    orm-busy and Zipf 0.99, some with TTLs), with five servers each that predict five sizes. The
    mean error was 0.0033, the worst 0.018, as with the misses scaled everywhere. Raising the curve
    to a power and adding the difference had 0.0035, and scaling the hits everywhere 0.0037. This
    form had 0.0032 if it faded with the distance from the present size. No anchor at all had 0.0034
    and 0.019: where bytes are accounted for, an anchor gains little but at the present size, and
    what else the model gets wrong there.
    """

    def __init__(self) -> None:
        self._observed = 0.0
        self._predicted = 0.0
        self._reads = 0.0

    def add(self, observed_misses: float, predicted_misses: float, reads: float) -> None:
        """Take one window."""
        self._observed += observed_misses
        self._predicted += predicted_misses
        self._reads += reads

    @property
    def sums(self) -> tuple[float, float, float]:
        """Return all that it knows; may be set."""
        return self._observed, self._predicted, self._reads

    @sums.setter
    def sums(self, sums: tuple[float, float, float]) -> None:
        self._observed, self._predicted, self._reads = sums

    def decay(self, factor: float) -> None:
        """Let the windows so far count ``factor`` times as much."""
        self._observed *= factor
        self._predicted *= factor
        self._reads *= factor

    @property
    def drift_ratio(self) -> float:
        """Return the mean predicted less observed miss ratio; 0 without a window."""
        return (self._predicted - self._observed) / self._reads if self._reads else 0.0

    def anchored(self, miss_ratios: FloatArray) -> FloatArray:
        """Return ``miss_ratios`` bent, shape (k,). They are unchanged with too few misses to
        tell."""
        if self._observed < _FEWEST_MISSES:
            return miss_ratios
        predicted = min(1.0, self._predicted / self._reads)
        observed = min(1.0, self._observed / self._reads)
        if observed > _MOST_FACTOR * predicted:
            # If keys go that no size would keep (fields that expire), they go at each size.
            return np.asarray(1 - (1 - miss_ratios) * (1 - observed) / (1 - predicted))
        if self._predicted < _FEWEST_MISSES:
            return miss_ratios
        observed = max(_LEAST_FACTOR * predicted, observed)
        if predicted >= 1 or observed >= 1:
            return miss_ratios
        of_hits = (1 - observed) / (1 - predicted)
        bent = np.where(
            miss_ratios > predicted,
            1 - (1 - miss_ratios) * of_hits,
            miss_ratios * (observed / predicted),
        )
        return np.asarray(np.clip(bent, 0.0, 1.0))
