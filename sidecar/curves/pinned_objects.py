"""Follows objects that a server never evicts: keys without a TTL, under ``volatile-*``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sidecar.curves.references import Accesses, FloatArray
from sidecar.samples.wire_format import FLAG_TTL, Operation


class PinnedReads(NamedTuple):
    """Holds what accesses are for the stack of the others.

    Attributes:
        operations: shape (n,), of all accesses, with a DELETE where an object is pinned.
        is_pinned: shape (reads,), whether a read is of a pinned object.
        beside_bytes: shape (reads,), what was pinned when a read came.
    """

    operations: npt.NDArray[np.uint8]
    is_pinned: npt.NDArray[np.bool_]
    beside_bytes: FloatArray


class PinnedObjects:
    """Holds the sampled ones, and an estimate for all.

    Attributes:
        weights: in bytes, by key.
        default_bytes: of an object of unknown size.
    """

    def __init__(self) -> None:
        self.weights: dict[int, int] = {}
        self.default_bytes = 1
        self._weight = 0
        self._least = 0.0
        self._scale = 1.0

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def total_weight(self) -> int:
        """Return the weight of the sampled ones."""
        return self._weight

    def bytes_at(self, rate: float) -> float:
        """Estimate for all pinned objects, sampled or not, as of now; ``rate`` is of the sample.

        As many as the server last counted (``know``), less those that were seen to leave; more as
        soon as more have been seen. Without any that were seen, each is of the mean size.
        """
        seen = len(self.weights)
        if not seen:
            return max(0.0, self._least) * self.default_bytes
        count = max(self._least, self._scale * seen / rate)
        return count * self._weight / seen

    def know(self, count: int, rate: float) -> None:
        """The server has just counted ``count`` keys that it never evicts."""
        if not count:
            self.keep_only(lambda _: False)
        seen = len(self.weights) / rate if self.weights else 0.0
        self._least = float(count)
        # Fewer than seen: more of them happened to be sampled than their share.
        self._scale = min(1.0, count / seen) if seen else 1.0

    def take(self, part: Accesses, rate: float) -> PinnedReads:
        """Follow the accesses, which pin some objects and unpin others."""
        weights = self.weights
        operations = part.operations.copy()
        read_is_pinned: list[bool] = []
        beside: list[float] = []
        beside_now = self.bytes_at(rate)
        for place, (key, operation, weight, has_ttl, ttl_known) in enumerate(
            zip(
                part.keys.tolist(),
                part.operations.tolist(),
                part.weights.tolist(),
                (part.flags & FLAG_TTL != 0).tolist(),
                part.ttl_known.tolist(),
                strict=True,
            )
        ):
            is_there = operation in (Operation.READ_HIT, Operation.WRITE)
            is_pinned = is_there and not has_ttl and (ttl_known or key in weights)
            if is_pinned:
                before = weights.get(key)
                if before is None or (weight and weight != before):
                    weights[key] = weight or self.default_bytes
                    self._weight += weights[key] - (before or 0)
                    beside_now = self.bytes_at(rate)
                operations[place] = Operation.DELETE
            elif operation != Operation.EVICTION and key in weights:
                self._weight -= weights.pop(key)
                self._least -= self._scale / rate
                beside_now = self.bytes_at(rate)
            if operation <= Operation.READ_MISS:
                read_is_pinned.append(is_pinned)
                beside.append(beside_now)
        return PinnedReads(
            operations, np.array(read_is_pinned, dtype=bool), np.array(beside, dtype=np.float64)
        )

    def keep_only(self, stays: Callable[[int], bool]) -> None:
        """Keep the objects that ``stays`` accepts; the server no longer has the others."""
        before = len(self.weights)
        self.sample_only(stays)
        if before:
            self._least *= len(self.weights) / before

    def sample_only(self, stays: Callable[[int], bool]) -> None:
        """Keep the objects that ``stays`` accepts; the others are no longer sampled."""
        self._replace({key: weight for key, weight in self.weights.items() if stays(key)})

    def add_weight(self, more_bytes: int) -> None:
        """Make each object ``more_bytes`` heavier (lighter, if negative), but 1 at least."""
        self._replace({key: max(1, w + more_bytes) for key, w in self.weights.items()})

    def _replace(self, weights: dict[int, int]) -> None:
        self.weights, self._weight = weights, sum(weights.values())
