"""The fills of ``sidecar/curves/fills.py`` in Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sidecar.curves.fills import Counted
from sidecar.samples.wire_format import Operation

_READ_MISS, _WRITE = int(Operation.READ_MISS), int(Operation.WRITE)


class Fills:
    """Pairs the first miss of each key with the first write after it.

    A bounded number of misses wait: at most ``most_pending``, each for ``longest_us``.
    """

    def __init__(self, longest_us: float, most_pending: int) -> None:
        self._longest_us = longest_us
        self._most_pending = most_pending
        self._missed_at_us: dict[int, float] = {}

    def take(
        self,
        keys: npt.NDArray[np.uint64],
        operations: npt.NDArray[np.uint8],
        times_us: npt.NDArray[np.float64],
        now_us: float,
    ) -> Counted:
        """Take accesses in order, shapes (n,), of which the last was at ``now_us``."""
        places = np.flatnonzero((operations == _READ_MISS) | (operations == _WRITE))
        pending = self._missed_at_us
        waited: list[float] = []
        for key, missed, time_us in zip(
            keys[places].tolist(),
            (operations[places] == _READ_MISS).tolist(),
            times_us[places].tolist(),
            strict=True,
        ):
            if missed:
                pending.setdefault(key, time_us)
            elif key in pending:
                waited.append(max(0.0, time_us - pending.pop(key)))
        in_time = [one for one in waited if one <= self._longest_us]
        unfilled = len(waited) - len(in_time) + self._give_up(now_us - self._longest_us)
        return Counted(len(in_time), unfilled, sum(one / 1e6 for one in in_time))

    def _give_up(self, before_us: float) -> int:
        """Forget the misses that waited too long, whose number is returned, and the oldest of too
        many."""
        pending, old = self._missed_at_us, 0
        while pending:
            oldest = next(iter(pending))
            if pending[oldest] >= before_us and len(pending) <= self._most_pending:
                break
            # That there are many does not show that they stay unfilled: only the old ones count.
            old += pending.pop(oldest) < before_us
        return old

    def clear(self) -> None:
        """Forget the misses that wait."""
        self._missed_at_us.clear()
