"""How much deeper reads will reach than they did: a margin for chance, and growth."""

from __future__ import annotations

from collections import deque

import numpy as np

from sidecar.curves.curve_points import FloatArray

# Standard errors of where a cliff is: it is known by so many sampled objects.
_MARGIN_ERRORS = 2.0
_FEWEST_OBJECTS = 16
# Steps over which growth is measured, and how many such times ahead it is expected to go on.
_STEPS = 4
_TIMES_AHEAD = 3.0
_GROWTH = 2.0
_MOST_GROWTH = 0.25
_KNOWN_BEFORE = 0.99


class GrowthMargin:
    """Of one server's stack.

    A cliff of the curve that stands a little too far left makes a plan that loses everything, one
    too far right costs the difference. And a working set that still grows looks flat beyond what
    it has now. Depth d becomes d (1 + 2 / √objects) (1 + 2 g min(1, d/W)²), where W is what the
    stack weighs, and g the share of it that is new, as it is expected to go on: only sizes that
    hold nearly all that was ever read are to hold what comes, too.
    """

    def __init__(self) -> None:
        self._weights: deque[float] = deque(maxlen=_STEPS + 1)
        self._objects = 0
        self._was_known = False

    def step(self, weight_bytes: float, objects: int) -> None:
        """At the end of a step: what the stack stands for, and objects in it."""
        self._weights.append(weight_bytes)
        self._objects = objects
        self._was_known |= len(self._weights) > _STEPS and not self._is_unknown

    def forget(self) -> None:
        """The stack is another one."""
        self._weights.clear()
        self._was_known = False

    @property
    def growth_ratio(self) -> float:
        """g above; 0 until it is known."""
        if len(self._weights) <= _STEPS or self._weights[-1] <= 0:
            return 0.0
        return _TIMES_AHEAD * max(0.0, 1 - self._weights[0] / self._weights[-1])

    @property
    def error_ratio(self) -> float:
        """Of a curve where so much is new that most keys had no time to come back: 1 where nothing
        was ever known, and hardly less where something was; else 0."""
        if not self._is_unknown:
            return 0.0
        return _KNOWN_BEFORE if self._was_known else 1.0

    @property
    def _is_unknown(self) -> bool:
        return self.growth_ratio > _MOST_GROWTH

    def filled_shares(self, held_bytes: FloatArray, full_bytes: float) -> FloatArray:
        """In how much of the time lately servers that hold so much were full; shape as given.

        The server that there is has been so with ``full_bytes``. A larger one was when more had
        been read than it holds.
        """
        first = max(full_bytes, self._weights[0] if len(self._weights) > 1 else 0.0)
        last = max(first, self._weights[-1] if self._weights else 0.0)
        if last <= first:
            return np.asarray(held_bytes <= first, dtype=np.float64)
        return np.asarray(np.clip((last - held_bytes) / (last - first), 0.0, 1.0))

    def depths(self, depths_bytes: FloatArray) -> FloatArray:
        """What depths are to be taken for; shape as given."""
        margin = 1 + _MARGIN_ERRORS / np.sqrt(max(_FEWEST_OBJECTS, self._objects))
        grown = np.ones(len(depths_bytes))
        if growth := self.growth_ratio:
            held = np.minimum(depths_bytes, self._weights[-1]) / self._weights[-1]
            grown = 1 + _GROWTH * growth * held**2
        return np.asarray(depths_bytes * margin * grown)
