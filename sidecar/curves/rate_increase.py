"""A higher sampling rate for a stack that has few objects left, or whose server samples more."""

from __future__ import annotations

import math

from sidecar.curves.batch_by_parts import Parts, references_of
from sidecar.curves.shards import Shards
from sidecar.samples.batch import Batch

# The successor knows enough when it has seen this share of what the present stack has seen, less
# so many standard errors of that: a few objects tell hardly how much it was.
_SEEN_SHARE, _ERRORS = 0.9, 2.0


class RateIncrease:
    """The objects of a higher rate have no history. So a successor learns beside the present stack,
    and takes its place when it has seen as much.

    Attributes:
        successor: takes the same batches as the present stack; ``None``: none is needed.
    """

    def __init__(self, half_life_seconds: float) -> None:
        self._half_life_seconds = half_life_seconds
        self._since_us = 0
        self.successor: Shards | None = None

    def give_up(self) -> None:
        """The server is empty, and the present stack as well."""
        self.successor = None

    def take(self, batch: Batch, parts: Parts) -> Shards:
        """The stack to go on with. The successor, if there is one, takes what the present one has
        taken."""
        shards = parts.shards
        if shards.threshold is None or shards.threshold >= batch.threshold:
            self.successor = None
            return shards
        if self.successor is None:
            if shards.live_objects is None or len(shards) < shards.live_objects // 4:
                self.successor = Shards(shards.live_objects)
                self._since_us = batch.last_time_us
            return shards
        successor = self.successor
        references_of(successor, batch, parts)
        successor.volatile = shards.volatile
        age_seconds = (batch.last_time_us - self._since_us) / 1e6
        if not self._has_seen_as_much(shards) and age_seconds <= self._half_life_seconds:
            return shards
        successor.simulation, self.successor = shards.simulation, None
        if successor.simulation is not None:
            successor.fit_simulation()
        return successor

    def _has_seen_as_much(self, shards: Shards) -> bool:
        successor = self.successor
        if successor is None or not successor.rate or len(successor) < len(shards):
            return False
        seen = successor.stack.total_weight / successor.rate
        share = max(0.0, _SEEN_SHARE - _ERRORS / math.sqrt(max(1, len(shards))))
        return seen >= share * shards.stack.total_weight / max(shards.rate, 1e-18)
